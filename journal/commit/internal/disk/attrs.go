package disk

import (
	"bytes"
	"errors"
	"maps"
	"os"
	"slices"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// What is not like other attributes and mode bits: a directory's default ACL is for new
// files, and writes take capabilities and these bits away.
const (
	XattrDefaultACL = "system.posix_acl_default"
	XattrCapability = "security.capability"
	SpecialBits     = unix.S_ISUID | unix.S_ISGID
)

// HasDefaultACL reports whether files made in dir inherit an ACL.
func HasDefaultACL(dir int) bool {
	_, err := unix.Getxattr(procFD(dir), XattrDefaultACL, nil)
	return err == nil
}

// KeptFlags are the inode flags (ioctl_iflags(2)) that belong to a file's
// content and not to its place or its filesystem.
const KeptFlags = 0x00000004 | // FS_COMPR_FL
	0x00000008 | // FS_SYNC_FL
	0x00000040 | // FS_NODUMP_FL
	0x00000080 | // FS_NOATIME_FL
	0x00000400 | // FS_NOCOMP_FL
	0x00004000 | // FS_JOURNAL_DATA_FL
	0x00800000 //   FS_NOCOW_FL

// CopyFlags gives to the inode flags of from.
func (s *Disk) CopyFlags(from, to int) error {
	want, err := unix.IoctlGetUint32(from, unix.FS_IOC_GETFLAGS)
	if err != nil {
		return nil // a filesystem without them
	}
	have, err := unix.IoctlGetUint32(to, unix.FS_IOC_GETFLAGS)
	if err != nil || (want^have)&KeptFlags == 0 {
		return err
	}
	flags := have&^KeptFlags | want&KeptFlags
	return s.Do("setflags", func() error { return unix.IoctlSetPointerInt(to, unix.FS_IOC_SETFLAGS, int(flags)) })
}

// CopyXattrs gives to exactly the extended attributes of from, ACLs and file
// capabilities included, as far as carries allows. changed is false if to had them already.
func (s *Disk) CopyXattrs(from, to int, carries func(string) bool) (changed bool, err error) {
	want, err := ListXattrs(from)
	if err != nil {
		return false, err
	}
	have, err := ListXattrs(to)
	if err != nil {
		return false, err
	}
	for _, name := range have {
		if slices.Contains(want, name) || !carries(name) {
			continue
		}
		changed = true
		err := s.Do("removexattr", func() error { return unix.Fremovexattr(to, name) })
		if err != nil && !errors.Is(err, unix.ENODATA) && !foreignXattr(name) {
			return true, err
		}
	}
	for _, name := range want {
		if !carries(name) {
			continue
		}
		value, err := GetXattr(from, name)
		if errors.Is(err, unix.ENODATA) {
			continue
		}
		if err != nil {
			return changed, err
		}
		if slices.Contains(have, name) {
			if old, err := GetXattr(to, name); err == nil && bytes.Equal(old, value) {
				continue
			}
		}
		changed = true
		err = s.Do("setxattr", func() error { return unix.Fsetxattr(to, name, value, 0) })
		if err != nil && !foreignXattr(name) {
			return true, err
		}
	}
	return changed, nil
}

// foreignXattr reports whether a security module keeps the attribute for
// itself: it labels every file on its own terms and may refuse ours.
func foreignXattr(name string) bool {
	return strings.HasPrefix(name, "security.") && name != XattrCapability
}

// ListXattrs returns the names of the extended attributes; a filesystem without them has
// none.
func ListXattrs(fd int) ([]string, error) {
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

// GetXattr returns an extended attribute.
func GetXattr(fd int, name string) ([]byte, error) {
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

// AnyXattr allows all extended attributes to be carried over.
func AnyXattr(string) bool { return true }

// UserXattr allows those that decide nothing about what anybody may do.
func UserXattr(name string) bool { return strings.HasPrefix(name, "user.") }

// Omit leaves a timestamp as it is (utimensat(2)).
var Omit = unix.Timespec{Nsec: unix.UTIME_OMIT}

// Futimens sets access and modification time, in this order.
func Futimens(fd int, ts [2]unix.Timespec) error {
	// utimensat(2): with a null path the descriptor itself is meant.
	_, _, errno := unix.Syscall6(unix.SYS_UTIMENSAT, uintptr(fd), 0, uintptr(unsafe.Pointer(&ts)), 0, 0, 0)
	if errno != 0 {
		return errno
	}
	return nil
}

// Alike reports whether two directories in dir have the same owner, group, mode and extended
// attributes. Where that cannot be told they have not.
func Alike(dir int, a, b string) bool {
	var x, y attrs
	return x.read(dir, a) == nil && y.read(dir, b) == nil &&
		x.uid == y.uid && x.gid == y.gid && x.mode == y.mode && maps.Equal(x.extended, y.extended)
}

// attrs are the attributes of a directory.
type attrs struct {
	uid, gid, mode uint32
	extended       map[string]string
}

func (a *attrs) read(dir int, name string) error {
	fd, err := unix.Openat(dir, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return os.NewSyscallError("openat", err)
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return os.NewSyscallError("fstat", err)
	}
	a.uid, a.gid, a.mode, a.extended = st.Uid, st.Gid, st.Mode, map[string]string{}
	names, err := ListXattrs(fd)
	for _, n := range names {
		value, e := GetXattr(fd, n)
		a.extended[n], err = string(value), errors.Join(err, e)
	}
	return err
}
