package lazy

import (
	"errors"
	"maps"

	"golang.org/x/sys/unix"

	"latchfs/journal/commit/internal/disk"
)

// soon is what is to be synced with the unsettled commits: files to which records were
// appended, and directories in which names were made, changed or removed.
type soon struct {
	pending map[disk.Inode]*Pending
	more    bool // there is more than that
	// gone are names that were taken away, and when (Set.losses). A file that is made under
	// one of them replaces what it held: a crash must not leave neither. anyName stands for
	// those beyond mostGone.
	gone map[goneName]uint64
}

// Pending is a file or a directory that is to be on disk within a second.
type Pending struct {
	Dir  disk.Inode   // the directory that it is, or that the file is in
	Path string       // relative to the data root, for those who are told that a sync has failed
	Sync func() error // makes it durable
	Drop func()       // gives back what Sync needs; or nil
	Once bool         // a sync that has failed is not tried again
	told bool         // it has failed before
	// asOf is the change time of the directory as which a crash leaves its names, or a
	// recovery makes them; zero: it may lose some.
	asOf unix.Timespec
}

func (p *Pending) drop() {
	if p.Drop != nil {
		p.Drop()
	}
}

type goneName struct {
	dir  disk.Inode
	name string
}

// anyName stands for the names that nobody has remembered.
var anyName = goneName{}

const (
	// mostSoon bounds how many files and directories are remembered, each of which has a
	// descriptor. If there are more, the whole filesystem is synced.
	mostSoon = 256
	// mostGone bounds how many names are remembered that were taken away. If there are more,
	// each file that is made waits for the disk until they are synced: so there is room for
	// what a program removes in a second, and in a sync that takes some.
	mostGone = 1 << 14
)

// Soon makes a file or a directory durable when the next commits are settled, after a
// second at the latest. begin says how; it is not called where that is on its way. What
// is in another filesystem below the data root is synced at once.
func (s *Set) Soon(in disk.Inode, begin func() (*Pending, error)) error {
	if !s.disk.IsOnRoot(in.Dev) {
		p, err := begin()
		if err != nil {
			return err
		}
		defer p.drop()
		return p.Sync()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, known := s.soon.pending[in]; known || s.soon.more || s.closed {
		return nil
	}
	s.armLocked()
	if len(s.soon.pending) >= mostSoon {
		s.soon.more = true
		return nil
	}
	p, err := begin()
	if err == nil {
		s.soon.put(in, p)
	}
	return err
}

// NamesSoon is Soon for the names in a directory. open opens it.
func (s *Set) NamesSoon(dir disk.Inode, path string, open func() (int, error)) error {
	return s.Soon(dir, func() (*Pending, error) {
		fd, err := open()
		if err != nil {
			return nil, err
		}
		return &Pending{
			Dir: dir, Path: path,
			Sync: func() error { return s.disk.Do("fsync", func() error { return unix.Fsync(fd) }) },
			Drop: func() { unix.Close(fd) },
		}, nil
	})
}

// NamesAppear is NamesSoon for the names in a directory that a recovery makes what they
// are now, unless a crash leaves them so: as long as its change time is asOf, nothing was
// done to it that the disk might forget.
func (s *Set) NamesAppear(dir disk.Inode, path string, asOf unix.Timespec, open func() (int, error)) error {
	if err := s.NamesSoon(dir, path, open); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if p := s.soon.pending[dir]; p != nil { // else they are synced by now, or with all the rest
		p.asOf = asOf
	}
	return nil
}

// Appear reports whether the names in a directory, whose change time is now, outlive a
// crash as they are, though they were not synced.
func (s *Set) Appear(dir disk.Inode, now unix.Timespec) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.soon.pending[dir]
	return p != nil && !p.told && p.asOf == now && now != (unix.Timespec{})
}

func (d *soon) put(in disk.Inode, p *Pending) {
	if d.pending == nil {
		d.pending = map[disk.Inode]*Pending{}
	}
	d.pending[in] = p
}

// NameGone notes that a name of a directory was taken away, which NamesSoon was told of.
func (s *Set) NameGone(dir disk.Inode, name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := goneName{dir, name}
	if len(s.soon.gone) >= mostGone {
		at = anyName
	}
	s.loseLocked(at)
	s.armLocked()
}

// loseLocked notes that a name may be gone from now on. mu is held.
func (s *Set) loseLocked(at goneName) {
	s.losses++
	s.soon.lose(at, s.losses)
}

func (d *soon) lose(at goneName, when uint64) {
	if d.gone == nil {
		d.gone = map[goneName]uint64{}
	}
	d.gone[at] = when
}

// Losses is how many names were taken away so far.
func (s *Set) Losses() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.losses
}

// LossesOnDisk notes that those names of a directory are gone on the disk, too, which were
// taken away when Losses was until.
func (s *Set) LossesOnDisk(dir disk.Inode, until uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.DeleteFunc(s.soon.gone, func(at goneName, when uint64) bool { return at.dir == dir && when <= until })
}

// IsMade reports whether a file was made under a free name, and is not known to be on
// disk: whoever takes it away takes nothing that a crash would have to leave.
func (s *Set) IsMade(st *unix.Stat_t) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.byIno[disk.InodeOf(st)]
	return l != nil && l.oldIno == 0
}

// IsGoing reports whether the name may have held a file that a crash would bring back.
func (s *Set) IsGoing(dir disk.Inode, name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.isGoingLocked(goneName{dir, name}) || s.isGoingLocked(anyName)
}

func (s *Set) isGoingLocked(at goneName) bool {
	_, now := s.soon.gone[at]
	return now || s.syncing[at] > 0
}

// takeSoon takes what is to be synced now. What is changed from now on is synced the next
// time.
func (s *Set) takeSoon(isDue func(in disk.Inode, p *Pending) bool, isGone func(goneName) bool) soon {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.takeSoonLocked(isDue, isGone)
}

// takeSoonLocked is takeSoon. mu is held.
func (s *Set) takeSoonLocked(isDue func(in disk.Inode, p *Pending) bool, isGone func(goneName) bool) soon {
	due := soon{}
	for in, p := range s.soon.pending {
		if isDue(in, p) {
			due.put(in, p)
			delete(s.soon.pending, in)
		}
	}
	for at := range s.soon.gone {
		if isGone(at) {
			due.lose(at, 0)
			delete(s.soon.gone, at)
			s.syncing[at]++
		}
	}
	return due
}

// takeAllSoon takes everything.
func (s *Set) takeAllSoon() soon {
	s.mu.Lock()
	defer s.mu.Unlock()
	due := s.takeSoonLocked(func(disk.Inode, *Pending) bool { return true }, func(goneName) bool { return true })
	due.more, s.soon.more = s.soon.more, false
	return due
}

// syncEach syncs what is due, one by one, and forgets what is on disk.
func (s *Set) syncEach(due *soon) error {
	var errs []error
	for in, p := range maps.Clone(due.pending) {
		err := p.Sync()
		if err != nil {
			errs = append(errs, s.noteLost(p.Path, err, p.told, in, p.Dir))
			p.told = true
		}
		if err == nil || p.Once {
			p.drop()
			delete(due.pending, in)
		}
	}
	return errors.Join(errs...)
}

// taken gives back what could not be synced, to be tried again, and forgets what is on
// disk.
func (s *Set) taken(due *soon, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for in, p := range due.pending {
		if _, known := s.soon.pending[in]; known || err == nil {
			p.drop()
			continue
		}
		s.soon.put(in, p)
	}
	s.soon.more = s.soon.more || due.more && err != nil
	for at := range due.gone {
		if s.syncing[at]--; s.syncing[at] == 0 {
			delete(s.syncing, at)
		}
		if err != nil {
			s.loseLocked(at)
		}
	}
	if err != nil {
		s.armLocked()
	}
}

// SyncNames runs sync, which makes the names in a directory durable: nothing is left to
// be done about them within a second.
func (s *Set) SyncNames(key disk.Inode, sync func() error) error {
	due := s.takeSoon(
		func(in disk.Inode, _ *Pending) bool { return in == key },
		func(at goneName) bool { return at.dir == key })
	err := sync()
	s.taken(&due, err)
	return err
}
