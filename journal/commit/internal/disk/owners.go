package disk

import (
	"errors"

	"golang.org/x/sys/unix"
)

// In a sticky directory the owner of a file takes its name away, the owner of the
// directory, or root (inode(7)). A store of root could take any name away, also one that
// somebody outside the mount has given to another file since the store looked. So the
// store makes the call that takes a name away with the credentials of the owner of the
// file that it has seen there, and the kernel refuses if another user's file has the name.

// ErrForeignName says that in a sticky directory another user's file has the name.
var ErrForeignName = errors.New("the name has got another user's file meanwhile")

// OwnerOf returns what takes a name in dir away from the file st.
func (s *Disk) OwnerOf(dir int, st *unix.Stat_t) Runner { return s.OwnerOfBoth(dir, st, st) }

// OwnerOfBoth returns what gives the name of the file old in dir to the file new. nil
// means the daemon itself: where the directory is not sticky, and where old and new have
// two owners, as after a chown by root, neither of whom could do it.
func (s *Disk) OwnerOfBoth(dir int, new, old *unix.Stat_t) Runner {
	var up unix.Stat_t
	if s.Owners == nil || unix.Fstat(dir, &up) != nil || up.Mode&unix.S_ISVTX == 0 {
		return nil
	}
	if new.Uid != old.Uid && new.Uid != up.Uid {
		return nil
	}
	return s.Owners(new.Uid, new.Gid)
}

// OwnerOfNames is OwnerOfBoth for two names in dir, of which the second ought to hold the
// inode ino. Whether another file may lose the name the kernel decides.
func (s *Disk) OwnerOfNames(dir int, from, to string, ino uint64) Runner {
	var new, old unix.Stat_t
	if s.Owners == nil || unix.Fstatat(dir, from, &new, unix.AT_SYMLINK_NOFOLLOW) != nil {
		return nil
	}
	if unix.Fstatat(dir, to, &old, unix.AT_SYMLINK_NOFOLLOW) != nil || old.Ino != ino {
		return s.OwnerOf(dir, &new)
	}
	return s.OwnerOfBoth(dir, &new, &old)
}

// IsForeign reports whether the kernel will refuse to give the name of the file old in dir
// to the file new, which OwnerOfNames does not take for its successor.
func (s *Disk) IsForeign(dir int, new, old *unix.Stat_t) bool {
	var up unix.Stat_t
	return s.Owners != nil && unix.Fstat(dir, &up) == nil && up.Mode&unix.S_ISVTX != 0 &&
		new.Uid != 0 && new.Uid != old.Uid && new.Uid != up.Uid
}

// Foreign tells a refusal by the kernel of what r runs from other errors.
func (r Runner) Foreign(err error) error {
	if r != nil && errors.Is(err, unix.EPERM) {
		return ErrForeignName
	}
	return err
}
