package lazy

import (
	"cmp"
	"errors"
	"maps"
	"os"
	"slices"

	"golang.org/x/sys/unix"

	"latchfs/journal"
	"latchfs/journal/commit/internal/disk"
)

// settleDue makes the commits durable that are pending, and removes what
// stood by in case that would not come to pass.
func (s *Set) settleDue() {
	s.mu.Lock()
	if s.timer != nil {
		s.timer.Stop()
		s.timer = nil
	}
	s.mu.Unlock()
	_ = s.SettleAll()
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.byIno)+len(s.strays)+len(s.soon.fds) > 0 || s.soon.more {
		s.armLocked()
	}
}

// SettleAll makes all commits durable that are pending.
func (s *Set) SettleAll() error {
	s.settling.Lock()
	defer s.settling.Unlock()
	due := s.takeSoon()
	err := s.settleLocked(func(*Commit) bool { return true }, &due, s.disk.Do)
	s.again(&due)
	return err
}

// Settle makes a lazily published file durable before something is done to
// it that a recovery could not tell from a commit that was cut short: another
// name, or other content.
func (s *Set) Settle(st *unix.Stat_t) error {
	if s.waiting.Load() == 0 {
		return nil
	}
	key := disk.InodeOf(st)
	return s.settleWhere(func(l *Commit) bool { return l.key == key })
}

// SettleDir does the same with all files in a directory that is to be
// removed.
func (s *Set) SettleDir(dir int) error {
	var st unix.Stat_t
	if s.waiting.Load() == 0 {
		return nil
	}
	if err := unix.Fstat(dir, &st); err != nil {
		return os.NewSyscallError("fstat", err)
	}
	key := disk.InodeOf(&st)
	return s.settleWhere(func(l *Commit) bool { return l.dirKey == key })
}

// SettleKept settles the commit whose old version is the content id, which is to
// be removed from the history.
func (s *Set) SettleKept(id string) {
	if s.waiting.Load() == 0 || !s.settling.TryLock() {
		// Who is settling may have been told to make room for that.
		return
	}
	defer s.settling.Unlock()
	// Who asks is making room, perhaps with the history locked.
	_ = s.settleLocked(func(l *Commit) bool { return l.keep == id }, &soon{}, s.disk.Once) // it is tried again
}

// settleWhere settles the commits that match.
func (s *Set) settleWhere(match func(*Commit) bool) error {
	if len(s.chains(match)) == 0 {
		return nil // and nobody waits for what others settle
	}
	s.settling.Lock()
	defer s.settling.Unlock()
	return s.settleLocked(match, &soon{}, s.disk.Do)
}

// step runs one change to the disk: Disk.Do, or Disk.Once.
type step func(name string, fn func() error) error

// settleLocked settles the commits that match, and syncs what is due. settling is held.
func (s *Set) settleLocked(match func(*Commit) bool, due *soon, do step) error {
	s.mu.Lock()
	strays := s.strays
	s.strays = nil
	s.mu.Unlock()
	for _, l := range strays {
		l.Remove(s)
	}
	chains := s.chains(match)
	// All are on the state directory's filesystem.
	whole := due.more || len(chains)+len(due.fds) >= SyncfsFrom
	if whole {
		if err := do("syncfs", func() error { return unix.Syncfs(s.disk.StateFD()) }); err != nil {
			return err
		}
		due.close()
	}
	errs := []error{s.syncEach(due, do)}
	for _, chain := range chains {
		// That the last version is on disk says that it has the name there, too: the
		// ones before are nobody's any more.
		last := chain[len(chain)-1]
		if !whole {
			if err := do("fsync", func() error { return unix.Fsync(last.fd) }); err != nil {
				errs = append(errs, err)
				continue
			}
		}
		for _, l := range chain {
			if err := s.clear(l, do); err != nil {
				errs = append(errs, err)
				break // it is tried again
			}
			s.mu.Lock()
			delete(s.byIno, l.key)
			s.mu.Unlock()
			s.waiting.Add(-1)
			l.drop(s)
		}
	}
	return errors.Join(errs...)
}

// chains returns the pending commits of every file of which one matches, the
// oldest first.
func (s *Set) chains(match func(*Commit) bool) [][]*Commit {
	type file struct {
		dir  disk.Inode
		name string
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	chains, wanted := map[file][]*Commit{}, map[file]bool{}
	for _, l := range s.byIno {
		f := file{l.dirKey, l.name}
		chains[f] = append(chains[f], l)
		wanted[f] = wanted[f] || match(l)
	}
	var all [][]*Commit
	for f, chain := range chains {
		if wanted[f] {
			slices.SortFunc(chain, func(a, b *Commit) int { return cmp.Compare(a.seq, b.seq) })
			all = append(all, chain)
		}
	}
	return all
}

// clear removes what stood by for a commit that is on disk: the old version
// first, for without the marker nobody would know what it is. It may be repeated.
func (s *Set) clear(l *Commit, do step) error {
	unlink := func(name string) error {
		err := do("unlink", func() error { return unix.Unlinkat(l.dir, name, 0) })
		if errors.Is(err, unix.ENOENT) {
			return nil
		}
		return err
	}
	if l.intent.ID != 0 {
		if err := unlink(l.old); err != nil {
			return err
		}
		if err := do("done", func() error { return s.disk.Journal.Done(l.intent.ID) }); err != nil {
			return err
		}
		s.disk.Release(l.old)
		l.intent = journal.Intent{}
	}
	return unlink(l.marker)
}

// Close settles everything and ends the intents of the directories. What was
// removed there is on disk before: nobody looks again after a clean stop.
func (s *Set) Close() error {
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.closed = true
	}()
	s.mu.Lock()
	if s.timer != nil {
		s.timer.Stop()
		s.timer = nil
	}
	s.mu.Unlock()
	if err := s.SettleAll(); err != nil {
		return err
	}
	s.mu.Lock()
	dirs := slices.Collect(maps.Values(s.dirs))
	clear(s.dirs)
	s.mu.Unlock()
	if len(dirs) == 0 {
		return nil
	}
	if err := s.disk.Do("syncfs", func() error { return unix.Syncfs(s.disk.StateFD()) }); err != nil {
		return err
	}
	var errs []error
	for _, in := range dirs {
		errs = append(errs, s.disk.Done(in.ID))
	}
	return errors.Join(errs...)
}
