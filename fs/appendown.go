package fs

import (
	"golang.org/x/sys/unix"

	"latchfs/fs/appends"
	"latchfs/fs/records"
)

// ownSession is the session that the appender's own family has on the file, by whichever of
// its names, or that of w; or nil.
func (is appended) ownSession(w appends.Writer) *session {
	p := is.place()
	if p.dir == nil || is.isRemoved() { // another file may have the name by now
		return nil
	}
	s := is.sessions.ownSessionOn(is.c, is.h.n, p.dir, p.name)
	if s != nil || is.nodes.sessionOn(is.h.n, p.dir, p.name) == nil {
		return s
	}
	if by := is.user(w); by != nil {
		return is.sessions.ownSessionOn(by, is.h.n, p.dir, p.name)
	}
	return nil
}

// isRemoved reports whether the opened file was removed, and nothing took its place.
func (is appended) isRemoved() bool {
	is.nodes.mu.Lock()
	defer is.nodes.mu.Unlock()
	return is.h.n.removed
}

// IsInSession implements records.Sessions.
func (is appended) IsInSession() bool {
	p := is.place()
	return p.dir != nil && is.nodes.sessionAt(p.dir, p.name) != nil
}

// InOwnSession implements records.Sessions.
func (is appended) InOwnSession(w appends.Writer) bool { return is.ownSession(w) != nil }

// TruncateOwn implements records.Sessions.
func (is appended) TruncateOwn(c *records.Cut) (e unix.Errno, done bool) {
	s := is.ownSession(c.Writer)
	if s == nil {
		return 0, false
	}
	if e = is.judging.mayCut(s, c.Size); e == 0 {
		e = is.sessions.truncate(s, c.Size, c.KillSuid)
	}
	return e, e != unix.ESTALE
}

// AppendToOwn implements records.Sessions.
func (is appended) AppendToOwn(w appends.Writer, b []byte) (e unix.Errno, done bool) {
	s := is.ownSession(w)
	if s == nil {
		return 0, false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.isLeft() && len(s.handles) > 0 {
		// Its last descriptor is closed, and it has nothing to commit: what came to its
		// shadow now would depend on what its writer was allowed to do.
		is.commits.endLocked(s)
	}
	if s.state.HasEnded() {
		return 0, false
	}
	if e := s.fillLocked(); e != 0 {
		return e, true
	}
	var st unix.Stat_t
	err := unix.Fstat(s.shadow.FD(), &st)
	for at := st.Size; err == nil && len(b) > 0; {
		var n int
		err = is.disk.asUser(w.UID, w.GID, func() error {
			n, err = unix.Pwrite(s.shadow.FD(), b, at)
			return err
		})
		if err == unix.EINTR {
			err = nil
		}
		b, at = b[max(n, 0):], at+int64(max(n, 0))
	}
	if err != nil {
		s.content.Fail(errnoOf(err))
		return s.content.Failed(), true
	}
	s.content.Write()
	go is.kernel.notifyInode(s.inode, st.Size, 0) // a writer may hold a page and wait for us
	return 0, true
}
