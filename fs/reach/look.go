package reach

import (
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"latchfs/fs/access"
	"latchfs/fs/report"
)

// Who may know of a path: whoever can reach it now, which takes the right to search
// every directory from the root down. Of a path whose directory is gone nobody can
// say that, so it is known to the user who has done there what is told, and to those
// who see everything: root and the mount's owner. All that .locks, replies on the
// control file and the audit trail say of a path keeps to this rule, and asks here.

// Look is one viewer's sight, with what was found out about directories and files.
type Look struct {
	root   Root
	viewer report.Viewer
	user   access.User

	mu    sync.Mutex // guards what follows
	dirs  map[string]Way
	files map[string]Readable
	once  map[string]bool // what Once has found out
	bytes int             // that these take
	// forgot says that it was more than dirs has.
	forgot bool
}

// The bound of what a look remembers, in bytes.
const (
	maxLook  = 256 << 10
	lookCost = 64 // of one thing, beside its path
)

// boundLocked makes room for one more path. mu is held.
func (l *Look) boundLocked(path string) {
	if l.bytes += lookCost + len(path); l.bytes <= maxLook {
		return
	}
	clear(l.dirs)
	clear(l.files)
	clear(l.once)
	l.bytes, l.forgot = lookCost+len(path), true
}

// Way is how far a viewer gets on the way to a directory.
type Way uint8

// The ends of a way.
const (
	All    Way = iota + 1 // into the directory
	Gone                  // as far as there are directories
	Denied                // one of them keeps it out
)

// Readable is what became of the file at a path, to a viewer.
type Readable uint8

// What became of it.
const (
	ReadNo   Readable = iota + 1
	ReadYes           // it may be read now
	ReadGone          // there is none any more
)

// LookOf is the sight of a viewer.
func (r Root) LookOf(v report.Viewer) *Look {
	return &Look{
		root: r, viewer: v, user: access.User{UID: v.UID, GIDs: v.GIDs, All: v.AllGroups},
		dirs: map[string]Way{}, files: map[string]Readable{}, once: map[string]bool{},
	}
}

// Viewer is who looks.
func (l *Look) Viewer() report.Viewer { return l.viewer }

// User is who looks, with its groups.
func (l *Look) User() *access.User { return &l.user }

// Sees implements report.Sight. What has no path, as the lock on an inode, shows to
// everybody.
func (l *Look) Sees(path string, uid uint32) bool {
	if l.viewer.Privileged || strings.HasPrefix(path, "//") {
		return true
	}
	switch l.Way(Dir(path)) {
	case All:
		return true
	case Gone:
		return uid == l.viewer.UID
	case Denied:
	}
	return false
}

// Stands implements report.Sight.
func (l *Look) Stands() bool {
	now := l.root.LookOf(l.viewer)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.forgot {
		return false
	}
	for dir, w := range l.dirs {
		if now.wayLocked(dir) != w {
			return false
		}
	}
	return true
}

// Way is how far the viewer gets on the way to a directory.
func (l *Look) Way(dir string) Way {
	l.mu.Lock()
	defer l.mu.Unlock()
	if w, ok := l.dirs[dir]; ok {
		return w
	}
	l.boundLocked(dir)
	return l.wayLocked(dir)
}

// wayLocked is Way with mu held, or before anybody else has l.
func (l *Look) wayLocked(dir string) Way {
	if w, ok := l.dirs[dir]; ok {
		return w
	}
	w := All
	if dir != "" {
		w = l.wayLocked(Dir(dir))
	}
	if w == All {
		w = l.enter(dir)
	}
	l.bytes += lookCost // its path is part of the one that is asked for
	l.dirs[dir] = w
	return w
}

// enter looks at one directory, whose parent lets the viewer search.
func (l *Look) enter(dir string) Way {
	fd, e := l.root.OpenDir(dir)
	switch {
	case e == unix.ENOENT, e == unix.ENOTDIR, e == unix.ELOOP:
		return Gone
	case e != 0:
		return Denied
	}
	defer unix.Close(fd)
	if !l.may(access.Search, fd) {
		return Denied
	}
	return All
}

// may reports whether the viewer has the right to what is open as fd, which may be
// O_PATH.
func (l *Look) may(want uint32, fd int) bool {
	return l.viewer.Privileged || judge(&l.user, fd, want)
}

// ReadsNow finds out whether the viewer may read the file that is at path now, whose
// directory it can reach.
func (l *Look) ReadsNow(path string) Readable {
	l.mu.Lock()
	defer l.mu.Unlock()
	if r, ok := l.files[path]; ok {
		return r
	}
	r := l.read(path)
	l.boundLocked(path)
	l.files[path] = r
	return r
}

// Once is what find says of a path, which is asked once, without a mutex held.
func (l *Look) Once(path string, find func(path string) bool) bool {
	l.mu.Lock()
	found, known := l.once[path]
	l.mu.Unlock()
	if known {
		return found
	}
	found = find(path)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.boundLocked(path)
	l.once[path] = found
	return found
}

func (l *Look) read(path string) Readable {
	fd, e := l.root.Open(path, unix.O_PATH)
	switch {
	case e == unix.ENOENT, e == unix.ENOTDIR, e == unix.ELOOP:
		return ReadGone
	case e != 0:
		return ReadNo
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	switch {
	case unix.Fstat(fd, &st) != nil:
		return ReadNo
	case st.Mode&unix.S_IFMT != unix.S_IFREG:
		return ReadGone
	case !l.may(access.Read, fd):
		return ReadNo
	}
	return ReadYes
}
