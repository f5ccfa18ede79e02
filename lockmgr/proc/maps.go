package proc

import (
	"bytes"
	"fmt"
	"math"
	"strconv"
	"unsafe"

	"golang.org/x/sys/unix"
)

// MapsWritable reports whether a process has a shared, writable mapping of a
// file: stores to it may still change the file after the last close. With
// passthrough the kernel may name the FUSE file or the file behind it, so both
// are looked for; a zero File is none. A process that has gone, or is inside
// execve, maps nothing any more. The error is ErrBusy while the process's memory
// is locked otherwise.
func (r *Reader) MapsWritable(pid int32, f, backing File) (bool, error) {
	is := func(dev, ino uint64) bool {
		return ino != 0 && (f.has(ino) && dev == f.Dev || ino == backing.Ino && dev == backing.Dev)
	}
	if r.inExec(pid) {
		return false, nil
	}
	found, err := patiently(r, pid, func(*asking) (bool, error) {
		found, err := r.searchMaps(taskPath(pid, pid, "maps"), is)
		if err != ErrGone {
			return found, err
		}
		// A leader that has ended shows no memory; the other threads do.
		tid, err := r.otherThread(pid)
		if err != nil {
			return false, err
		}
		return r.searchMaps(taskPath(pid, tid, "maps"), is)
	})
	if err == ErrGone || err == ErrBusy && r.inExec(pid) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("mappings of process %d: %w", pid, err)
	}
	return found, nil
}

// otherThread finds a thread of a process that is not its leader.
func (r *Reader) otherThread(pid int32) (int32, error) {
	tids, err := r.threadsOf(pid)
	if err != nil {
		return 0, err
	}
	for _, tid := range tids {
		if tid != pid {
			return tid, nil
		}
	}
	return 0, ErrGone
}

// searchMaps looks for a shared writable mapping that is the one searched for.
// It is ErrGone where there is no memory.
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
	text, err := readRest(fd, nil, math.MaxInt)
	if err == nil && len(text) == 0 {
		err = ErrGone
	}
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
