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
func (co *contents) isWriteOnly(fd int, path string) bool {
	if co.disk.privileged || fd < 0 {
		return false
	}
	err := unix.Faccessat2(fd, "", unix.R_OK, unix.AT_EMPTY_PATH|unix.AT_EACCESS)
	return err == unix.EACCES && co.judging.judge.Rules(path) == nil
}

// isUnreadable is isWriteOnly for the file n.
func (co *contents) isUnreadable(n *inode) bool {
	return !co.disk.privileged && n.isRegular() && co.isWriteOnly(co.nodes.fdOf(n), co.nodes.nodePath(n))
}

// isNameUnreadable is isWriteOnly for the file that has a name.
func (co *contents) isNameUnreadable(dir *inode, name string) bool {
	if co.disk.privileged {
		return false
	}
	fd, err := unix.Openat(co.nodes.fdOf(dir), name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	return co.isWriteOnly(fd, co.nodes.path(dir, name))
}

// isWrittenUnread reports whether p's file is to be written although the daemon may not read
// it: the name leads to it, and nobody is about to replace it. Who finds a session there waits
// for that.
func (co *contents) isWrittenUnread(p place) bool {
	return co.isUnreadable(p.inode) && co.names.isPublished(p.inode) && co.nodes.sessionOn(p.inode, p.dir, p.name) == nil
}

// changesUnread notes that a file which had versions changes without them. What was known of
// the last one says nothing any more: nobody is refused for it.
func (co *contents) changesUnread(n *inode) {
	co.nodes.paths.RLock()
	defer co.nodes.paths.RUnlock()
	co.recorder.changed(n, true)
	if key := knowledge.Key(co.nodes.nodePath(n)); co.rules.knowledge != nil && co.rules.knowledge.Tracks(key) {
		co.rules.knowledge.Forget(key)
	}
}
