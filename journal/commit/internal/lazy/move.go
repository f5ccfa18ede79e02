package lazy

import (
	"golang.org/x/sys/unix"

	"latchfs/journal/commit/internal/disk"
)

// A file that was made and is not known to be on disk may get another name, as a
// temporary file does, without being synced for that. Its marker names the file, so it
// gets another one first:
//
//	symlink marker' .latchfs-HEX      the file; marker' says nothing: its name is free
//	rename, nothing is replaced       the file, or nothing if it is not whole
//	unlink marker                     as before

// Move is such a rename that is under way.
type Move struct {
	s    *Set
	from *Commit
	to   *Commit // with the other marker
}

// Move prepares a rename of the file st to a name that is free; nil if the file has to be
// settled for it, or need not be. Whoever gets one calls Done.
func (s *Set) Move(st *unix.Stat_t, o Target) *Move {
	if !s.disk.IsOnRoot(o.Inode.Dev) {
		return nil
	}
	l := s.take(disk.InodeOf(st))
	if l == nil {
		return nil
	}
	to := &Commit{Mark: l.Mark, key: l.key, dirKey: o.Inode, path: o.path()}
	to.seq, to.name = s.seq.Add(1), o.Name
	if s.announce(o) != nil || to.Place(s, l.file, o.Dir, "") != nil {
		s.letGo(l)
		return nil
	}
	return &Move{s, l, to}
}

// take keeps a file that was made, and has no earlier version, from being settled; nil if
// it is not, or is being settled.
func (s *Set) take(file disk.Inode) *Commit {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.byIno[file]
	if l == nil || l.oldIno != 0 || l.moving != nil || l.settling {
		return nil
	}
	l.moving = make(chan struct{})
	return l
}

// letGo ends take.
func (s *Set) letGo(l *Commit) {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(l.moving)
	l.moving = nil
}

// Done ends the move. renamed says whether the file has the other name.
func (m *Move) Done(renamed bool) {
	l, other := m.from, m.to
	if renamed {
		m.s.mu.Lock()
		l.Mark, other.Mark = other.Mark, l.Mark
		l.marker, other.marker = other.marker, l.marker
		l.dirKey, other.dirKey = other.dirKey, l.dirKey
		l.dir, other.dir = other.dir, l.dir
		l.path = other.path
		m.s.mu.Unlock()
	}
	other.Remove(m.s)
	m.s.letGo(l)
}

// awaitMoves waits until none of the commits that match is moving.
func (s *Set) awaitMoves(match func(*Commit) bool) {
	for {
		moving := s.aMove(match)
		if moving == nil {
			return
		}
		<-moving
	}
}

// aMove is what ends with the move of one of the commits that match, nil if none moves.
func (s *Set) aMove(match func(*Commit) bool) chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range s.byIno {
		if l.moving != nil && match(l) {
			return l.moving
		}
	}
	return nil
}
