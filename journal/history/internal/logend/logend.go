// Package logend notes where the log of the history ended at a clean stop, in a file beside
// it. A log that ends before it was cut: a crash leaves what was on disk.
//
// The file says which log it was, and what was in it: a log that was rewritten, or put back from
// a copy, may be shorter. It goes as soon as the log is open again.
package logend

import (
	"encoding/json"
	"errors"
	"io"
	"os"

	"golang.org/x/sys/unix"

	"latchfs/journal"
	"latchfs/journal/statedir"
)

// Name is the name of that file.
const Name = "log.end"

// HeaderSize is how many bytes a log has without records.
const HeaderSize = 16

// note is what the file says, as JSON.
type note struct {
	Size int64 `json:"size"`
	// File is which file the log was: one that was rewritten is another.
	File identity `json:"file"`
	// Sums are the checksums of the log's first 16, 32, 64 bytes and so on, by which
	// the log is told from another one: another version of latchfs may have rewritten
	// it, and not know this file.
	Sums []uint32 `json:"sums"`
}

// identity tells a file from others, also from those that get its inode number later.
type identity struct {
	Ino  uint64 `json:"ino"`
	Sec  int64  `json:"sec"` // of its birth
	Nsec uint32 `json:"nsec"`
}

// identityOf is the identity of an open file; false where the filesystem does not tell.
func identityOf(f *os.File) (identity, bool) {
	var st unix.Statx_t
	err := unix.Statx(int(f.Fd()), "", unix.AT_EMPTY_PATH, unix.STATX_INO|unix.STATX_BTIME, &st)
	return identity{st.Ino, st.Btime.Sec, st.Btime.Nsec}, err == nil && st.Mask&unix.STATX_BTIME != 0
}

// maxSummed is of how many bytes of a log there are checksums at most.
const maxSummed = 64 << 10

// sumsOf are the checksums of the beginnings of a log.
func sumsOf(log io.ReaderAt, size int64) (sums []uint32, err error) {
	buf := make([]byte, min(size, maxSummed))
	if _, err := log.ReadAt(buf, 0); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	crc, from := uint32(0), 0
	for to := HeaderSize; to <= len(buf); to *= 2 {
		crc = journal.UpdateChecksum(crc, buf[from:to])
		sums, from = append(sums, crc), to
	}
	return sums, nil
}

// Write notes where the log of that name ends, which is closed, on disk, and has that size. Where
// that cannot be noted nothing is lost.
func Write(dir *os.File, logName string, size int64) {
	var b []byte
	log, err := statedir.File(dir, logName, unix.O_RDONLY)
	if err == nil {
		defer log.Close()
		b, err = encode(log, size)
	}
	var f *os.File
	if err == nil {
		f, err = statedir.File(dir, Name, unix.O_WRONLY|unix.O_CREAT|unix.O_TRUNC)
	}
	if err == nil {
		_, err = f.Write(b)
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		Remove(dir)
	}
}

func encode(log *os.File, size int64) ([]byte, error) {
	e := note{Size: size}
	st, err := log.Stat()
	if err == nil && st.Size() != e.Size {
		err = errors.New("somebody has written to the log")
	}
	var told bool
	if e.File, told = identityOf(log); !told {
		return nil, errors.New("nothing tells this log from another one")
	}
	if err == nil {
		e.Sums, err = sumsOf(log, e.Size)
	}
	if err != nil {
		return nil, err
	}
	return json.Marshal(e)
}

// Remove is called when the log is open: what is appended to it may be rewritten.
func Remove(dir *os.File) { _ = unix.Unlinkat(int(dir.Fd()), Name, 0) }

// Least is how many bytes of the log of that name have to be there, 0 if that is not known.
func Least(dir *os.File, logName string) int64 {
	f, err := statedir.File(dir, Name, unix.O_RDONLY)
	if err != nil {
		return 0
	}
	defer f.Close()
	var e note
	if json.NewDecoder(f).Decode(&e) != nil || e.Size < HeaderSize {
		return 0
	}
	log, err := statedir.File(dir, logName, unix.O_RDONLY)
	if err != nil {
		return 0
	}
	defer log.Close()
	st, err := log.Stat()
	if is, told := identityOf(log); err != nil || !told || is != e.File {
		return 0 // it was rewritten, or put back from a copy
	}
	sums, err := sumsOf(log, min(st.Size(), e.Size))
	if n := len(sums); err != nil || n == 0 || n > len(e.Sums) || sums[n-1] != e.Sums[n-1] {
		return 0 // another log
	}
	return e.Size
}
