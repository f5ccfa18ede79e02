package fs

import (
	"path"
	"strings"

	"golang.org/x/sys/unix"

	"latchfs/fs/access"
	"latchfs/fs/lockkey"
	"latchfs/lockmgr"
	"latchfs/lockmgr/policy"
)

// keysOfTarget are the lock table's names for a target.
func (f *FS) keysOfTarget(t *lockkey.Target) (keys, trees []lockmgr.Key) {
	for _, p := range t.Paths {
		keys = f.appendNames(keys, p)
		dir, e := f.openParent(nil, p)
		if e != 0 {
			continue
		}
		var st unix.Stat_t
		err := unix.Fstatat(dir, path.Base(p), &st, unix.AT_SYMLINK_NOFOLLOW)
		// The locks that programs take by themselves on a live file are its inode's.
		live := f.isLivePath(p) || f.settings(p).Mode == policy.Live
		if err == nil && st.Mode&unix.S_IFMT == unix.S_IFREG && (st.Nlink > 1 || live) {
			keys = append(keys, inoKey{uint64(st.Dev), st.Ino}.lockKey())
		}
		unix.Close(dir)
	}
	for _, n := range t.Names {
		keys = append(keys, lockkey.Name(n))
	}
	for _, p := range t.Trees {
		trees = append(trees, lockmgr.Key(p))
	}
	return keys, trees
}

// openParent opens the directory of a path, whose components are no symbolic
// links. If c is not nil, it must be allowed to search each of them.
func (f *FS) openParent(c *caller, p string) (int, unix.Errno) {
	fd, err := unix.FcntlInt(uintptr(f.rootfd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return -1, errnoOf(err)
	}
	dir := path.Dir(p)
	for _, name := range strings.Split(dir, "/") {
		if e := f.maySearch(c, fd); e != 0 {
			unix.Close(fd)
			return -1, e
		}
		if name == "." || name == "" {
			continue
		}
		next, err := unix.Openat(fd, name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		unix.Close(fd)
		if err != nil {
			return -1, errnoOf(err)
		}
		fd = next
	}
	if e := f.maySearch(c, fd); e != 0 {
		unix.Close(fd)
		return -1, e
	}
	return fd, 0
}

func (f *FS) maySearch(c *caller, dir int) unix.Errno {
	if c == nil || c.uid == 0 {
		return 0
	}
	if !f.mayAccess(c, dir, access.Search) {
		return unix.EACCES
	}
	return 0
}
