package procfs

import (
	"bytes"
	"encoding/binary"
	"strconv"
	"unsafe"

	"golang.org/x/sys/unix"
)

// OpenDir opens a directory for reading.
func (r *Root) OpenDir(path string) (int, error) {
	return OpenAt(r.dir, path, unix.O_RDONLY|unix.O_DIRECTORY)
}

// Numbers calls visit for every entry of an open directory whose name is a
// number: descriptors, threads or processes. It stops at visit's first error.
func Numbers(dir int, visit func(n int32) error) error {
	buf := buffers.Get().(*[FirstRead]byte)
	defer buffers.Put(buf)
	for {
		n, err := unix.Getdents(dir, buf[:])
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return Gone(err)
		}
		if n == 0 {
			return nil
		}
		for b := buf[:n]; len(b) > 0; {
			var name []byte
			name, b = dirent(b)
			v, err := strconv.ParseInt(string(name), 10, 32)
			if err != nil {
				continue
			}
			if err := visit(int32(v)); err != nil {
				return err
			}
		}
	}
}

// dirent takes the first entry off what getdents64(2) returned.
func dirent(b []byte) (name, rest []byte) {
	const header = int(unsafe.Offsetof(unix.Dirent{}.Name))
	reclen := int(binary.NativeEndian.Uint16(b[unsafe.Offsetof(unix.Dirent{}.Reclen):]))
	name, _, _ = bytes.Cut(b[header:reclen], []byte{0})
	return name, b[reclen:]
}

// Threads lists the threads of a process, the leader among them even if it
// has ended.
func (r *Root) Threads(pid int32) ([]int32, error) {
	dir, err := r.OpenDir(PIDPath(pid, "task"))
	if err != nil {
		return nil, err
	}
	defer unix.Close(dir)
	var tids []int32
	err = Numbers(dir, func(tid int32) error {
		tids = append(tids, tid)
		return nil
	})
	return tids, err
}
