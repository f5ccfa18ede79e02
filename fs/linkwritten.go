package fs

import (
	"slices"

	"golang.org/x/sys/unix"

	"latchfs/fs/sessionstate"
	"latchfs/journal/commit"
	"latchfs/lockmgr"
	"latchfs/lockmgr/policy"
)

// link(2) of a file that a program has open for writing makes what is written so far the file,
// which has both names then. The session goes on, and keeps the lock until the last close: it
// is now one that writes into a file with several names (see outlive.go). So the shadow itself
// cannot become the file, for its descriptors would write what readers have open, and a copy
// of it does.

// commitForLink makes n, which is to get the name path, a file that may have several, where
// somebody of the caller's family writes it. It returns the inode that gets the name.
func (f *FS) commitForLink(c *caller, n *inode, path string) (*inode, unix.Errno) {
	f.mu.Lock()
	s := n.sess
	if s == nil && n.shadow != nil && c.kinOf(n.shadow.who.Load()) {
		s = n.shadow
	}
	f.mu.Unlock()
	switch {
	case s == nil:
		return n, 0
	case f.settings(path).Mode == policy.Live:
		return s.linkLive(n)
	}
	return s.linkWritten(n)
}

// linkLive is for a name whose file is live: its descriptors write the file itself.
func (s *session) linkLive(n *inode) (*inode, unix.Errno) {
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
	return n, s.goLive(nil)
}

// linkWritten makes the session one that writes into a file with several names, and returns
// that file. n is what is to get the name, and stays that if the session has ended.
func (s *session) linkWritten(n *inode) (*inode, unix.Errno) {
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
		fd, e = s.putCopyLocked()
	} else {
		fd, e = s.openBaseLocked()
	}
	if fd >= 0 {
		s.writeIntoLocked(fd)
	}
	if e != 0 {
		return nil, e
	}
	return s.base, 0
}

// putCopyLocked publishes a copy of the shadow. It returns a descriptor (O_PATH) of the file,
// or -1. A refusal ends the session, and what was written is kept aside.
func (s *session) putCopyLocked() (fd int, e unix.Errno) {
	if e := s.acceptLocked(); e != 0 {
		s.become(sessionstate.Ending)
		return -1, s.endWith(e)
	}
	cp, fd, err := s.copyLocked()
	if err != nil {
		s.unmergeLocked()
		return -1, errnoOf(err)
	}
	defer s.f.discard(cp)
	v, e := s.putLocked(cp)
	if v == nil {
		unix.Close(fd)
		s.become(sessionstate.Ending)
		return -1, s.endWith(e)
	}
	s.writing.GoOn()
	s.saved.Record(false)
	if marked := s.goOnFromLocked(v); e == 0 {
		e = marked
	}
	return fd, e
}

// copyLocked is a copy of the shadow, with a descriptor (O_PATH) of it that stays.
func (s *session) copyLocked() (cp *commit.Shadow, fd int, err error) {
	dir, _ := s.where()
	if cp, err = s.shadow.Clone(s.f.fdOf(dir)); err != nil {
		return nil, -1, err
	}
	if err = cp.MustInPlace(); err == nil {
		fd, err = s.f.trim.OpenAt(s.f.procfd, procName(cp.FD()), unix.O_PATH)
	}
	if err != nil {
		s.f.discard(cp)
		return nil, -1, err
	}
	return cp, fd, nil
}

// openBaseLocked is a descriptor (O_PATH) of the file that the session would replace, or -1.
// The file gets what the session has changed beside the content.
func (s *session) openBaseLocked() (fd int, e unix.Errno) {
	if e := s.applyMetaLocked(); e != 0 {
		return -1, e
	}
	dir, name := s.where()
	fd, err := s.f.trim.OpenAt(s.f.fdOf(dir), name, unix.O_PATH|unix.O_NOFOLLOW)
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
func (s *session) writeIntoLocked(fd int) {
	f, key := s.f, inoKey{s.baseVersion.Dev, s.baseVersion.Ino}
	s.inPlace = true
	f.mu.Lock()
	n, was, dir, name := f.inodes[key], s.base, s.parent, s.dentry.Name()
	if n == nil {
		n = f.newInodeLocked(fd, key, unix.S_IFREG)
	} else {
		unix.Close(fd)
	}
	delete(f.replacing, s.baseKey)
	s.baseKey, s.baseNlink = key, 1
	if n != was {
		n.pins++
		s.base, n.shadow = n, s
		f.setNameLocked(n, dir, name)
		if was != nil && was.shadow == s {
			was.shadow = nil
		}
		for _, k := range s.inode.nodes { // they become the file's at the end: see giveBack
			f.dropFormerLocked(k)
			k.former = n
			n.pins++
		}
	}
	f.mu.Unlock()
	s.shown.SetNumber(key.dev, key.ino)
	if n == was {
		return
	}
	f.markerMoved(name)
	f.forgetAttrs(dir)
	if was != nil {
		f.forgetAttrs(was)
		f.unpin(was)
	}
}

// holdAllNames lets the lock of the session that writes n, which has got another name, hold
// the file by all of them. c has given it the name, and still has the lock of that.
func (f *FS) holdAllNames(c *caller, n *inode) {
	f.mu.Lock()
	s := n.shadow
	f.mu.Unlock()
	key, several := f.linkKey(n)
	if s == nil || !several {
		return
	}
	was := s.heldLock()
	f.ns.RLock() // no directory above gets another name meanwhile
	r := was.Request()
	if slices.Contains(r.Keys, key) {
		f.ns.RUnlock()
		return
	}
	l, err := s.lockLike(c, r, append(r.Keys, key))
	f.ns.RUnlock()
	if err != nil {
		f.log.Warnf("%q is not locked by its other names: %v", s.path(), err)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lock != was || s.state.HasEnded() {
		f.table.Release(l)
		return
	}
	s.lock = l
	f.table.Release(was)
}

// lockLike is a lock as the session's, which was asked for with r, on other keys. c, of the
// session's family, has what they stand for.
func (s *session) lockLike(c *caller, r lockmgr.Request, keys []lockmgr.Key) (*lockmgr.Lock, error) {
	f, owner, since := s.f, r.Owner, r.Since
	r.Keys, r.Owner, r.Lineage, r.Since, r.NoWait = keys, c.owner, c.ancestors(), f.proc.Now(), true
	l, err := f.table.Acquire(r)
	if err == nil {
		f.table.SetOwner(l, owner, since)
	}
	return l, err
}
