package fs

import (
	"os"

	"golang.org/x/sys/unix"

	"latchfs/fs/asuser"
	"latchfs/fs/reach"
)

// This file is about what the daemon does to the filesystem underneath on behalf of
// its users. A new inode is made as the user's: there is no moment in which it is
// root's, and no change of owner or mode by a name that somebody may have given to
// another file meanwhile. Data is written as the user's, so that root's reserve and
// quotas bind whoever writes through the mount.

// asWriter runs do on behalf of who writes the session.
func (s *session) asWriter(do func() error) error { return s.nodes.disk.asUser(s.uid, s.gid, do) }

// asCaller runs do on behalf of who renames.
func (r *renaming) asCaller(do func() error) error { return r.disk.as(r.c, do) }

// asSender runs a change of the content of h's file on behalf of the sender of a
// request. Pages of a mapping are sent by the kernel, for whom it may be.
func (cs *callers) asSender(h *handle, in *Request, cached bool, do func() error) error {
	if cached {
		return cs.disk.asUser(h.uid, h.gid, do)
	}
	return cs.disk.asUser(in.UID, in.GID, do)
}

// mayOpen asks the kernel whether the caller may open the file behind fd, which may
// be O_PATH, with these flags of open(2): for the rare opens that lead to another
// file than the one whose permissions were checked on the way to us.
func (cs *callers) mayOpen(c *caller, fd int, flags uint32) bool {
	if c.uid == 0 || c.uid == uint32(os.Geteuid()) {
		return true
	}
	var bits uint32
	if how := flags & unix.O_ACCMODE; how != unix.O_WRONLY {
		bits |= unix.R_OK
	}
	if flags&unix.O_ACCMODE != unix.O_RDONLY || flags&unix.O_TRUNC != 0 {
		bits |= unix.W_OK
	}
	if !cs.disk.privileged {
		return reach.May(c.user(), fd, bits)
	}
	err := asuser.Identity{UID: c.uid, GID: c.gid}.Judged(c.supplementary(), func() error {
		return unix.Faccessat2(fd, "", bits, unix.AT_EMPTY_PATH|unix.AT_EACCESS)
	})
	return err == nil || err == unix.EACCES && c.tid != 0 && cs.proc.HasCap(uint32(c.tid), unix.CAP_DAC_OVERRIDE)
}

// mayOpenName is mayOpen for the file that has a name. It may be another one than st by
// now, if a relative, who has the same lock, has just saved it: st is what was judged.
func (cs *callers) mayOpenName(c *caller, dir *inode, name string, st *unix.Stat_t, flags uint32) unix.Errno {
	fd, err := unix.Openat(cs.nodes.fdOf(dir), name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return errnoOf(err)
	}
	defer unix.Close(fd)
	switch err := unix.Fstat(fd, st); {
	case err != nil:
		return errnoOf(err)
	case st.Mode&unix.S_IFMT != unix.S_IFREG:
		return unix.EBUSY
	case !cs.mayOpen(c, fd, flags):
		return unix.EACCES
	}
	return 0
}

// leadsTo reports whether fd is the file st.
func leadsTo(fd int, st *unix.Stat_t) bool {
	var now unix.Stat_t
	return unix.Fstat(fd, &now) == nil && now.Dev == st.Dev && now.Ino == st.Ino
}
