package history

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"

	"latchfs/journal"
	"latchfs/journal/statedir"
)

// endName is the file that says where the log ended at the last clean stop. A log that ends
// before it was cut: a crash leaves what was on disk.
const endName = "log.end"

// end is what that file says, as JSON.
type end struct {
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
	for to := logHeader; to <= len(buf); to *= 2 {
		crc = journal.UpdateChecksum(crc, buf[from:to])
		sums, from = append(sums, crc), to
	}
	return sums, nil
}

// writeEnd notes where the log ends, which is closed and on disk. Where that cannot be
// noted nothing is lost.
func (s *Store) writeEnd() {
	var b []byte
	log, err := statedir.File(s.dir, logName, unix.O_RDONLY)
	if err == nil {
		defer log.Close()
		b, err = s.encodeEnd(log)
	}
	var f *os.File
	if err == nil {
		f, err = statedir.File(s.dir, endName, unix.O_WRONLY|unix.O_CREAT|unix.O_TRUNC)
	}
	if err == nil {
		_, err = f.Write(b)
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		s.removeEnd()
	}
}

func (s *Store) encodeEnd(log *os.File) ([]byte, error) {
	e := end{Size: s.log.Size()}
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

// removeEnd is called when the log is open: what is appended to it may be rewritten.
func (s *Store) removeEnd() { _ = unix.Unlinkat(int(s.dir.Fd()), endName, 0) }

// leastLog is how many bytes of the log have to be there, 0 if that is not known.
func (s *Store) leastLog() int64 {
	f, err := statedir.File(s.dir, endName, unix.O_RDONLY)
	if err != nil {
		return 0
	}
	defer f.Close()
	var e end
	if json.NewDecoder(f).Decode(&e) != nil || e.Size < logHeader {
		return 0
	}
	log, err := statedir.File(s.dir, logName, unix.O_RDONLY)
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

// missesLog is an error if the log is missing, or has no header, beside old contents: it is made before
// them, and what it does not name is removed.
func (s *Store) missesLog() error {
	if len(s.x.reading.onDisk) == 0 {
		return nil
	}
	var st unix.Stat_t
	err := unix.Fstatat(int(s.dir.Fd()), logName, &st, unix.AT_SYMLINK_NOFOLLOW)
	if err == nil && st.Mode&unix.S_IFMT == unix.S_IFREG && st.Size < logHeader {
		return noLogError("cut off")
	}
	if errors.Is(err, unix.ENOENT) {
		return noLogError("missing")
	}
	return nil
}

// noLogError says what has become of the log.
type noLogError string

func (e noLogError) Error() string {
	return "its log is " + string(e) + " beside old contents, which no crash explains (nothing was changed)"
}

// Is makes it match journal.ErrCorrupt.
func (e noLogError) Is(target error) bool { return target == journal.ErrCorrupt }

// Verify returns the error with which Open refuses a log that is damaged, and changes nothing.
// It reads no more of the records than that they are whole.
func Verify(state *os.File) error {
	fd, err := statedir.OpenDir(int(state.Fd()), Dir)
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("history: %w", os.NewSyscallError("openat", err))
	}
	s := &Store{dir: os.NewFile(uintptr(fd), Dir), x: newIndex()}
	defer s.dir.Close()
	if err = s.startReading(); err == nil {
		err = s.missesLog()
	}
	if err == nil {
		_, _, err = journal.CheckLog(s.dir, logName, s.leastLog(), func(int64, []byte) error { return nil })
	}
	if err == nil || errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return fmt.Errorf("history: %w", err)
}
