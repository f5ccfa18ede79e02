package disk

import (
	"bytes"
	"io"
	"os"
	"sync"

	"golang.org/x/sys/unix"

	"latchfs/journal"
)

// Verify compares the bytes of fd that a record is about with its checksum, and if they differ
// reports whether a part of them was lost: it reads as zeros, from the record's
// beginning or a sector's to the end of the sector or the record.
func Verify(fd int, a journal.Append) (ok, lost bool, err error) {
	var crc uint32
	err = ReadRange(fd, a.Offset, a.End(), func(at int64, b []byte) bool {
		crc = journal.UpdateChecksum(crc, b)
		for len(b) > 0 {
			n := min(int64(len(b)), sectorSize-at%sectorSize)
			lost = lost || len(bytes.TrimLeft(b[:n], "\x00")) == 0
			at, b = at+n, b[n:]
		}
		return true
	})
	if err != nil || crc == a.CRC {
		return err == nil, false, err
	}
	return false, lost, nil
}

// sectorSize is the smallest unit that a disk writes or loses.
const sectorSize = 512

// buffers are those of ReadRange: a commit of a small file would mostly make garbage.
var buffers = sync.Pool{New: func() any { b := make([]byte, 64<<10); return &b }}

// ReadRange calls fn with the bytes of fd from start to end, in pieces that begin at
// sectors, until it returns false. The bytes are fn's until it returns.
func ReadRange(fd int, start, end int64, fn func(at int64, b []byte) bool) error {
	pooled := buffers.Get().(*[]byte)
	defer buffers.Put(pooled)
	buf := *pooled
	for start < end {
		n, err := unix.Pread(fd, buf[:min(end-start, int64(len(buf))-start%sectorSize)], start)
		switch {
		case err == unix.EINTR:
			continue
		case err != nil:
			return os.NewSyscallError("pread", err)
		case n == 0 || !fn(start, buf[:n]):
			return nil
		}
		start += int64(n)
	}
	return nil
}

// Checksum is the CRC-32C of the size bytes of a file.
func Checksum(fd int, size int64) (crc uint32, err error) {
	var n int64
	err = ReadRange(fd, 0, size, func(_ int64, b []byte) bool {
		crc = journal.UpdateChecksum(crc, b)
		n += int64(len(b))
		return true
	})
	if err == nil && n != size {
		err = io.ErrUnexpectedEOF
	}
	return crc, err
}
