package proc

import (
	"bytes"
	"fmt"
	"strconv"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// MapsWritable reports whether a process has a shared, writable mapping of a
// file: stores to it may still change the file after the last close. With
// passthrough the kernel may name the FUSE file or the file behind it, so both
// are looked for; a zero File is none. A process that has gone, or is inside
// execve, maps nothing any more. The error is ErrBusy when the process's memory
// is locked (see the package comment).
func (r *Reader) MapsWritable(pid int32, f, backing File) (bool, error) {
	tid, ok, err := r.withMemory(pid)
	if err != nil || !ok {
		return false, err
	}
	is := func(dev, ino uint64) bool {
		return ino != 0 && (ino == f.Ino && dev == f.Dev || ino == backing.Ino && dev == backing.Dev)
	}
	found, err := patiently(func() (bool, error) { return r.searchMaps(taskPath(pid, tid, "maps"), is) })
	if err == ErrGone {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("mappings of process %d: %w", pid, err)
	}
	return found, nil
}

// withMemory finds a thread through which the memory of a process can be seen:
// that of a leader that has ended is shown by the other threads only. There is
// none if the process has ended or is giving up its memory in execve.
func (r *Reader) withMemory(pid int32) (tid int32, ok bool, err error) {
	st, err := r.stat(pid)
	if err == ErrGone || err == nil && (st.dead() || st.inExec()) {
		return 0, false, nil
	}
	if err != nil || st.state != 'Z' {
		return pid, err == nil, err
	}
	tids, err := r.threadsOf(pid)
	for _, tid := range tids {
		if tid != pid {
			return tid, true, nil
		}
	}
	return 0, false, err
}

// patience is how long to wait for a process's memory or exec lock.
const patience = 20 * time.Millisecond

// patiently calls a function that may block in the kernel and gives up on it
// after a moment with ErrBusy; it then ends by itself when the lock is free.
func patiently[T any](f func() (T, error)) (T, error) {
	type result struct {
		v   T
		err error
	}
	done := make(chan result, 1)
	go func() {
		v, err := f()
		done <- result{v, err}
	}()
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case res := <-done:
		return res.v, res.err
	case <-timer.C:
		var zero T
		return zero, ErrBusy
	}
}

// searchMaps looks for a shared writable mapping that is the one searched for.
func (r *Reader) searchMaps(path string, is func(dev, ino uint64) bool) (bool, error) {
	fd, err := openat(r.proc, path, unix.O_RDONLY)
	if err != nil {
		return false, err
	}
	defer unix.Close(fd)
	found, err := queryMaps(fd, is)
	if err != unix.ENOTTY {
		return found, err
	}
	text, err := readRest(fd, nil)
	return parseMaps(text, is), err
}

// procmapQuery is struct procmap_query of linux/fs.h.
type procmapQuery struct {
	size, flags, addr     uint64
	start, end, vmaFlags  uint64
	pageSize, offset, ino uint64
	major, minor          uint32
	nameSize, buildIDSize uint32
	nameAddr, buildIDAddr uint64
}

// From linux/fs.h.
const (
	ioctlProcmapQuery = 0xc0686611 // _IOWR('f', 17, struct procmap_query)

	procmapWritable   = 0x02
	procmapShared     = 0x08
	procmapNext       = 0x10 // the mapping at the address or the next one
	procmapFileBacked = 0x20
)

// queryMaps asks the kernel for just the shared writable file mappings, of
// which most processes have none. Kernels before 6.11 answer ENOTTY.
func queryMaps(fd int, is func(dev, ino uint64) bool) (bool, error) {
	q := &procmapQuery{}
	for addr := uint64(0); ; addr = q.end {
		*q = procmapQuery{
			size:  uint64(unsafe.Sizeof(*q)),
			flags: procmapWritable | procmapShared | procmapNext | procmapFileBacked,
			addr:  addr,
		}
		_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), ioctlProcmapQuery, uintptr(unsafe.Pointer(q)))
		switch errno {
		case 0:
		case unix.ENOENT:
			return false, nil
		case unix.EINTR:
			q.end = addr
			continue
		default:
			return false, gone(errno)
		}
		if is(unix.Mkdev(q.major, q.minor), q.ino) {
			return true, nil
		}
	}
}

// parseMaps does the same on the text: "ADDRESS PERMS OFFSET DEV INODE PATH"
// (proc_pid_maps(5)).
func parseMaps(text []byte, is func(dev, ino uint64) bool) bool {
	for line := range bytes.Lines(text) {
		fields := bytes.Fields(line)
		if len(fields) < 5 || len(fields[1]) < 4 || fields[1][1] != 'w' || fields[1][3] != 's' {
			continue
		}
		dev, ok := parseDev(fields[3], 16)
		ino, err := strconv.ParseUint(string(fields[4]), 10, 64)
		if ok && err == nil && is(dev, ino) {
			return true
		}
	}
	return false
}
