package lazy

import (
	"errors"

	"golang.org/x/sys/unix"

	"latchfs/journal/commit/internal/disk"
)

// soon are files and directories that are to be synced with the unsettled commits: those
// to which records were appended, and in which names were made, changed or removed.
type soon struct {
	fds  map[disk.Inode]int // own descriptors of them
	more bool               // there are others, which have none
	// gone are names that were taken away. A file that is made under one of them replaces
	// what it held: a crash must not leave neither.
	gone map[goneName]struct{}
}

type goneName struct {
	dir  disk.Inode
	name string
}

// mostSoon bounds how many have a descriptor. If there are more, the whole filesystem is
// synced.
const mostSoon = 256

// Soon makes what a file holds, or a directory's names, durable when the next commits
// are settled, after a second at the latest. open opens it for that; it is not called
// where that is on its way. What is in another filesystem below the data root is synced
// at once.
func (s *Set) Soon(in disk.Inode, open func() (int, error)) error {
	if !s.isOnRoot(in.Dev) {
		return s.syncNow(open)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, known := s.soon.fds[in]; known || s.soon.more || s.closed {
		return nil
	}
	s.armLocked()
	if len(s.soon.fds) >= mostSoon {
		s.soon.more = true
		return nil
	}
	fd, err := open()
	if err == nil {
		s.soon.put(in, fd)
	}
	return err
}

func (s *Set) syncNow(open func() (int, error)) error {
	fd, err := open()
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return s.disk.Do("fsync", func() error { return unix.Fsync(fd) })
}

func (d *soon) put(in disk.Inode, fd int) {
	if d.fds == nil {
		d.fds = map[disk.Inode]int{}
	}
	d.fds[in] = fd
}

// NameGone notes that a name of a directory was taken away, which Soon was told of.
func (s *Set) NameGone(dir disk.Inode, name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.soon.gone) >= mostSoon {
		s.soon.more = true
		return
	}
	s.soon.lose(goneName{dir, name})
	s.armLocked()
}

func (d *soon) lose(at goneName) {
	if d.gone == nil {
		d.gone = map[goneName]struct{}{}
	}
	d.gone[at] = struct{}{}
}

// isGoing reports whether the name may have held a file that a crash would bring back.
func (s *Set) isGoing(dir *unix.Stat_t, name string) bool {
	at := goneName{disk.InodeOf(dir), name}
	s.mu.Lock()
	defer s.mu.Unlock()
	_, now := s.soon.gone[at]
	_, then := s.syncing[at]
	return now || then || s.soon.more
}

// takeSoon takes those that are to be synced now. What is changed from now on is synced
// the next time.
func (s *Set) takeSoon() soon {
	s.mu.Lock()
	defer s.mu.Unlock()
	due := s.soon
	s.soon = soon{}
	s.syncing = due.gone
	return due
}

// syncEach syncs them one by one.
func (s *Set) syncEach(due *soon, do step) error {
	var errs []error
	for in, fd := range due.fds {
		if err := do("fsync", func() error { return unix.Fsync(fd) }); err != nil {
			errs = append(errs, err)
			continue
		}
		unix.Close(fd)
		delete(due.fds, in)
	}
	if len(errs) == 0 {
		due.gone = nil
	}
	return errors.Join(errs...)
}

// again gives those back that could not be synced: it is tried again.
func (s *Set) again(due *soon) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for in, fd := range due.fds {
		if _, known := s.soon.fds[in]; known {
			unix.Close(fd)
			continue
		}
		s.soon.put(in, fd)
	}
	s.soon.more = s.soon.more || due.more
	s.syncing = nil
	for at := range due.gone {
		s.soon.lose(at)
	}
}

// close gives back what is on disk.
func (d *soon) close() {
	for _, fd := range d.fds {
		unix.Close(fd)
	}
	*d = soon{}
}
