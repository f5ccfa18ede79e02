package commit

import (
	"bytes"
	"errors"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

const (
	xattrDefaultACL = "system.posix_acl_default"
	xattrCapability = "security.capability"
	specialBits     = unix.S_ISUID | unix.S_ISGID
)

// initMeta gives a new file its mode and owner. What open(2) did with the
// directory's default ACL stays.
func (sh *Shadow) initMeta(o ShadowOptions) error {
	var st unix.Stat_t
	if err := unix.Fstat(sh.fd, &st); err != nil {
		return os.NewSyscallError("fstat", err)
	}
	mode := st.Mode & 0o7777
	if want := o.Mode & 0o7777; mode != want && !hasDefaultACL(o.Dir) {
		mode = want // our own umask took something; the caller's was applied before
	}
	uid, gid := o.UID, o.GID
	var dir unix.Stat_t
	if err := unix.Fstatat(o.Dir, "", &dir, unix.AT_EMPTY_PATH); err != nil {
		return os.NewSyscallError("fstat", err)
	}
	if dir.Mode&unix.S_ISGID != 0 {
		gid = -1
	}
	if err := sh.chown(&st, uid, gid); err != nil {
		return err
	}
	if mode != st.Mode&0o7777 || mode&specialBits != 0 { // which chown drops
		return sh.s.do("chmod", func() error { return unix.Fchmod(sh.fd, mode) })
	}
	return nil
}

// chown gives the shadow, which has the status st, an owner; -1 leaves it.
func (sh *Shadow) chown(st *unix.Stat_t, uid, gid int) error {
	if uid == int(st.Uid) {
		uid = -1
	}
	if gid == int(st.Gid) {
		gid = -1
	}
	if uid < 0 && gid < 0 {
		return nil
	}
	return sh.s.do("chown", func() error { return unix.Fchown(sh.fd, uid, gid) })
}

// hasDefaultACL reports whether files made in dir inherit an ACL.
func hasDefaultACL(dir int) bool {
	_, err := unix.Getxattr(procFD(dir), xattrDefaultACL, nil)
	return err == nil
}

// copyMeta makes the shadow look like base. What we may not do is remembered
// in sh.inPlace.
func (sh *Shadow) copyMeta(base int) error {
	var from, to unix.Stat_t
	if err := unix.Fstat(base, &from); err != nil {
		return os.NewSyscallError("fstat", err)
	}
	if err := unix.Fstat(sh.fd, &to); err != nil {
		return os.NewSyscallError("fstat", err)
	}
	try := func(what string, err error) {
		if err != nil && sh.inPlace == nil {
			sh.inPlace = &kinded{ErrCannotPreserve, what, err}
		}
	}
	try("inode flags", copyFlags(sh.s, base, sh.fd)) // first: some want an empty file
	try("owner", sh.chown(&to, int(from.Uid), int(from.Gid)))
	try("extended attributes", copyXattrs(sh.s, base, sh.fd, anyXattr))
	// Last, because chown drops set-user-ID and an ACL sets the group bits.
	err := sh.s.do("chmod", func() error { return unix.Fchmod(sh.fd, from.Mode&0o7777) })
	if err != nil {
		return err
	}
	if err := unix.Fstat(sh.fd, &to); err != nil {
		return os.NewSyscallError("fstat", err)
	}
	if to.Mode&0o7777 != from.Mode&0o7777 {
		// chmod(2): the set-group-ID bit of a file whose group is not ours.
		try("mode", unix.EPERM)
	}
	return sh.s.do("utimens", func() error { return futimens(sh.fd, [2]unix.Timespec{from.Atim, from.Mtim}) })
}

// keptFlags are the inode flags (ioctl_iflags(2)) that belong to a file's
// content and not to its place or its filesystem.
const keptFlags = 0x00000004 | // FS_COMPR_FL
	0x00000008 | // FS_SYNC_FL
	0x00000040 | // FS_NODUMP_FL
	0x00000080 | // FS_NOATIME_FL
	0x00000400 | // FS_NOCOMP_FL
	0x00004000 | // FS_JOURNAL_DATA_FL
	0x00800000 //   FS_NOCOW_FL

// copyFlags gives to the inode flags of from.
func copyFlags(s *Store, from, to int) error {
	want, err := unix.IoctlGetUint32(from, unix.FS_IOC_GETFLAGS)
	if err != nil {
		return nil // a filesystem without them
	}
	have, err := unix.IoctlGetUint32(to, unix.FS_IOC_GETFLAGS)
	if err != nil || (want^have)&keptFlags == 0 {
		return err
	}
	flags := have&^keptFlags | want&keptFlags
	return s.do("setflags", func() error { return unix.IoctlSetPointerInt(to, unix.FS_IOC_SETFLAGS, int(flags)) })
}

// copyXattrs gives to exactly the extended attributes of from, ACLs and file
// capabilities included, as far as carries allows.
func copyXattrs(s *Store, from, to int, carries func(string) bool) error {
	want, err := listXattrs(from)
	if err != nil {
		return err
	}
	have, err := listXattrs(to)
	if err != nil {
		return err
	}
	for _, name := range have {
		if slices.Contains(want, name) || !carries(name) {
			continue
		}
		err := s.do("removexattr", func() error { return unix.Fremovexattr(to, name) })
		if err != nil && !errors.Is(err, unix.ENODATA) && !foreignXattr(name) {
			return err
		}
	}
	for _, name := range want {
		if !carries(name) {
			continue
		}
		value, err := getXattr(from, name)
		if errors.Is(err, unix.ENODATA) {
			continue
		}
		if err != nil {
			return err
		}
		if slices.Contains(have, name) {
			if old, err := getXattr(to, name); err == nil && bytes.Equal(old, value) {
				continue
			}
		}
		err = s.do("setxattr", func() error { return unix.Fsetxattr(to, name, value, 0) })
		if err != nil && !foreignXattr(name) {
			return err
		}
	}
	return nil
}

// foreignXattr reports whether a security module keeps the attribute for
// itself: it labels every file on its own terms and may refuse ours.
func foreignXattr(name string) bool {
	return strings.HasPrefix(name, "security.") && name != xattrCapability
}

func listXattrs(fd int) ([]string, error) {
	buf := make([]byte, 256)
	for {
		n, err := unix.Flistxattr(fd, buf)
		switch {
		case errors.Is(err, unix.EOPNOTSUPP):
			return nil, nil
		case errors.Is(err, unix.ERANGE):
			buf = make([]byte, 64<<10) // XATTR_LIST_MAX
		case err != nil:
			return nil, os.NewSyscallError("flistxattr", err)
		case n == 0:
			return nil, nil
		default:
			return strings.Split(strings.TrimSuffix(string(buf[:n]), "\x00"), "\x00"), nil
		}
	}
}

func getXattr(fd int, name string) ([]byte, error) {
	buf := make([]byte, 256)
	for {
		n, err := unix.Fgetxattr(fd, name, buf)
		switch {
		case errors.Is(err, unix.ERANGE) && len(buf) < 64<<10:
			buf = make([]byte, 64<<10) // XATTR_SIZE_MAX
		case err != nil:
			return nil, os.NewSyscallError("fgetxattr", err)
		default:
			return buf[:n], nil
		}
	}
}
