package fs

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"latchfs/fs/access"
	"latchfs/fs/control"
	"latchfs/fs/lockkey"
	"latchfs/journal/commit"
	"latchfs/lockmgr"
	"latchfs/lockmgr/policy"
)

// What one request may name: the lock table takes all of it in one step, in which
// nobody else is served.
const (
	maxTargets     = 1000
	maxTargetBytes = 256 << 10
)

// targetOf reads what a request names. Paths are relative to the mount's root.
func (f *FS) targetOf(r *control.Request) (lockkey.Target, error) {
	t := lockkey.Target{Names: r.Names}
	size := 0
	for _, p := range slices.Concat(r.Paths, r.Trees, r.Names) {
		size += len(p)
	}
	if len(r.Paths)+len(r.Trees)+len(r.Names) > maxTargets || size > maxTargetBytes {
		return t, fmt.Errorf("one request is for up to %d paths, trees and names, with up to %d bytes", maxTargets, maxTargetBytes)
	}
	for _, p := range r.Paths {
		clean, err := f.cleanPath(p)
		if err == nil && clean == "" {
			err = errors.New("the root of the mount is locked as a tree")
		}
		if err != nil {
			return t, err
		}
		t.Paths = append(t.Paths, clean)
	}
	for _, p := range r.Trees {
		clean, err := f.cleanPath(p)
		if err != nil {
			return t, err
		}
		t.Trees = append(t.Trees, clean)
	}
	t.Paths, t.Trees = lockkey.Set(t.Paths), lockkey.Set(t.Trees)
	t.Names = lockkey.Set(t.Names)
	return t, nil
}

// askedAbout are the things that a request names, which targetOf has read: one for
// each path, tree and name, in its order, with those that it names twice.
func (f *FS) askedAbout(r *control.Request) []lockkey.Target {
	out := make([]lockkey.Target, 0, len(r.Paths)+len(r.Trees)+len(r.Names))
	for _, p := range r.Paths {
		if clean, err := f.cleanPath(p); err == nil {
			out = append(out, lockkey.Target{Paths: []string{clean}})
		}
	}
	for _, p := range r.Trees {
		if clean, err := f.cleanPath(p); err == nil {
			out = append(out, lockkey.Target{Trees: []string{clean}})
		}
	}
	for _, n := range r.Names {
		out = append(out, lockkey.Target{Names: []string{n}})
	}
	return out
}

// cleanPath spells a path as the lock table does.
func (f *FS) cleanPath(p string) (string, error) {
	clean := strings.TrimPrefix(path.Clean("/"+p), "/")
	if strings.ContainsRune(p, 0) || len(p) >= unix.PathMax {
		return "", fmt.Errorf("%.100q is no path", p)
	}
	if slices.Contains(strings.Split(p, "/"), "..") {
		return "", fmt.Errorf("%q: no component of a path may be \"..\" here", p)
	}
	for i, c := range strings.Split(clean, "/") {
		if len(c) > unix.NAME_MAX {
			return "", fmt.Errorf("%.100q: a name has up to %d bytes", p, unix.NAME_MAX)
		}
		if commit.Reserved(c) || i == 0 && c == f.opts.LocksDir {
			return "", fmt.Errorf("%q: the name %s is reserved", p, c)
		}
	}
	return clean, nil
}

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
