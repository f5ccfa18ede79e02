package fs

import (
	"slices"

	"golang.org/x/sys/unix"

	"latchfs/fs/sessionstate"
	"latchfs/journal/commit"
	"latchfs/lockmgr/policy"
)

// link(2) of a file that a program has open for writing makes what is written so far the file,
// which has both names then. The session goes on, and keeps the lock until the last close: it
// is now one that writes into a file with several names (see outlive.go). So the shadow itself
// cannot become the file, for its descriptors would write what readers have open, and a copy
// of it does.

// commitForLink makes n, which is to get the name path, a file that may have several, where
// somebody of the caller's family writes it. It returns the inode that gets the name.
func (mv *moves) commitForLink(c *caller, n *inode, path string) (*inode, unix.Errno) {
	mv.nodes.mu.Lock()
	s := n.sess
	if s == nil && n.shadow != nil && c.BelongsTo(n.shadow.who.Load()) {
		s = n.shadow
	}
	mv.nodes.mu.Unlock()
	switch {
	case s == nil:
		return n, 0
	case mv.rules.settings(path).Mode == policy.Live:
		return mv.linkLive(s, n)
	}
	return mv.linkWritten(s, n)
}

// linkLive is for a name whose file is live: its descriptors write the file itself.
func (mv *moves) linkLive(s *session, n *inode) (*inode, unix.Errno) {
	s.mu.Lock()
	base, inPlace := s.base, s.inPlace
	s.mu.Unlock()
	switch {
	case inPlace && base == nil:
		return nil, unix.ESTALE
	case inPlace:
		// The commit will write into the file, whatever its names are by then.
		return base, 0
	case s.inode != n:
		return n, 0
	}
	return n, mv.commits.goLive(s, nil)
}

// linkWritten makes the session one that writes into a file with several names, and returns
// that file. n is what is to get the name, and stays that if the session has ended.
func (mv *moves) linkWritten(s *session, n *inode) (*inode, unix.Errno) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.inPlace && s.base == nil:
		return nil, unix.ESTALE
	case s.inPlace:
		return s.base, 0
	case !s.state.Is(sessionstate.Writing):
		return n, s.state.Result()
	}
	defer s.beginWork()()
	dirty, err := s.content.Dirty()
	if err != nil {
		return nil, errnoOf(err)
	}
	s.writing.Publish(dirty)
	var fd int
	var e unix.Errno
	if dirty || s.isNew.Load() {
		fd, e = mv.putCopyLocked(s)
	} else {
		fd, e = mv.openBaseLocked(s)
	}
	if fd >= 0 {
		mv.writeIntoLocked(s, fd)
		if err := s.shadow.Carried(); e == 0 {
			e = errnoOf(err)
		}
	}
	if e != 0 {
		return nil, e
	}
	return s.base, 0
}

// putCopyLocked publishes a copy of the shadow. It returns a descriptor (O_PATH) of the file,
// or -1. A refusal ends the session, and what was written is kept aside.
func (mv *moves) putCopyLocked(s *session) (fd int, e unix.Errno) {
	if e := mv.commits.acceptLocked(s); e != 0 {
		s.become(sessionstate.Ending)
		return -1, mv.commits.endWith(s, e)
	}
	cp, fd, err := mv.copyLocked(s)
	if err != nil {
		mv.commits.unmergeLocked(s)
		return -1, errnoOf(err)
	}
	defer mv.disk.discard(cp)
	v, e := mv.commits.putLocked(s, cp)
	if v == nil {
		unix.Close(fd)
		s.become(sessionstate.Ending)
		return -1, mv.commits.endWith(s, e)
	}
	s.writing.GoOn()
	s.saved.Record(false)
	if marked := mv.endings.goOnFromLocked(s, v); e == 0 {
		e = marked
	}
	return fd, e
}

// copyLocked is a copy of the shadow, with a descriptor (O_PATH) of it that stays.
func (mv *moves) copyLocked(s *session) (cp *commit.Shadow, fd int, err error) {
	dir, _ := s.where()
	if cp, err = s.shadow.Clone(mv.nodes.fdOf(dir)); err != nil {
		return nil, -1, err
	}
	if err = cp.MustInPlace(); err == nil {
		fd, err = mv.nodes.trim.OpenAt(mv.disk.procfd, procName(cp.FD()), unix.O_PATH)
	}
	if err != nil {
		mv.disk.discard(cp)
		return nil, -1, err
	}
	return cp, fd, nil
}

// openBaseLocked is a descriptor (O_PATH) of the file that the session would replace, or -1.
// The file gets what the session has changed beside the content.
func (mv *moves) openBaseLocked(s *session) (fd int, e unix.Errno) {
	if e := mv.commits.applyMetaLocked(s); e != 0 {
		return -1, e
	}
	dir, name := s.where()
	fd, err := mv.nodes.trim.OpenAt(mv.nodes.fdOf(dir), name, unix.O_PATH|unix.O_NOFOLLOW)
	if err != nil {
		return -1, errnoOf(err)
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil || s.baseVersion.Ino != st.Ino || s.baseVersion.Dev != uint64(st.Dev) {
		unix.Close(fd)
		return -1, unix.EBUSY // changed outside the mount
	}
	return fd, 0
}

// writeIntoLocked makes the session one that writes into the file behind fd (O_PATH), which is
// that of its base version. s.mu is held.
func (mv *moves) writeIntoLocked(s *session, fd int) {
	key := inoKey{s.baseVersion.Dev, s.baseVersion.Ino}
	s.inPlace = true
	mv.nodes.mu.Lock()
	n, was, dir, name := mv.nodes.inodes[key], s.base, s.parent, s.dentry.Name()
	if n == nil {
		n = mv.nodes.newInodeLocked(fd, key, unix.S_IFREG)
	} else {
		unix.Close(fd)
	}
	delete(mv.nodes.replacing, s.baseKey)
	s.baseKey, s.baseNlink = key, 1
	if n != was {
		n.pins++
		s.base, n.shadow = n, s
		mv.nodes.setNameLocked(n, dir, name)
		if was != nil && was.shadow == s {
			was.shadow = nil
		}
		for _, k := range s.inode.nodes { // they become the file's at the end: see names.giveBack
			mv.kernel.dropFormerLocked(k)
			k.former = n
			n.pins++
		}
	}
	mv.nodes.mu.Unlock()
	s.shown.SetNumber(key.dev, key.ino)
	if n == was {
		return
	}
	mv.commits.markerMoved(name)
	mv.kernel.forgetAttrs(dir)
	if was != nil {
		mv.kernel.forgetAttrs(was)
		mv.nodes.unpin(was)
	}
}

// holdAllNames lets the lock of the session that writes n, which has got another name, hold
// the file by all of them. c has given it the name, and still has the lock of that.
func (mv *moves) holdAllNames(c *caller, n *inode) {
	mv.nodes.mu.Lock()
	s := n.shadow
	mv.nodes.mu.Unlock()
	key, several := mv.rules.linkKey(n)
	if s == nil || !several {
		return
	}
	was := s.heldLock()
	mv.nodes.ns.RLock() // no directory above gets another name meanwhile
	r := was.Request()
	if slices.Contains(r.Keys, key) {
		mv.nodes.ns.RUnlock()
		return
	}
	l, err := mv.lockLike(s, c, r, append(r.Keys, key))
	mv.nodes.ns.RUnlock()
	if err != nil {
		mv.disk.log.Warnf("%q is not locked by its other names: %v", s.path(), err)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lock != was || s.state.HasEnded() {
		mv.rules.table.Release(l)
		return
	}
	s.lock = l
	mv.rules.table.Release(was)
}
