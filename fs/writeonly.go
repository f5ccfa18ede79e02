package fs

import (
	"golang.org/x/sys/unix"

	"latchfs/lockmgr/knowledge"
)

// The daemon of an ordinary user's own mount may do with a file what that user may. One that
// the user may write and not read, as a drop box is, can have no copy to be written, and no
// journal that a recovery could compare it with: it is written as a live file is.

// isWriteOnly reports whether the daemon may not read what is open as fd, and has the name
// path. What a validator has to accept is not written unread.
func (f *FS) isWriteOnly(fd int, path string) bool {
	if f.privileged || fd < 0 {
		return false
	}
	err := unix.Faccessat2(fd, "", unix.R_OK, unix.AT_EMPTY_PATH|unix.AT_EACCESS)
	return err == unix.EACCES && f.judge.Rules(path) == nil
}

// isUnreadable is isWriteOnly for the file n.
func (f *FS) isUnreadable(n *inode) bool {
	return !f.privileged && n.isRegular() && f.isWriteOnly(f.fdOf(n), f.nodePath(n))
}

// isNameUnreadable is isWriteOnly for the file that has a name.
func (f *FS) isNameUnreadable(dir *inode, name string) bool {
	if f.privileged {
		return false
	}
	fd, err := unix.Openat(f.fdOf(dir), name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	return f.isWriteOnly(fd, f.path(dir, name))
}

// isWrittenUnread reports whether p's file is to be written although the daemon may not read
// it: the name leads to it, and nobody is about to replace it. Who finds a session there waits
// for that.
func (f *FS) isWrittenUnread(p place) bool {
	return f.isUnreadable(p.inode) && f.isPublished(p.inode) && f.sessionOn(p.inode, p.dir, p.name) == nil
}

// openUnread opens a file to write that the daemon may not read.
func (f *FS) openUnread(in *OpenRequest, k *kernelNode, n *inode, out *Opened) unix.Errno {
	f.changesUnread(n)
	return f.openPlain(in, k, n, true, out)
}

// changesUnread notes that a file which had versions changes without them. What was known of
// the last one says nothing any more: nobody is refused for it.
func (f *FS) changesUnread(n *inode) {
	f.paths.RLock()
	defer f.paths.RUnlock()
	f.changed(n, true)
	if key := knowledge.Key(f.nodePath(n)); f.knowledge != nil && f.knowledge.Tracks(key) {
		f.knowledge.Forget(key)
	}
}
