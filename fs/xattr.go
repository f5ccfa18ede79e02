package fs

import (
	"bytes"

	"golang.org/x/sys/unix"

	"latchfs/fs/reach"
	"latchfs/fs/suid"
	"latchfs/fs/syscalls"
	"latchfs/lockmgr/policy"
)

// GetXAttr is getxattr(2): it returns how long the value is, and fills dest if that has room.
func (ats *attrs) GetXAttr(_ <-chan struct{}, h *Request, attr string, dest []byte) (uint32, unix.Errno) {
	path, e := ats.xattrPath(h)
	if e != 0 {
		return 0, e
	}
	n, err := unix.Getxattr(path, attr, dest)
	if err == nil && attr == suid.Capabilities && ats.forbids(ats.kernel.inodeOf(h.Node), unix.ST_NOSUID) {
		return 0, unix.ENODATA
	}
	return uint32(max(n, 0)), errnoOf(err)
}

// ListXAttr is listxattr(2): it returns how long the list is, and fills dest if that has room.
func (ats *attrs) ListXAttr(_ <-chan struct{}, h *Request, dest []byte) (uint32, unix.Errno) {
	path, e := ats.xattrPath(h)
	if e == unix.ENODATA {
		return 0, 0
	}
	if e != 0 {
		return 0, e
	}
	n, err := unix.Listxattr(path, nil)
	if err != nil || n == 0 {
		return 0, errnoOf(err)
	}
	buf := make([]byte, n+256)
	if n, err = unix.Listxattr(path, buf); err != nil {
		return 0, errnoOf(err)
	}
	list := buf[:n]
	if bytes.Contains(list, []byte(trustedPrefix)) && !ats.callers.proc.HasCap(h.TID, unix.CAP_SYS_ADMIN) {
		list = withoutTrusted(list)
	}
	if len(dest) < len(list) {
		return uint32(len(list)), unix.ERANGE
	}
	return uint32(copy(dest, list)), 0
}

// trustedPrefix begins the attributes that only CAP_SYS_ADMIN may see
// (xattr(7)); we have it, the caller may not.
const trustedPrefix = "trusted."

func withoutTrusted(list []byte) []byte {
	var out []byte
	for name := range bytes.SplitAfterSeq(list, []byte{0}) {
		if !bytes.HasPrefix(name, []byte(trustedPrefix)) {
			out = append(out, name...)
		}
	}
	return out
}

// SetXAttr is setxattr(2).
func (ats *attrs) SetXAttr(_ <-chan struct{}, in *SetXAttrRequest, attr string, data []byte) unix.Errno {
	value := append([]byte(nil), data...)
	flags := int(in.Flags)
	// The kernel says so for both kinds of ACL, and only that of the file itself, which goes
	// into the mode, takes the bit away.
	killSgid := in.KillSgid && attr == reach.ACLAttr
	uid, gid := in.UID, in.GID
	e := ats.changeXattr(&in.Request, func(fd int) error {
		err := ats.disk.retrySmall(func() error {
			return ats.disk.asUser(uid, gid, func() error { return unix.Setxattr(procSelf(fd), attr, value, flags) })
		})
		if err != nil || !killSgid {
			return err
		}
		return dropSgid(fd)
	})
	if e == 0 && attr == reach.ACLAttr {
		ats.kernel.rootChanged(in.Node)
	}
	return e
}

// RemoveXAttr is removexattr(2).
func (ats *attrs) RemoveXAttr(_ <-chan struct{}, h *Request, attr string) unix.Errno {
	return ats.changeXattr(h, func(fd int) error {
		return ats.disk.retrySmall(func() error { return unix.Removexattr(procSelf(fd), attr) })
	})
}

// xattrPath names the inode of a node whose extended attributes the caller reads, for the xattr
// calls, which do not take O_PATH descriptors. A stranger at the node of a shadow walks again: what
// the shadow has is not the file's yet.
func (ats *attrs) xattrPath(h *Request) (string, unix.Errno) {
	if isVirtual(h.Node) {
		return "", unix.ENODATA
	}
	k := ats.kernel.nodeOf(h.Node)
	if k == nil {
		return "", unix.ESTALE
	}
	n := ats.kernel.meant(k)
	if ats.strangerAt(h, k) && ats.redirect(h, n, syscalls.ReadsXattrsByName) {
		return "", unix.ESTALE
	}
	fd := ats.nodes.fdOf(n)
	if fd < 0 {
		return "", unix.ENODATA
	}
	return procSelf(fd), 0
}

// inodeMeant is meant of the node with a number, nil for one unknown.
func (ats *attrs) inodeMeant(id uint64) *inode {
	if k := ats.kernel.nodeOf(id); k != nil {
		return ats.kernel.meant(k)
	}
	return nil
}

func (ats *attrs) changeXattr(h *Request, change func(fd int) error) unix.Errno {
	if isVirtual(h.Node) {
		return unix.EPERM
	}
	if ats.disk.opts.ReadOnly {
		return unix.EROFS
	}
	n := ats.inodeMeant(h.Node)
	if n == nil {
		return unix.ESTALE
	}
	c := ats.callers.callerOf(h)
	return ats.appending.alsoFollowed(c, n, func(n *inode) unix.Errno { return ats.changeXattrOf(c, h, n, change) })
}

// changeXattrOf changes extended attributes of n.
func (ats *attrs) changeXattrOf(c *caller, h *Request, n *inode, change func(fd int) error) unix.Errno {
	ats.nodes.mu.Lock()
	s := n.sess
	parent, name := n.namedLocked()
	ats.nodes.mu.Unlock()
	switch {
	case s != nil && (c.BelongsTo(s.who.Load()) || mayBeWriter(c, s)):
		if e := ats.changeMeta(s, change, false); e != errEnded {
			return e
		}
		if ats.nodes.unnamed(n) {
			return errnoOf(change(ats.nodes.fdOf(n)))
		}
		parent, name = ats.nodes.nameOf(n)
	case !n.isRegular() || parent == nil || s == nil && ats.nodes.unnamed(n):
		if ats.astray.isLateAt(c, n) {
			return ats.astray.staleAt(c, n)
		}
		if !ats.astray.meansName(c, n) || ats.callers.txnOf(c) != nil {
			return errnoOf(change(ats.nodes.fdOf(n)))
		}
	}
	set := ats.rules.settings(ats.nodes.path(parent, name))
	switch {
	case set.Mode == policy.ReadOnly:
		return ats.reports.refuseReadOnly(h, opXattr, ats.nodes.path(parent, name), &set)
	case set.Mode == policy.Live:
		return errnoOf(change(ats.nodes.fdOf(n)))
	}
	if t := ats.callers.txnOf(c); t != nil {
		return t.attributes(c, opXattr, place{parent, name, n}, func() unix.Errno { return 0 })
	}
	return ats.changeNamed(c, opXattr, n, place{parent, name, n}, set.Wait, change)
}

// dropSgid clears the setgid bit.
func dropSgid(fd int) error {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	if st.Mode&unix.S_ISGID == 0 {
		return nil
	}
	return unix.Chmod(procSelf(fd), st.Mode&0o7777&^unix.S_ISGID)
}
