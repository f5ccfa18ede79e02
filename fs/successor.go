package fs

import "golang.org/x/sys/unix"

// A file may be saved, so that another one gets its name, between the moment in which a program has
// found it to change its attributes and that in which it does. On a plain directory a save by opening
// and writing leaves the file what it is: what the program sets is the new version's.

// successorOf is a descriptor (O_PATH) of the file that a save has put in the place of n, which the
// caller has found by its name and cannot look for once more; -1 if that is n, or belongs to somebody
// else: the kernel has asked whether the caller may change n.
func (as *astray) successorOf(c *caller, n *inode) (fd int) {
	if !as.meansName(c, n) {
		return -1
	}
	parent, name := as.nodes.nameOf(n)
	fd, err := as.nodes.trim.OpenAt(as.nodes.fdOf(parent), name, unix.O_PATH|unix.O_NOFOLLOW)
	if err != nil {
		return -1
	}
	var was, is unix.Stat_t
	if unix.Fstat(as.nodes.fdOf(n), &was) != nil || unix.Fstat(fd, &is) != nil || is.Mode&unix.S_IFMT != unix.S_IFREG || is.Uid != was.Uid {
		unix.Close(fd)
		return -1
	}
	return fd
}

// changedSuccessor makes the kernel look again at a file that is another one than n, which the reply is
// about.
func (kn *kernel) changedSuccessor(n *inode, is *unix.Stat_t) {
	if now := kn.nodes.inodeFor(is); now != nil && now != n {
		kn.nodes.unseal(now.key)
		kn.forgetAttrs(now)
	}
}
