package commit

import (
	"cmp"
	"errors"
	"maps"
	"os"
	"slices"

	"golang.org/x/sys/unix"

	"latchfs/journal"
)

// settleLazies makes the commits durable that are pending, and removes what
// stood by in case that would not come to pass.
func (s *lazies) settleLazies() {
	s.mu.Lock()
	if s.timer != nil {
		s.timer.Stop()
		s.timer = nil
	}
	s.mu.Unlock()
	_ = s.settleEverything()
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.byIno)+len(s.strays) > 0 {
		s.armLazyLocked()
	}
}

// settleEverything makes all commits durable that are pending.
func (s *lazies) settleEverything() error {
	return s.settleWhere(func(*lazyCommit) bool { return true })
}

// SettleLazy makes a lazily published file durable before something is done to
// it that a recovery could not tell from a commit that was cut short: another
// name, or other content.
func (s *lazies) SettleLazy(st *unix.Stat_t) error {
	if s.waiting.Load() == 0 {
		return nil
	}
	key := inodeOf(st)
	return s.settleWhere(func(l *lazyCommit) bool { return l.key == key })
}

// SettleLazyDir does the same with all files in a directory that is to be
// removed.
func (s *lazies) SettleLazyDir(dir int) error {
	var st unix.Stat_t
	if s.waiting.Load() == 0 {
		return nil
	}
	if err := unix.Fstat(dir, &st); err != nil {
		return os.NewSyscallError("fstat", err)
	}
	key := inodeOf(&st)
	return s.settleWhere(func(l *lazyCommit) bool { return l.dirKey == key })
}

// SettleKept settles the commit whose old version is the content id, which is to
// be removed from the history.
func (s *lazies) SettleKept(id string) {
	if s.waiting.Load() == 0 || !s.settling.TryLock() {
		// Who is settling may have been told to make room for that.
		return
	}
	defer s.settling.Unlock()
	_ = s.settleLocked(func(l *lazyCommit) bool { return l.keep == id }) // it is tried again
}

// settleWhere settles the commits that match.
func (s *lazies) settleWhere(match func(*lazyCommit) bool) error {
	s.settling.Lock()
	defer s.settling.Unlock()
	return s.settleLocked(match)
}

func (s *lazies) settleLocked(match func(*lazyCommit) bool) error {
	s.mu.Lock()
	strays := s.strays
	s.strays = nil
	s.mu.Unlock()
	for _, l := range strays {
		l.remove(s)
	}
	chains := s.lazyChains(match)
	whole := len(chains) >= lazySyncfs // all are on the state directory's filesystem
	if whole {
		if err := s.do("syncfs", func() error { return unix.Syncfs(s.stateFD()) }); err != nil {
			return err
		}
	}
	var errs []error
	for _, chain := range chains {
		// That the last version is on disk says that it has the name there, too: the
		// ones before are nobody's any more.
		last := chain[len(chain)-1]
		if !whole {
			if err := s.do("fsync", func() error { return unix.Fsync(last.fd) }); err != nil {
				errs = append(errs, err)
				continue
			}
		}
		for _, l := range chain {
			if err := s.lazyClear(l); err != nil {
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

// lazyChains returns the pending commits of every file of which one matches, the
// oldest first.
func (s *lazies) lazyChains(match func(*lazyCommit) bool) [][]*lazyCommit {
	type file struct {
		dir  inode
		name string
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	chains, wanted := map[file][]*lazyCommit{}, map[file]bool{}
	for _, l := range s.byIno {
		f := file{l.dirKey, l.name}
		chains[f] = append(chains[f], l)
		wanted[f] = wanted[f] || match(l)
	}
	var all [][]*lazyCommit
	for f, chain := range chains {
		if wanted[f] {
			slices.SortFunc(chain, func(a, b *lazyCommit) int { return cmp.Compare(a.seq, b.seq) })
			all = append(all, chain)
		}
	}
	return all
}

// lazyClear removes what stood by for a commit that is on disk: the old version
// first, for without the marker nobody would know what it is. It may be repeated.
func (s *lazies) lazyClear(l *lazyCommit) error {
	unlink := func(name string) error {
		err := s.do("unlink", func() error { return unix.Unlinkat(l.dir, name, 0) })
		if errors.Is(err, unix.ENOENT) {
			return nil
		}
		return err
	}
	if l.intent.ID != 0 {
		if err := unlink(l.old); err != nil {
			return err
		}
		if err := s.done(l.intent.ID); err != nil {
			return err
		}
		s.release(l.old)
		l.intent = journal.Intent{}
	}
	return unlink(l.marker)
}

// close settles everything and ends the intents of the directories. What was
// removed there is on disk before: nobody looks again after a clean stop.
func (s *lazies) close() error {
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
	if err := s.settleEverything(); err != nil {
		return err
	}
	s.mu.Lock()
	dirs := slices.Collect(maps.Values(s.dirs))
	clear(s.dirs)
	s.mu.Unlock()
	if len(dirs) == 0 {
		return nil
	}
	if err := s.do("syncfs", func() error { return unix.Syncfs(s.stateFD()) }); err != nil {
		return err
	}
	var errs []error
	for _, in := range dirs {
		errs = append(errs, s.done(in.ID))
	}
	return errors.Join(errs...)
}
