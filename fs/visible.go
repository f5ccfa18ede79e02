package fs

import (
	"os"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"latchfs/fs/access"
	"latchfs/fs/locksdir"
)

// Who may know of a path: whoever can reach it now, which takes the right to search
// every directory from the root down. Of a path whose directory is gone nobody can
// say that, so it is known to the user who has done there what is told, and to those
// who see everything: root and the mount's owner. All that .locks, replies on the
// control file and the audit trail say of a path keeps to this rule, and asks here.

// look is one viewer's sight, with what was found out about directories.
type look struct {
	f *FS
	v locksdir.Viewer
	u access.User

	mu    sync.Mutex // guards what follows
	dirs  map[string]reach
	files map[string]readable
	last  map[string]bool // what couldReadLast has found out
	bytes int             // that these take
	// forgot says that it was more than dirs has.
	forgot bool
}

// The bound of what a look remembers, in bytes.
const (
	maxLook  = 256 << 10
	lookCost = 64 // of one thing, beside its path
)

// boundLocked makes room for one more path.
func (l *look) boundLocked(path string) {
	if l.bytes += lookCost + len(path); l.bytes <= maxLook {
		return
	}
	clear(l.dirs)
	clear(l.files)
	clear(l.last)
	l.bytes, l.forgot = lookCost+len(path), true
}

// reach is how far a viewer gets on the way to a directory.
type reach uint8

const (
	reachAll    reach = iota + 1 // into it
	reachGone                    // as far as there are directories
	reachDenied                  // one of them keeps it out
)

func (f *FS) lookOf(v locksdir.Viewer) *look {
	return &look{f: f, v: v, u: userOf(v), dirs: map[string]reach{}, files: map[string]readable{}, last: map[string]bool{}}
}

// seesEverything reports whether a user is root or the mount's owner.
func seesEverything(uid uint32) bool { return uid == 0 || int(uid) == os.Geteuid() }

func userOf(v locksdir.Viewer) access.User {
	return access.User{UID: v.UID, GIDs: v.GIDs, All: v.AllGroups}
}

// Sight implements locksdir.Source.
func (s *source) Sight(v locksdir.Viewer) locksdir.Sight {
	if v.Privileged {
		return nil
	}
	return s.f.lookOf(v)
}

// Sees implements locksdir.Sight. What has no path, as the lock on an inode, shows to
// everybody.
func (l *look) Sees(path string, uid uint32) bool {
	if l.v.Privileged || strings.HasPrefix(path, "//") {
		return true
	}
	switch l.reach(dirName(path)) {
	case reachAll:
		return true
	case reachGone:
		return uid == l.v.UID
	case reachDenied:
	}
	return false
}

// Stands implements locksdir.Sight.
func (l *look) Stands() bool {
	now := l.f.lookOf(l.v)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.forgot {
		return false
	}
	for dir, r := range l.dirs {
		if now.reach(dir) != r {
			return false
		}
	}
	return true
}

func (l *look) reach(dir string) reach {
	l.mu.Lock()
	defer l.mu.Unlock()
	if r, ok := l.dirs[dir]; ok {
		return r
	}
	l.boundLocked(dir)
	return l.reachLocked(dir)
}

func (l *look) reachLocked(dir string) reach {
	if r, ok := l.dirs[dir]; ok {
		return r
	}
	r := reachAll
	if dir != "" {
		r = l.reachLocked(dirName(dir))
	}
	if r == reachAll {
		r = l.enter(dir)
	}
	l.bytes += lookCost // its path is part of the one that is asked for
	l.dirs[dir] = r
	return r
}

// enter looks at one directory, whose parent lets the viewer search.
func (l *look) enter(dir string) reach {
	fd, e := l.f.openDirPath(dir)
	switch {
	case e == unix.ENOENT, e == unix.ENOTDIR, e == unix.ELOOP:
		return reachGone
	case e != 0:
		return reachDenied
	}
	defer unix.Close(fd)
	if !l.may(access.Search, fd) {
		return reachDenied
	}
	return reachAll
}

// may reports whether the viewer has the right to what is open as fd, which may be
// O_PATH. When in doubt, no.
func (l *look) may(want uint32, fd int) bool {
	if l.v.Privileged {
		return true
	}
	var st unix.Stat_t
	if unix.Fstat(fd, &st) != nil {
		return false
	}
	acl, ok := aclOf(fd)
	return ok && l.u.May(want, &access.File{UID: st.Uid, GID: st.Gid, Mode: st.Mode, ACL: acl})
}

// maxACL is more than an extended attribute can have.
const maxACL = 64 << 10

// aclOf reads the access ACL of what is open as fd, nil if it has none. ok is false
// where that cannot be told.
func aclOf(fd int) (acl access.ACL, ok bool) {
	var small [256]byte
	b := small[:]
	n, err := unix.Getxattr(procSelf(fd), aclAttr, b)
	if err == unix.ERANGE {
		b = make([]byte, maxACL)
		n, err = unix.Getxattr(procSelf(fd), aclAttr, b)
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

const aclAttr = "system.posix_acl_access"

// openDirPath opens a directory by its path below the root, through no symbolic
// link.
func (f *FS) openDirPath(dir string) (int, unix.Errno) {
	if dir == "" {
		dir = "."
	}
	return f.openBeneath(dir, unix.O_PATH|unix.O_DIRECTORY)
}

func (f *FS) openBeneath(path string, flags uint64) (int, unix.Errno) {
	for {
		fd, err := unix.Openat2(f.rootfd, path, &unix.OpenHow{
			Flags:   flags | unix.O_NOFOLLOW | unix.O_CLOEXEC,
			Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS,
		})
		// openat2(2): EAGAIN when a rename elsewhere got in between.
		if err != unix.EINTR && err != unix.EAGAIN {
			return fd, errnoOf(err)
		}
	}
}

func dirName(path string) string {
	i := strings.LastIndexByte(path, '/')
	return path[:max(i, 0)]
}
