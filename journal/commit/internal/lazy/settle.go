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
	if len(s.byIno)+len(s.strays)+len(s.soon.pending) > 0 || s.soon.more {
		s.armLocked()
	}
}

// SettleAll makes all commits durable that are pending.
func (s *Set) SettleAll() error {
	every := func(*Commit) bool { return true }
	due := s.takeAllSoon()
	whole := due.more || len(s.chains(every))+len(due.pending) >= SyncfsFrom
	s.settling.Lock()
	synced, err := s.settleLocked(every, whole, s.durably, s.disk.DoSettling)
	s.settling.Unlock()
	var failed error // of what is due, whose mutexes come before settling
	if !synced {
		failed = s.syncEach(&due)
		if due.more {
			failed = errors.Join(failed, s.noteLost("", err, false, disk.Inode{}, disk.Inode{}))
		}
	}
	s.taken(&due, failed)
	return errors.Join(err, failed)
}

// Settle makes a lazily published file durable before something is done to
// it that a recovery could not tell from a commit that was cut short: another
// name, or other content.
func (s *Set) Settle(st *unix.Stat_t) error {
	key := disk.InodeOf(st)
	if s.waiting.Load() == 0 || !s.isUnsettled(key) {
		return nil
	}
	err := s.settleWhere(func(l *Commit) bool { return l.key == key }, s.durably)
	var lost *LostError
	if errors.As(err, &lost) { // and somebody hears of it
		_, _ = s.Lost(lost.in), s.Lost(lost.dir)
	}
	return err
}

// isUnsettled reports whether a commit of the file is pending: most files that somebody asks
// about have none, however many others have.
func (s *Set) isUnsettled(file disk.Inode) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.byIno[file] != nil
}

// SettleDir does the same with all files in a directory, and makes the records durable
// that were appended there. The names in it are the caller's to sync. It returns a
// LostError, too, if something in the directory could not be synced earlier, and nobody
// has asked since.
func (s *Set) SettleDir(dir int) error { return s.settleDir(dir, s.durably) }

// SettleDirBefore is SettleDir for a caller who is about to sync the names in the
// directory, path relative to the data root. Where the disk keeps the order of what it is
// told, that makes the files durable, too. If the caller does not come to it, it is done
// within a second.
func (s *Set) SettleDirBefore(dir int, path string) error {
	return s.settleDir(dir, s.beforeNames(dir, path))
}

func (s *Set) settleDir(dir int, put put) error {
	var st unix.Stat_t
	if s.isIdle() {
		return nil
	}
	if err := unix.Fstat(dir, &st); err != nil {
		return os.NewSyscallError("fstat", err)
	}
	key := disk.InodeOf(&st)
	due := s.takeSoon(
		func(in disk.Inode, p *Pending) bool { return p.Dir == key && in != key },
		func(goneName) bool { return false })
	err := s.syncEach(&due)
	s.taken(&due, err)
	err = errors.Join(err, s.settleWhere(func(l *Commit) bool { return l.dirKey == key }, put))
	var lost *LostError
	if earlier := s.Lost(key); !errors.As(err, &lost) {
		err = errors.Join(err, earlier)
	}
	return err
}

// put puts the content of a commit on the disk.
type put func(l *Commit, do step) error

// durably waits until the disk keeps it.
func (s *Set) durably(l *Commit, do step) error {
	return do("fsync", func() error { return unix.Fsync(l.file.FD()) })
}

// beforeNames is durably, or leaves the waiting to the sync of the names in the directory,
// with which the disk keeps the content, too.
func (s *Set) beforeNames(dir int, path string) put {
	return func(l *Commit, do step) error {
		if l.doubtful || !s.disk.KeepsOrder(l.key.Dev) || s.NamesSoon(l.dirKey, path, func() (int, error) { return disk.OpenDir(dir, ".") }) != nil {
			return s.durably(l, do)
		}
		return do("writeback", func() error { return journal.WriteBack(l.file.FD()) })
	}
}

// isIdle reports whether there is nothing to be settled, and nothing to tell.
func (s *Set) isIdle() bool {
	if s.waiting.Load() > 0 {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.soon.pending)+len(s.failed) == 0
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
	_, _ = s.settleLocked(func(l *Commit) bool { return l.keep == id }, false, s.durably, s.disk.Once) // it is tried again
}

// GiveRoom settles the commits that keep files on a full disk which have no name any more,
// or none but the reserved one of a version that stands by, and reports whether there were
// any.
func (s *Set) GiveRoom() bool {
	if s.waiting.Load() == 0 {
		return false
	}
	s.settling.Lock()
	defer s.settling.Unlock()
	if len(s.chains((*Commit).keepsRoom)) == 0 {
		return false
	}
	_, err := s.settleLocked((*Commit).keepsRoom, false, s.durably, s.disk.DoSettling)
	return err == nil // else it is tried again, with the others
}

// settleWhere settles the commits that match.
func (s *Set) settleWhere(match func(*Commit) bool, put put) error {
	s.awaitMoves(match)
	if len(s.chains(match)) == 0 {
		return nil // and nobody waits for what others settle
	}
	s.settling.Lock()
	defer s.settling.Unlock()
	_, err := s.settleLocked(match, false, put, s.disk.DoSettling)
	return err
}

// step runs one change to the disk: Disk.Do, Disk.DoSettling or Disk.Once.
type step func(name string, fn func() error) error

// settleLocked settles the commits that match, which put puts on the disk, with a sync of the whole filesystem if
// there are many of them, or whole says so. synced says that this was done. settling is
// held.
func (s *Set) settleLocked(match func(*Commit) bool, whole bool, put put, do step) (synced bool, err error) {
	s.mu.Lock()
	strays := s.strays
	s.strays = nil
	s.mu.Unlock()
	for _, l := range strays {
		l.remove(s, do) // whoever makes room asks for none
	}
	chains := s.takeChains(match)
	defer s.giveBack(chains)
	// All are on the state directory's filesystem.
	var errs []error
	if whole || len(chains) >= SyncfsFrom {
		err := do("syncfs", func() error { return unix.Syncfs(s.disk.StateFD()) })
		synced, errs = err == nil, append(errs, err) // else one by one, to find out what was lost
	}
	for _, chain := range chains {
		// That the last version is on disk says that it has the name there, too: the
		// ones before are nobody's any more.
		if err := s.syncCommit(chain[len(chain)-1], synced, put, do); err != nil {
			errs = append(errs, err)
			continue
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
	return synced, errors.Join(errs...)
}

// syncCommit makes a commit durable, unless that was done with the whole filesystem.
func (s *Set) syncCommit(l *Commit, synced bool, put put, do step) (err error) {
	if synced && !l.doubtful || l.isRemoved() {
		return nil
	}
	if !synced {
		err = put(l, do)
	}
	if err == nil && l.doubtful {
		err = l.isReallyOnDisk()
	}
	if err != nil {
		err = s.noteLost(l.path, err, l.doubtful, l.key, l.dirKey)
		l.doubtful = true
	}
	return err
}

// isRemoved reports whether the commit's file was made and has been removed since. The
// marker goes after the file then, on the disk, too.
func (l *Commit) isRemoved() bool {
	var st unix.Stat_t
	return l.oldIno == 0 && unix.Fstat(l.file.FD(), &st) == nil && st.Nlink == 0
}

// keepsRoom reports whether a file lives for the commit alone: its own, which has no name
// any more, or the version that stands by. Set.settling is held.
func (l *Commit) keepsRoom() bool {
	var st unix.Stat_t
	return l.intent.ID != 0 || unix.Fstat(l.file.FD(), &st) == nil && st.Nlink == 0
}

// chains returns the pending commits of every file of which one matches, the
// oldest first.
func (s *Set) chains(match func(*Commit) bool) [][]*Commit {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.chainsLocked(match)
}

// takeChains is chains, and keeps them from being renamed.
func (s *Set) takeChains(match func(*Commit) bool) [][]*Commit {
	s.mu.Lock()
	defer s.mu.Unlock()
	chains := s.chainsLocked(match)
	for _, chain := range chains {
		for _, l := range chain {
			l.settling = true
		}
	}
	return chains
}

// giveBack ends takeChains.
func (s *Set) giveBack(chains [][]*Commit) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, chain := range chains {
		for _, l := range chain {
			l.settling = false
		}
	}
}

// chainsLocked is chains. mu is held.
func (s *Set) chainsLocked(match func(*Commit) bool) [][]*Commit {
	type file struct {
		dir  disk.Inode
		name string
	}
	chains := map[file][]*Commit{}
	of := func(l *Commit) file { return file{l.dirKey, l.name} }
	for _, l := range s.byIno {
		if l.moving == nil && match(l) {
			chains[of(l)] = nil
		}
	}
	if len(chains) == 0 {
		return nil
	}
	for _, l := range s.byIno {
		if chain, wanted := chains[of(l)]; wanted && l.moving == nil {
			chains[of(l)] = append(chain, l)
		}
	}
	all := make([][]*Commit, 0, len(chains))
	for _, chain := range chains {
		slices.SortFunc(chain, func(a, b *Commit) int { return cmp.Compare(a.seq, b.seq) })
		all = append(all, chain)
	}
	return all
}

// clear removes what stood by for a commit that is on disk: the old version
// first, for without the marker nobody would know what it is. It may be repeated.
func (s *Set) clear(l *Commit, do step) error {
	unlink := func(name string) error {
		err := do("unlink", func() error {
			return s.disk.Tidy(l.dir.FD(), func() error { return disk.Unname(l.dir.FD(), name) })
		})
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
