package fs

import (
	"errors"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"latchfs/fs/locksdir"
	"latchfs/journal/history"
)

// HistoryGeneration implements locksdir.Source.
func (s *source) HistoryGeneration() uint64 {
	if s.f.history == nil {
		return 0
	}
	return s.f.history.Generation()
}

// History implements locksdir.Source.
func (s *source) History(v locksdir.Viewer) []locksdir.Version {
	if s.f.history == nil {
		return nil
	}
	all := s.f.history.All()
	look := s.sight.of(v)
	list := make([]locksdir.Version, 0, len(all))
	for i := range all {
		if look.sees(&all[i]) {
			list = append(list, s.f.shownVersion(&all[i]))
		}
	}
	return list
}

// HistoryOf implements locksdir.Source.
func (s *source) HistoryOf(path string, v locksdir.Viewer) []locksdir.Version {
	if s.f.history == nil {
		return nil
	}
	var list []locksdir.Version
	look := s.sight.of(v)
	for _, k := range s.f.history.Of(path) {
		if look.sees(&k) {
			list = append(list, s.f.shownVersion(&k))
		}
	}
	return list
}

// HistoryIn implements locksdir.Source.
func (s *source) HistoryIn(dir string, v locksdir.Viewer) []string {
	if s.f.history == nil {
		return nil
	}
	skip := 0
	if dir != "" {
		skip = len(dir) + 1
	}
	look := s.sight.of(v)
	var names []string
	for _, path := range s.f.history.Below(dir) {
		name, _, _ := strings.Cut(path[skip:], "/")
		if n := len(names); n > 0 && names[n-1] == name || !look.seesKept(path) {
			continue
		}
		names = append(names, name)
	}
	return names
}

func (f *FS) shownVersion(v *history.Version) locksdir.Version {
	path, number := v.Path, v.Number
	return locksdir.Version{
		Path: path, Number: number, Time: v.Time, Base: v.Base,
		Event: string(v.Event), Operation: v.Operation, Actor: v.Actor, Program: v.Program, Session: v.Session,
		PID: v.PID, UID: v.UID, Token: v.Token, Bytes: v.State.Size, From: v.From, To: v.To,
		Kept: v.Kept, Current: v.Current,
		FileUID: v.Rights.UID, FileGID: v.Rights.GID, Mode: v.Rights.Mode, Mtime: time.Unix(0, v.State.Mtime),
		Content: func() (locksdir.Content, error) { return f.openVersion(path, number) },
	}
}

func (f *FS) openVersion(path string, number uint64) (locksdir.Content, error) {
	file, err := f.history.OpenContent(path, number)
	if errors.Is(err, history.ErrNotKept) {
		return nil, unix.ENOENT
	}
	if err != nil {
		return nil, errnoOf(err)
	}
	var st unix.Stat_t
	if err := unix.Fstat(int(file.Fd()), &st); err != nil {
		file.Close()
		return nil, errnoOf(err)
	}
	return keptContent{file, st.Size}, nil
}

// sight decides who may know of a version.
type sight struct{ f *FS }

// look is one viewer's sight, with what was found out about directories.
type look struct {
	f    *FS
	v    locksdir.Viewer
	dirs map[string]reach
}

// reach is how far a viewer gets on the way to a directory.
type reach uint8

const (
	reachAll    reach = iota + 1 // into it
	reachGone                    // as far as there are directories
	reachDenied                  // one of them keeps it out
)

func (s sight) of(v locksdir.Viewer) *look { return &look{f: s.f, v: v, dirs: map[string]reach{}} }

// sees reports whether the viewer may know of a version: root and the mount's
// owner of all, others of what the file's own mode lets them read, when every
// directory above it lets them search. Where a directory is gone, which may have
// kept them out, only the file's owner; and where an ACL may say something else
// than the mode, too.
func (l *look) sees(v *history.Version) bool {
	if l.v.Privileged {
		return true
	}
	r := v.Rights
	own := l.v.UID == r.UID
	switch l.reach(dirName(v.Path)) {
	case reachDenied:
		return false
	case reachGone:
		return own && l.v.May(locksdir.RightRead, r.UID, r.GID, r.Mode)
	}
	return (own || !r.ACL) && l.v.May(locksdir.RightRead, r.UID, r.GID, r.Mode)
}

// seesKept reports whether a version of path is kept that the viewer may know of.
func (l *look) seesKept(path string) bool {
	for _, v := range l.f.history.Of(path) {
		if v.Kept && l.sees(&v) {
			return true
		}
	}
	return false
}

func (l *look) reach(dir string) reach {
	if r, ok := l.dirs[dir]; ok {
		return r
	}
	r := reachAll
	if dir != "" {
		r = l.reach(dirName(dir))
	}
	if r == reachAll {
		r = l.enter(dir)
	}
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
	var st unix.Stat_t
	if unix.Fstat(fd, &st) != nil || !l.v.May(locksdir.RightSearch, st.Uid, st.Gid, st.Mode) {
		return reachDenied
	}
	if l.v.UID != st.Uid && hasACL(fd) {
		return reachDenied
	}
	return reachAll
}

// openDirPath opens a directory by its path below the root, through no symbolic
// link.
func (f *FS) openDirPath(dir string) (int, unix.Errno) {
	if dir == "" {
		dir = "."
	}
	for {
		fd, err := unix.Openat2(f.rootfd, dir, &unix.OpenHow{
			Flags:   unix.O_PATH | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC,
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
