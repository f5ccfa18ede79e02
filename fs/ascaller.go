package fs

import "golang.org/x/sys/unix"

// This file is about what the daemon does to the filesystem underneath on behalf of
// its users. A new inode is made as the user's: there is no moment in which it is
// root's, and no change of owner or mode by a name that somebody may have given to
// another file meanwhile. Data is written as the user's, so that root's reserve and
// quotas bind whoever writes through the mount.

// asWriter runs do on behalf of who writes the session.
func (s *session) asWriter(do func() error) error { return s.nodes.disk.asUser(s.uid, s.gid, do) }

// asCaller runs do on behalf of who renames.
func (r *renaming) asCaller(do func() error) error { return r.c.As(do) }

// asSender runs a change of the content of h's file on behalf of the sender of a
// request. Pages of a mapping are sent by the kernel, for whom it may be.
func (cs *callers) asSender(h *handle, in *Request, cached bool, do func() error) error {
	if cached {
		return cs.disk.asUser(h.uid, h.gid, do)
	}
	return cs.disk.asUser(in.UID, in.GID, do)
}

// mayOpenName is Caller.MayOpen for the file that has a name. By now that may be another file than
// st, if a process of the same owner has just saved it: st becomes the file that was judged.
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
	case !c.MayOpen(fd, flags):
		return unix.EACCES
	}
	return 0
}

// mayReplace reports whether fd is the file st still, EEXIST if not, and whether that may be
// replaced: EPERM if its inode is immutable or for appending alone (chattr(1)). A plain directory
// refuses to open such a file, and the close, at which it could not be replaced, is what shells
// do not look at.
func mayReplace(fd int, st *unix.Stat_t) unix.Errno {
	const sealed = unix.STATX_ATTR_IMMUTABLE | unix.STATX_ATTR_APPEND
	var now unix.Statx_t
	err := unix.Statx(fd, "", unix.AT_EMPTY_PATH, unix.STATX_INO, &now)
	switch {
	case err != nil || now.Ino != st.Ino || unix.Mkdev(now.Dev_major, now.Dev_minor) != uint64(st.Dev):
		return unix.EEXIST
	case now.Attributes&sealed != 0:
		return unix.EPERM
	}
	return 0
}
