package fs

import (
	"slices"

	"golang.org/x/sys/unix"

	"latchfs/fs/sessionstate"
	"latchfs/lockmgr"
)

// moves lets sessions follow their names: to another directory, to another name of the file, or
// into the file itself where it has several.
type moves struct {
	*ground
	commits *commits
	endings *endings
	locks   *locks
}

// This file says what becomes of a session whose file gets another name, loses it, or is
// changed under it by an operation on names of its own family.

// keepFromEnding lets no close that has returned already end the sessions until over is called: no
// RELEASE, and no end of a mapping. One that is at its end has ended when it returns.
func (mv *moves) keepFromEnding(sessions ...*session) (over func()) {
	change := func(by int32) {
		for _, s := range sessions {
			if s != nil {
				s.moving.Add(by)
			}
		}
	}
	change(1)
	for _, s := range sessions {
		_ = s.heldLock() // an end holds the mutex, and this waits for it
	}
	return func() { change(-1) }
}

// moveTo gives the session the name that its owner renamed the file to.
func (mv *moves) moveTo(s *session, dir *inode, name string) {
	now := mv.astray.newRename()
	mv.nodes.mu.Lock()
	if s.over {
		mv.nodes.mu.Unlock()
		return
	}
	d := mv.nodes.dentries.Get(dir.dentry, name)
	s.leaveNameLocked()
	s.parent.inside--
	dir.inside++
	dir.pins++
	prev := s.parent
	s.parent, s.dentry = dir, d
	mv.nodes.unpinLocked(prev)
	mv.names.renamed.Add(1)
	was := s.inode.keyLocked()
	mv.nodes.setNameLocked(s.inode, dir, name)
	mv.astray.noteRenamedLocked(s.inode, was, now)
	d.State.sess = s
	mv.nodes.mu.Unlock()
}

// moveWithLock is moveTo from the path from, with the session's lock l. nodes.ns is held, and
// locks.advisoryKeys for writing.
func (mv *moves) moveWithLock(s *session, l *lockmgr.Lock, from string, dir *inode, name string) {
	to := mv.nodes.path(dir, name)
	mv.moveTo(s, dir, name)
	mv.rules.table.RenameFiles(fileRename(lockmgr.Key(from), lockmgr.Key(to), l))
	if lb, ok := l.Request().Label.(*label); ok {
		lb.moved.Store(&to)
	}
}

// takeShadowAlong lets the shadow's reserved name go where the session's has gone: nothing of the
// file is to be left in the directory that it was in.
func (mv *moves) takeShadowAlong(s *session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.state.Is(sessionstate.Writing) {
		return
	}
	if err := s.shadow.Follow(mv.endings.syncOptionsLocked(s)); err != nil {
		mv.disk.log.Warnf("%s, which was renamed: %v", s, err)
	}
}

// leaveNameLocked takes the session off its name. nodes.mu is held.
func (s *session) leaveNameLocked() {
	if s.dentry.State.sess == s {
		s.dentry.State.sess = nil
	}
	s.nodes.dentries.Put(s.dentry)
}

// detach separates the session from its name, which its own owner has taken
// away: what is written from now on is nobody's. It is false if the session has
// ended, in which case its commit may have come after what took the name away. removed says that
// its file was removed: the name may be another file's from now on, of which a lock on one of the
// session's descriptors is not.
func (mv *moves) detach(s *session, removed bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.state.Is(sessionstate.Writing) {
		return !s.state.HasEnded()
	}
	s.become(sessionstate.Detached)
	if err := s.shadow.Unname(); err != nil {
		mv.disk.log.Warnf("%s, which has lost its name: %v", s, err)
	}
	s.shown.SetLinks(0)
	mv.nodes.mu.Lock()
	s.leaveLocked()
	s.removed = removed
	mv.nodes.mu.Unlock()
	mv.rules.table.Release(s.lock)
	mv.kernel.forgetAttrs(s.inode)
	return true
}

// leaveInodeLocked ends what the session, which has no name any more, is to its shadow: that is
// a file without a name from now on. Where nothing was written, a node that the session had
// taken over is to be the file's again, which descriptors (O_PATH) may lead to. nodes.mu is held.
func (s *session) leaveInodeLocked(changedNothing bool) {
	n := s.inode
	n.sess = nil
	if dev, ino, ok := s.shown.File(); ok && n.shownAs == (inoKey{}) {
		n.shownAs = inoKey{dev, ino} // who has it open to read sees no other number
	}
	n.orphan = changedNothing && slices.ContainsFunc(n.nodes, func(k *kernelNode) bool { return k.former != nil })
}

// rebaseOn tells the session that is writing the next version of n that an
// operation of its own family has changed what stat(2) says of n.
func (mv *moves) rebaseOn(n *inode, s *session) {
	if n != nil && s == nil {
		mv.nodes.mu.Lock()
		s = n.shadow
		mv.nodes.mu.Unlock()
	}
	if s != nil {
		mv.rebase(s)
	}
}

// rebase takes its base for what it is now: an operation of its own family has changed
// what stat(2) says of it.
func (mv *moves) rebase(s *session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	dir, name := s.where()
	mv.rebaseLocked(s, dir, name)
}

// rebaseLocked is rebase under s.mu. If the name has got another file meanwhile, outside
// the mount, that does not become the base: it may be another user's, and the commit
// finds it.
func (mv *moves) rebaseLocked(s *session, dir *inode, name string) {
	var st unix.Stat_t
	if s.baseVersion == nil || unix.Fstatat(mv.nodes.fdOf(dir), name, &st, unix.AT_SYMLINK_NOFOLLOW) != nil {
		return
	}
	if uint64(st.Dev) == s.baseVersion.Dev && st.Ino == s.baseVersion.Ino {
		s.baseVersion = versionPtr(&st)
		mv.showLinks(s, &st)
	}
}

// showLinks lets the shadow have as many links as its base, which has the status st.
func (mv *moves) showLinks(s *session, st *unix.Stat_t) {
	if !s.inPlace || s.shown.Links() == uint32(st.Nlink) {
		return
	}
	s.shown.SetLinks(uint32(st.Nlink))
	mv.kernel.forgetAttrs(s.inode)
}

// dropFromTxn ends a session whose file a member has removed or replaced.
func (mv *moves) dropFromTxn(s *session) {
	s.mu.Lock()
	s.txn.Store(nil)
	s.mu.Unlock()
	mv.detach(s, false)
	mv.endings.endAtRelease(s)
}

// relock changes the session's lock to that of its new name, where the policy
// makes files share locks: the lock table moves a path alone. c, who renamed the file, has
// both names.
func (mv *moves) relock(s *session, c *caller, p place) {
	if !mv.rules.policy.MapsNames() {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	old := s.lock.Request()
	have := old.Keys
	want := mv.rules.keysOf([]place{p})
	if s.state.HasEnded() || len(want) == len(have) && !slices.ContainsFunc(want, func(k lockmgr.Key) bool { return !slices.Contains(have, k) }) {
		return
	}
	l, err := mv.lockLike(s, c, old, want)
	if err != nil {
		mv.disk.log.Warnf("%q keeps the lock of its former name: %v", mv.nodes.path(p.dir, p.name), err)
		return
	}
	was := s.lock
	s.lock = l
	mv.rules.table.Release(was)
}

// lockLike is a lock as the session's, which was asked for with r, on other keys. c, of the
// session's family, has what they stand for.
func (mv *moves) lockLike(s *session, c *caller, r lockmgr.Request, keys []lockmgr.Key) (*lockmgr.Lock, error) {
	owner, since := r.Owner, r.Since
	r.Keys, r.Owner, r.Lineage, r.Since, r.NoWait = keys, c.Owner(), c.Ancestors(), mv.callers.proc.Now(), true
	l, err := mv.rules.table.Acquire(r)
	if err == nil {
		mv.rules.table.SetOwner(l, owner, since)
	}
	return l, err
}
