package lazy

import (
	"fmt"

	"golang.org/x/sys/unix"

	"latchfs/journal/commit/internal/disk"
)

// LostError says that something could not be made durable that was acknowledged.
type LostError struct {
	Path string // relative to the data root; "": one that nobody has remembered
	Err  error

	in, dir disk.Inode
}

func (e *LostError) Error() string {
	if e.Path == "" {
		return fmt.Sprintf("some changes are not known to be on disk: %v", e.Err)
	}
	return fmt.Sprintf("%q is not known to be on disk: %v", e.Path, e.Err)
}

// Unwrap returns the error of the sync.
func (e *LostError) Unwrap() error { return e.Err }

// mostLost bounds how many failures are remembered until somebody asks.
const mostLost = 1024

// noteLost notes that a sync has failed: of the file or the directory in, in the directory
// dir. The next who asks for either to be on disk hears of it, and somebody is told now,
// unless that was done before.
func (s *Set) noteLost(path string, err error, told bool, in, dir disk.Inode) error {
	lost := &LostError{Path: path, Err: err, in: in, dir: dir}
	if told {
		return lost
	}
	s.mu.Lock()
	for _, key := range []disk.Inode{in, dir} {
		if key != (disk.Inode{}) && len(s.failed) < mostLost {
			s.failed[key] = lost
		}
	}
	s.mu.Unlock()
	if s.OnLost != nil {
		s.OnLost(path, err)
	}
	return lost
}

// Lost returns, once, why a file or what is in a directory could not be synced since
// somebody has asked for the last time: as fsync(2) does, which tells of an earlier
// failure, too.
func (s *Set) Lost(in disk.Inode) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	err := s.failed[in]
	delete(s.failed, in)
	if err == nil {
		return nil
	}
	return err
}

// isReallyOnDisk reports whether the disk has the content of a commit of which a sync has
// failed before. The kernel tells of a write that was lost only once, so the next sync
// says nothing. Where the disk cannot be asked, that has to do.
func (l *Commit) isReallyOnDisk() error {
	fd, err := disk.ReopenDirect(l.file.FD())
	if err != nil {
		return nil
	}
	defer unix.Close(fd)
	crc, err := disk.ChecksumDirect(fd, l.size)
	if err != nil {
		return err
	}
	if crc != l.crc {
		return unix.EIO
	}
	return nil
}
