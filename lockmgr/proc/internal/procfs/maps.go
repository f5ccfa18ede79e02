package procfs

import (
	"bytes"
	"math"
	"strconv"
	"unsafe"

	"golang.org/x/sys/unix"
)

// MapsShared reports whether the maps file of a process or thread has a shared writable
// mapping of a file that is one of those searched for. It is ErrGone where there is no
// memory, and blocks while the memory or exec lock of the process is taken.
func (r *Root) MapsShared(path string, is func(dev, ino uint64) bool) (bool, error) {
	fd, err := OpenAt(r.dir, path, unix.O_RDONLY)
	if err != nil {
		return false, err
	}
	defer unix.Close(fd)
	found, err := queryMaps(fd, is)
	if err != unix.ENOTTY {
		return found, err
	}
	text, err := ReadRest(fd, nil, math.MaxInt)
	if err == nil && len(text) == 0 {
		err = ErrGone
	}
	return ParseMaps(text, is), err
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
			return false, Gone(errno)
		}
		if is(unix.Mkdev(q.major, q.minor), q.ino) {
			return true, nil
		}
	}
}

// ParseMaps does the same on the text: "ADDRESS PERMS OFFSET DEV INODE PATH"
// (proc_pid_maps(5)).
func ParseMaps(text []byte, is func(dev, ino uint64) bool) bool {
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
