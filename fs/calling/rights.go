package calling

import (
	"slices"

	"golang.org/x/sys/unix"

	"latchfs/fs/access"
	"latchfs/fs/asuser"
	"latchfs/fs/reach"
)

// Groups are the caller's groups beside its GID, as they were when they were first asked
// for; known says that they could be read, and are all.
func (c *Caller) Groups() (groups []uint32, known bool) {
	c.groupsOnce.Do(func() {
		if c.tid != 0 {
			c.groups, c.groupsKnown = c.room.c.Procs.Groups(c.tid)
		}
	})
	return c.groups, c.groupsKnown
}

// HaveGroups gives the caller these groups instead of its own, unless it was asked for those
// already.
func (c *Caller) HaveGroups(groups []uint32, known bool) {
	c.groupsOnce.Do(func() { c.groups, c.groupsKnown = groups, known })
}

// InGroup reports whether a group is one of the caller's.
func (c *Caller) InGroup(gid uint32) bool {
	if c.gid == gid {
		return true
	}
	groups, _ := c.Groups()
	return slices.Contains(groups, gid)
}

// User is the caller as somebody who has rights. Root needs no groups.
func (c *Caller) User() *access.User {
	if c.uid == 0 {
		return &access.User{}
	}
	groups, known := c.Groups()
	return &access.User{UID: c.uid, GIDs: append([]uint32{c.gid}, groups...), All: known}
}

// HasCap reports whether the caller has a capability; see capabilities(7).
func (c *Caller) HasCap(capability int) bool {
	return c.tid != 0 && c.room.c.Procs.HasCap(c.tid, capability)
}

// As runs do on behalf of the caller: what that makes is the caller's, and the caller's
// quota and root's reserve bind it.
func (c *Caller) As(do func() error) error {
	if !c.room.c.Privileged {
		return do()
	}
	return c.credentials().Do(do)
}

// AsOwn is As for what the owner of a file may do, and others may not, unless their
// capabilities let them (CAP_FOWNER).
func (c *Caller) AsOwn(do func() error) error {
	if !c.room.c.Privileged || c.uid == 0 {
		return do()
	}
	err := c.credentials().DoOwn(do)
	if err == unix.EPERM && c.HasCap(unix.CAP_FOWNER) {
		return do()
	}
	return err
}

func (c *Caller) credentials() asuser.Identity { return asuser.Identity{UID: c.uid, GID: c.gid} }

// MayOpen asks the kernel whether the caller may open the file behind fd, which may be
// O_PATH, with these flags of open(2): for the rare opens that lead to another file than the
// one whose permissions were checked on the way to us.
func (c *Caller) MayOpen(fd int, flags uint32) bool {
	if c.uid == 0 || c.uid == uint32(unix.Geteuid()) {
		return true
	}
	var bits uint32
	if how := flags & unix.O_ACCMODE; how != unix.O_WRONLY {
		bits |= unix.R_OK
	}
	if flags&unix.O_ACCMODE != unix.O_RDONLY || flags&unix.O_TRUNC != 0 {
		bits |= unix.W_OK
	}
	if !c.room.c.Privileged {
		return reach.May(c.User(), fd, bits)
	}
	groups, _ := c.Groups()
	err := c.credentials().Judged(groups, func() error {
		return unix.Faccessat2(fd, "", bits, unix.AT_EMPTY_PATH|unix.AT_EACCESS)
	})
	return err == nil || err == unix.EACCES && c.HasCap(unix.CAP_DAC_OVERRIDE)
}
