package disk

import (
	"io"

	"golang.org/x/sys/unix"

	"latchfs/journal"
)

// ReopenDirect opens the file behind fd anew, so that reads of it ask the disk and not
// what the kernel has in memory.
func ReopenDirect(fd int) (int, error) {
	return unix.Open(procFD(fd), unix.O_RDONLY|unix.O_DIRECT|unix.O_CLOEXEC, 0)
}

// ChecksumDirect is the CRC-32C of the size bytes of a file that ReopenDirect has opened.
func ChecksumDirect(fd int, size int64) (crc uint32, err error) {
	buf, err := unix.Mmap(-1, 0, 256<<10, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON) // whole pages
	if err != nil {
		return 0, err
	}
	defer func() { _ = unix.Munmap(buf) }()
	for at := int64(0); at < size; {
		n, err := unix.Pread(fd, buf, at)
		switch {
		case err == unix.EINTR:
			continue
		case err != nil:
			return 0, err
		case n == 0:
			return 0, io.ErrUnexpectedEOF
		}
		part := min(int64(n), size-at)
		crc = journal.UpdateChecksum(crc, buf[:part])
		at += part
	}
	return crc, nil
}
