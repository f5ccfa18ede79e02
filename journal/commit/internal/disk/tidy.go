package disk

import (
	"sync"

	"golang.org/x/sys/unix"

	"latchfs/journal/oldtimes"
)

// Names that no user of the mount sees go up to a second after the change for which they were
// made. Whoever looks at the directory meanwhile must not take that for a change: tar says that
// a file changed as it was read, and make builds again what depends on the directory. So the
// directory shows the times that it had before, in the mount, and until something else is done
// to it. That nothing else was done at the same time is counted (see changes), and what
// comes later has another time, where change times tell; elsewhere the times are as they are.

// tidied says which directories show other times than they have.
type tidied struct {
	mu             sync.Mutex
	mtimes, ctimes oldtimes.Table[Inode]
	going          *tidying // what is being done, as long as nothing else is
}

// tidying is the removal of one name.
type tidying struct {
	was   unix.Stat_t // the directory's status before
	began moment
}

// Tidy takes a name away that no user of the mount has seen, by calling do. It is called from
// within the one step that this is.
func (s *Disk) Tidy(dir int, do func() error) error {
	t := s.startTidying(dir)
	err := do()
	if t != nil {
		s.endTidying(dir, t)
	}
	return err
}

// startTidying returns nil if the directory is to show the times that it will have.
func (s *Disk) startTidying(dir int) *tidying {
	t := &tidying{began: s.changes.now()}
	if t.began.begun != t.began.ended+1 || !s.TellsChanges() || unix.Fstat(dir, &t.was) != nil {
		return nil
	}
	s.tidied.mu.Lock()
	defer s.tidied.mu.Unlock()
	s.tidied.going = t
	return t
}

func (s *Disk) endTidying(dir int, t *tidying) {
	var is unix.Stat_t
	s.tidied.mu.Lock()
	defer s.tidied.mu.Unlock()
	if s.tidied.going == t {
		s.tidied.going = nil
	}
	if unix.Fstat(dir, &is) != nil || !s.isAlone(t) {
		return
	}
	s.tidied.mtimes.Note(InodeOf(&is), t.was.Mtim, is.Mtim)
	s.tidied.ctimes.Note(InodeOf(&is), t.was.Ctim, is.Ctim)
}

// isAlone reports whether nothing else was done to any directory since t was started.
func (s *Disk) isAlone(t *tidying) bool {
	return s.changes.now() == t.began
}

// ShowTimes turns the times of a directory of which somebody has just asked the status into
// those that the users of the mount see.
func (s *Disk) ShowTimes(st *unix.Stat_t) {
	s.tidied.mu.Lock()
	defer s.tidied.mu.Unlock()
	has := st
	if t := s.tidied.going; t != nil && InodeOf(&t.was) == InodeOf(st) && s.isAlone(t) {
		has = &t.was
	}
	st.Mtim, st.Ctim = s.tidied.shownLocked(has)
}

func (t *tidied) shownLocked(st *unix.Stat_t) (mtime, ctime unix.Timespec) {
	key := InodeOf(st)
	return t.mtimes.Shown(key, st.Mtim), t.ctimes.Shown(key, st.Ctim)
}
