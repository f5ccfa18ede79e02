package proc

import (
	"bytes"
	"encoding/binary"
	"strconv"
	"unsafe"

	"golang.org/x/sys/unix"
)

// opendir opens a directory of /proc for reading.
func (r *Reader) opendir(path string) (int, error) {
	return openat(r.proc, path, unix.O_RDONLY|unix.O_DIRECTORY)
}

// numbers calls visit for every entry of an open directory whose name is a
// number: descriptors, threads or processes. It stops at visit's first error.
func numbers(dir int, visit func(n int32) error) error {
	buf := buffers.Get().(*[firstRead]byte)
	defer buffers.Put(buf)
	for {
		n, err := unix.Getdents(dir, buf[:])
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return gone(err)
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

// threadsOf lists the threads of a process, the leader among them even if it
// has ended.
func (r *Reader) threadsOf(pid int32) ([]int32, error) {
	dir, err := r.opendir(pidPath(pid, "task"))
	if err != nil {
		return nil, err
	}
	defer unix.Close(dir)
	var tids []int32
	err = numbers(dir, func(tid int32) error {
		tids = append(tids, tid)
		return nil
	})
	return tids, err
}
