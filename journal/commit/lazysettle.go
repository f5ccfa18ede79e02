package commit

import (
	"cmp"
	"errors"
	"maps"
	"os"
	"slices"

	"latchfs/journal"

	"golang.org/x/sys/unix"
)

// settleLazies makes the commits durable that are pending, and removes what
// stood by in case that would not come to pass.
func (s *Store) settleLazies() {
	s.mu.Lock()
	if s.lazy.timer != nil {
		s.lazy.timer.Stop()
		s.lazy.timer = nil
	}
	s.mu.Unlock()
	_ = s.settleWhere(func(*lazyCommit) bool { return true })
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.lazy.byIno)+len(s.lazy.strays) > 0 {
		s.armLazyLocked()
	}
}

// SettleLazy makes a lazily published file durable before something is done to
// it that a recovery could not tell from a commit that was cut short: another
// name, or other content.
func (s *Store) SettleLazy(st *unix.Stat_t) error {
	if s.lazy.pending.Load() == 0 {
		return nil
	}
	key := tailKey{uint64(st.Dev), st.Ino}
	return s.settleWhere(func(l *lazyCommit) bool { return l.key == key })
}

// SettleLazyDir does the same with all files in a directory that is to be
// removed.
func (s *Store) SettleLazyDir(dir int) error {
	var st unix.Stat_t
	if s.lazy.pending.Load() == 0 {
		return nil
	}
	if err := unix.Fstat(dir, &st); err != nil {
		return os.NewSyscallError("fstat", err)
	}
	key := tailKey{uint64(st.Dev), st.Ino}
	return s.settleWhere(func(l *lazyCommit) bool { return l.dirKey == key })
}

// SettleKept settles the commit whose old version is the content id, which is to
// be removed from the history.
func (s *Store) SettleKept(id string) {
	if s.lazy.pending.Load() == 0 || !s.lazy.settling.TryLock() {
		// Who is settling may have been told to make room for that.
		return
	}
	defer s.lazy.settling.Unlock()
	_ = s.settleLocked(func(l *lazyCommit) bool { return l.keep == id }) // it is tried again
}

// settleWhere settles the commits that match.
func (s *Store) settleWhere(match func(*lazyCommit) bool) error {
	s.lazy.settling.Lock()
	defer s.lazy.settling.Unlock()
	return s.settleLocked(match)
}

func (s *Store) settleLocked(match func(*lazyCommit) bool) error {
	s.mu.Lock()
	strays := s.lazy.strays
	s.lazy.strays = nil
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
			delete(s.lazy.byIno, l.key)
			s.mu.Unlock()
			s.lazy.pending.Add(-1)
			l.drop(s)
		}
	}
	return errors.Join(errs...)
}

// lazyChains returns the pending commits of every file of which one matches, the
// oldest first.
func (s *Store) lazyChains(match func(*lazyCommit) bool) [][]*lazyCommit {
	type file struct {
		dir  tailKey
		name string
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	chains, wanted := map[file][]*lazyCommit{}, map[file]bool{}
	for _, l := range s.lazy.byIno {
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
func (s *Store) lazyClear(l *lazyCommit) error {
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

// closeLazy settles everything and ends the intents of the directories. What was
// removed there is on disk before: nobody looks again after a clean stop.
func (s *Store) closeLazy() error {
	s.mu.Lock()
	if s.lazy.timer != nil {
		s.lazy.timer.Stop()
		s.lazy.timer = nil
	}
	s.mu.Unlock()
	if err := s.settleWhere(func(*lazyCommit) bool { return true }); err != nil {
		return err
	}
	s.mu.Lock()
	dirs := slices.Collect(maps.Values(s.lazy.dirs))
	clear(s.lazy.dirs)
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

// placeMarker says beside the target what it is about to become. Where the
// filesystem has no symbolic links the shadow is synced instead.
func (sh *Shadow) placeMarker(o PublishOptions, old string) error {
	if sh.lazy == nil || sh.lazy.place(sh.s, sh.fd, o, old) == nil {
		return nil
	}
	sh.lazy = nil
	return sh.sync()
}

// unmark takes the marker away after a publication that did not happen.
func (sh *Shadow) unmark() {
	if sh.lazy != nil {
		sh.lazy.remove(sh.s)
		sh.lazy = nil
	}
}

// settleLater leaves the old version where it can be put back from: in the
// history, or else under the reserved name until the new one is on disk.
func (sh *Shadow) settleLater(o PublishOptions) {
	s := sh.s
	if o.Keep.ID != "" && !o.Keep.Copy {
		err := s.intoHistory(o.Keep.ID, "keep", func(path string) error {
			return unix.Renameat(sh.dir, sh.intent.Shadow, s.stateFD(), path)
		})
		if err == nil {
			sh.kept = true
			return
		}
	}
	if o.Keep.ID != "" {
		sh.kept = s.keepCopyOf(sh.dir, sh.intent.Shadow, o.Keep.ID) == nil
	}
	sh.lazy.intent = sh.intent
	unix.Close(sh.dir)
	sh.intent, sh.dir = journal.Intent{}, -1
}
