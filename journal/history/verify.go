package history

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"latchfs/journal"
	"latchfs/journal/history/internal/logend"
	"latchfs/journal/statedir"
)

// missesLog is an error if the log is missing, or has no header, beside old contents: it is made before
// them, and what it does not name is removed.
func (s *Store) missesLog() error {
	if len(s.x.reading.onDisk) == 0 {
		return nil
	}
	var st unix.Stat_t
	err := unix.Fstatat(int(s.dir.Fd()), logName, &st, unix.AT_SYMLINK_NOFOLLOW)
	if err == nil && st.Mode&unix.S_IFMT == unix.S_IFREG && st.Size < logend.HeaderSize {
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
	s := bare(fd)
	defer s.dir.Close()
	if err = s.startReading(); err == nil {
		err = s.missesLog()
	}
	if err == nil {
		_, _, err = journal.CheckLog(s.dir, logName, logend.Least(s.dir, logName), func(int64, []byte) error { return nil })
	}
	if err == nil || errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return fmt.Errorf("history: %w", err)
}

// bare is a store with no more than an empty index.
func bare(fd int) *Store { return &Store{dir: os.NewFile(uintptr(fd), Dir), x: newIndex()} }
