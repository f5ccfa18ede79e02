package disclosure

import (
	"errors"
	"iter"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"latchfs/fs/locksdir"
	"latchfs/fs/reach"
	"latchfs/fs/report"
	"latchfs/journal/history"
)

// Store has the versions. A *history.Store is one, and says what each method answers.
type Store interface {
	Generation() uint64
	All() iter.Seq[history.Version]
	KeptOf(path string) []history.Version
	NewestOf(path string) iter.Seq[history.Version]
	Below(dir string) []string
	OpenContent(path string, number uint64) (*os.File, error)
	OtherNames(path string, now uint64) []string
}

// Versions shows to each viewer what it may know of a history: it is a locksdir.Versions.
// The zero Versions is that of a mount without a history.
type Versions struct {
	Root  reach.Root // the directory whose history it is
	Store Store      // nil if there is none
}

var _ locksdir.Versions = Versions{}

func (s Versions) lookOf(v report.Viewer) *look { return &look{s.Root.LookOf(v), s.Store} }

// HistoryGeneration implements locksdir.Versions.
func (s Versions) HistoryGeneration() uint64 {
	if s.Store == nil {
		return 0
	}
	return s.Store.Generation()
}

// History implements locksdir.Versions.
func (s Versions) History(v report.Viewer) iter.Seq[locksdir.Version] {
	return func(yield func(locksdir.Version) bool) {
		if s.Store == nil {
			return
		}
		look := s.lookOf(v)
		for k := range s.Store.All() {
			if look.sees(&k) && !yield(look.shown(&k)) {
				return
			}
		}
	}
}

// HistoryOf implements locksdir.Versions.
func (s Versions) HistoryOf(path string, v report.Viewer) []locksdir.Version {
	if s.Store == nil {
		return nil
	}
	var list []locksdir.Version
	look := s.lookOf(v)
	for _, k := range s.Store.KeptOf(path) {
		if look.sees(&k) {
			list = append(list, look.shown(&k))
		}
	}
	return list
}

// KnowsOf reports whether the viewer may know of a version of a path, which is there.
func (s Versions) KnowsOf(path string, number uint64, v report.Viewer) bool {
	_, known := s.VersionOf(path, number, v)
	return known
}

// HistoryIn implements locksdir.Versions.
func (s Versions) HistoryIn(dir string, v report.Viewer) []string {
	if s.Store == nil {
		return nil
	}
	skip := 0
	if dir != "" {
		skip = len(dir) + 1
	}
	look := s.lookOf(v)
	var names []string
	for _, path := range s.Store.Below(dir) {
		name, _, _ := strings.Cut(path[skip:], "/")
		if n := len(names); n > 0 && names[n-1] == name || !look.seesKept(path) {
			continue
		}
		names = append(names, strings.Clone(name)) // and not the path with it
	}
	return names
}

// HistoryLeadsOn implements locksdir.Versions.
func (s Versions) HistoryLeadsOn(dir string, v report.Viewer) bool {
	return s.Store != nil && slices.ContainsFunc(s.Store.Below(dir), s.lookOf(v).seesKept)
}

// VersionOf returns a version of a path, if there is one that the viewer may know of.
func (s Versions) VersionOf(path string, number uint64, v report.Viewer) (locksdir.Version, bool) {
	if s.Store == nil {
		return locksdir.Version{}, false
	}
	look := s.lookOf(v)
	for k := range s.Store.NewestOf(path) {
		if k.Number == number && look.sees(&k) {
			return look.shown(&k), true
		}
	}
	return locksdir.Version{}, false
}

// OtherNames lists the other names of the file at a path, or that was there, under which
// content of it is kept that the viewer may know of.
func (s Versions) OtherNames(path string, v report.Viewer) []string {
	if s.Store == nil {
		return nil
	}
	look := s.lookOf(v)
	st, _, _ := s.Root.Stat(look.User(), path)
	return slices.DeleteFunc(s.Store.OtherNames(path, st.Ino), func(p string) bool { return !look.seesKept(p) })
}

// shown is a version as the viewer may see it: others' labels are theirs, and a rename
// does not tell from where the file has come, or where it has gone, if the viewer cannot
// reach that.
func (l *look) shown(v *history.Version) locksdir.Version {
	out := shownToAll(l.store, v)
	if l.Viewer().Privileged {
		return out
	}
	if l.Viewer().UID != v.UID {
		out.Actor = ""
	}
	if v.From != "" && !l.Sees(v.From, v.UID) {
		out.From = ""
	}
	if v.To != "" && !l.Sees(v.To, v.UID) {
		out.To = ""
	}
	return out
}

// shownToAll is a version as it is, for those who see everything.
func shownToAll(store Store, v *history.Version) locksdir.Version {
	path, number, mode := v.Path, v.Number, v.Rights.Mode
	if v.Rights.ACL {
		mode &^= 0o070 // that is the mask of the ACL, which nothing of this has
	}
	return locksdir.Version{
		Path: path, Number: number, Time: v.Time, Base: v.Base,
		Event: string(v.Event), Operation: v.Operation, Actor: v.Actor, Program: v.Program, Session: v.Session,
		PID: v.PID, UID: v.UID, Token: v.Token, Bytes: v.State.Size, From: v.From, To: v.To,
		Kept: v.Kept, Current: v.Current,
		FileUID: v.Rights.UID, FileGID: v.Rights.GID, Mode: mode, Mtime: time.Unix(0, v.State.Mtime),
		Content: func() (locksdir.Content, error) { return open(store, path, number) },
	}
}

// content is the open content of an earlier version.
type content struct {
	*os.File
	size int64
}

// Size implements locksdir.Content.
func (c content) Size() int64 { return c.size }

// open opens the content of a version. The error is an errno.
func open(store Store, path string, number uint64) (locksdir.Content, error) {
	file, err := store.OpenContent(path, number)
	if errors.Is(err, history.ErrNotKept) {
		return nil, unix.ENOENT
	}
	if err != nil {
		return nil, errnoIn(err)
	}
	var st unix.Stat_t
	if err := unix.Fstat(int(file.Fd()), &st); err != nil {
		file.Close()
		return nil, errnoIn(err)
	}
	return content{file, st.Size}, nil
}

// errnoIn is the errno in an error, EIO if it has none.
func errnoIn(err error) syscall.Errno {
	var e syscall.Errno
	if errors.As(err, &e) {
		return e
	}
	return unix.EIO
}
