// Package reach says what a user may reach and do below a directory: which paths lead
// somewhere for it, what it may read, write and search there, and which locks it may
// take. The daemon opens everything itself, so it has to judge what the kernel would
// have judged for the user: by owner, mode and ACL (package access has the rules). When
// in doubt, the answer is no.
//
// A path is one below the root, without a slash at either end; the root is the empty
// path. No symbolic link is followed, but by Follow, and no path leads outside.
//
//	Root.Open, OpenDir, OpenParent   open what a path leads to
//	Root.Stat, MayReach, MayLock     judge what a user may do there, now
//	Root.Follow                      tells where a path with symbolic links leads
//	May                              judges what is open
//	Look                             remembers, for one viewer of .locks
//
// Look.mu guards what a Look has found out. It is held while directories are looked at,
// and no other mutex is taken then.
package reach

import (
	"path"
	"strings"

	"golang.org/x/sys/unix"

	"latchfs/fs/access"
	"latchfs/fs/sys"
)

// Root is the directory below which all paths are.
type Root struct {
	FD int // it may be O_PATH
}

// Open opens what is at a path, with flags of open(2). If that is a symbolic link, it
// needs O_PATH.
func (r Root) Open(path string, flags uint64) (int, unix.Errno) {
	for {
		fd, err := unix.Openat2(r.FD, path, &unix.OpenHow{
			Flags:   flags | unix.O_NOFOLLOW | unix.O_CLOEXEC,
			Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS,
		})
		// openat2(2): EAGAIN when a rename elsewhere got in between.
		if err != unix.EINTR && err != unix.EAGAIN {
			return fd, sys.Errno(err)
		}
	}
}

// OpenDir opens a directory, as O_PATH.
func (r Root) OpenDir(dir string) (int, unix.Errno) {
	if dir == "" {
		dir = "."
	}
	return r.Open(dir, unix.O_PATH|unix.O_DIRECTORY)
}

// OpenParent opens the directory of a path, as O_PATH. If u is not nil, it must be
// allowed to search each directory on the way.
func (r Root) OpenParent(u *access.User, p string) (int, unix.Errno) {
	fd, err := unix.FcntlInt(uintptr(r.FD), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return -1, sys.Errno(err)
	}
	for _, name := range strings.Split(path.Dir(p), "/") {
		if e := maySearch(u, fd); e != 0 {
			unix.Close(fd)
			return -1, e
		}
		if name == "." || name == "" {
			continue
		}
		next, err := unix.Openat(fd, name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		unix.Close(fd)
		if err != nil {
			return -1, sys.Errno(err)
		}
		fd = next
	}
	if e := maySearch(u, fd); e != 0 {
		unix.Close(fd)
		return -1, e
	}
	return fd, 0
}

func maySearch(u *access.User, dir int) unix.Errno {
	if u == nil || May(u, dir, access.Search) {
		return 0
	}
	return unix.EACCES
}

// Exists reports whether a path has a file.
func (r Root) Exists(p string) bool {
	_, found, e := r.Stat(nil, p)
	return found && e == 0
}

// Stat is the file at a path or, where there is none, its directory. If u is not nil, it
// must be allowed to search to it.
func (r Root) Stat(u *access.User, p string) (st unix.Stat_t, found bool, e unix.Errno) {
	dir, e := r.OpenParent(u, p)
	if e != 0 {
		return st, false, e
	}
	defer unix.Close(dir)
	if p != "" {
		err := unix.Fstatat(dir, path.Base(p), &st, unix.AT_SYMLINK_NOFOLLOW)
		if err != unix.ENOENT {
			return st, true, sys.Errno(err)
		}
	}
	return st, p == "", sys.Errno(unix.Fstat(dir, &st))
}

// MayReach checks a user's rights on a path; where it leads to nothing yet, those on its
// directory.
func (r Root) MayReach(u *access.User, p string, bits uint32) unix.Errno {
	dir, e := r.OpenParent(u, p)
	if e != 0 {
		return e
	}
	defer unix.Close(dir)
	var st, up unix.Stat_t
	err := unix.Fstatat(dir, path.Base("/"+p), &st, unix.AT_SYMLINK_NOFOLLOW)
	if e := unix.Fstat(dir, &up); e != nil {
		return sys.Errno(e)
	}
	link := err == nil && st.Mode&unix.S_IFMT == unix.S_IFLNK
	at := dir
	switch {
	case p == "" || err == unix.ENOENT || link && (up.Mode&unix.S_ISVTX == 0 || Owns(u, &st) || Owns(u, &up)):
		bits = access.Write // what a lock on a name alone keeps others from
	case link:
		return unix.EACCES
	case err != nil:
		return sys.Errno(err)
	default:
		if at, err = unix.Openat(dir, path.Base(p), unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0); err != nil {
			return sys.Errno(err)
		}
		defer unix.Close(at)
	}
	if !May(u, at, bits) {
		return unix.EACCES
	}
	return 0
}

// Owns reports whether a file is a user's. All files are root's.
func Owns(u *access.User, st *unix.Stat_t) bool { return u.UID == 0 || u.UID == st.Uid }

// May reports whether the owner, the mode and the ACL of what is open as fd, which may
// be O_PATH, give a user these rights.
func May(u *access.User, fd int, want uint32) bool {
	return u.UID == 0 || judge(u, fd, want)
}

func judge(u *access.User, fd int, want uint32) bool {
	var st unix.Stat_t
	if unix.Fstat(fd, &st) != nil {
		return false
	}
	acl, ok := aclOf(fd)
	return ok && u.May(want, &access.File{UID: st.Uid, GID: st.Gid, Mode: st.Mode, ACL: acl})
}

// ACLAttr is the extended attribute that has the access ACL of a file.
const ACLAttr = "system.posix_acl_access"

// HasACL reports whether what is open as fd, which may be O_PATH, has an access ACL, of
// which its mode does not tell all. Where that cannot be told, it has.
func HasACL(fd int) bool {
	_, err := unix.Getxattr(sys.Self(fd), ACLAttr, nil)
	return err != unix.ENODATA && err != unix.EOPNOTSUPP
}

// maxACL is more than an extended attribute can have.
const maxACL = 64 << 10

// aclOf reads the access ACL of what is open as fd, nil if it has none. ok is false
// where that cannot be told.
func aclOf(fd int) (acl access.ACL, ok bool) { return readACL(unix.Getxattr, sys.Self(fd)) }

// WithoutACL takes the rights out of the mode of a directory, which has a name in the directory
// dir, that it has not without its access ACL: the bits of the group are the mask of that.
func WithoutACL(dir int, name string, st *unix.Stat_t) {
	if acl, ok := readACL(unix.Lgetxattr, sys.Self(dir)+"/"+name); acl != nil || !ok {
		st.Mode &^= 0o070 &^ (acl.Group() << 3)
	}
}

func readACL(read func(path, attr string, b []byte) (int, error), path string) (acl access.ACL, ok bool) {
	var small [256]byte
	b := small[:]
	n, err := read(path, ACLAttr, b)
	if err == unix.ERANGE {
		b = make([]byte, maxACL)
		n, err = read(path, ACLAttr, b)
	}
	switch err {
	case nil:
		acl, err = access.ParseACL(b[:n])
		return acl, err == nil
	case unix.ENODATA, unix.EOPNOTSUPP:
		return nil, true
	}
	return nil, false
}

// Dir is the directory of a path.
func Dir(path string) string {
	i := strings.LastIndexByte(path, '/')
	return path[:max(i, 0)]
}
