package fs

import (
	"errors"
	"iter"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"latchfs/fs/locksdir"
	"latchfs/fs/reach"
	"latchfs/fs/report"
	"latchfs/journal/history"
)

// look is what one viewer may know of versions and kept bytes.
type look struct {
	*reach.Look
	f *FS
}

func (f *FS) lookOf(v report.Viewer) *look { return &look{f.root().LookOf(v), f} }

// HistoryGeneration implements locksdir.Source.
func (s *source) HistoryGeneration() uint64 {
	if s.f.history == nil {
		return 0
	}
	return s.f.history.Generation()
}

// History implements locksdir.Source.
func (s *source) History(v report.Viewer) iter.Seq[locksdir.Version] {
	return func(yield func(locksdir.Version) bool) {
		if s.f.history == nil {
			return
		}
		look := s.f.lookOf(v)
		for k := range s.f.history.All() {
			if look.sees(&k) && !yield(look.shown(&k)) {
				return
			}
		}
	}
}

// HistoryOf implements locksdir.Source.
func (s *source) HistoryOf(path string, v report.Viewer) []locksdir.Version {
	if s.f.history == nil {
		return nil
	}
	var list []locksdir.Version
	look := s.f.lookOf(v)
	for _, k := range s.f.history.KeptOf(path) {
		if look.sees(&k) {
			list = append(list, look.shown(&k))
		}
	}
	return list
}

// HistoryIn implements locksdir.Source.
func (s *source) HistoryIn(dir string, v report.Viewer) []string {
	if s.f.history == nil {
		return nil
	}
	skip := 0
	if dir != "" {
		skip = len(dir) + 1
	}
	look := s.f.lookOf(v)
	var names []string
	for _, path := range s.f.history.Below(dir) {
		name, _, _ := strings.Cut(path[skip:], "/")
		if n := len(names); n > 0 && names[n-1] == name || !look.seesKept(path) {
			continue
		}
		names = append(names, strings.Clone(name)) // and not the path with it
	}
	return names
}

// shown is a version as the viewer may see it: others' labels are theirs, and a rename
// does not tell from where the file has come if the viewer cannot reach that. Where a file
// has gone (To) is told by a version that is no file's, and so is nobody's to see but
// those who see everything.
func (l *look) shown(v *history.Version) locksdir.Version {
	out := l.f.shownVersion(v)
	if l.Viewer().Privileged {
		return out
	}
	if l.Viewer().UID != v.UID {
		out.Actor = ""
	}
	if v.From != "" && !l.Sees(v.From, v.UID) {
		out.From = ""
	}
	return out
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

// keptContent is the open content of an earlier version.
type keptContent struct {
	*os.File
	size int64
}

// Size implements locksdir.Content.
func (c keptContent) Size() int64 { return c.size }

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

// sees reports whether the viewer may know of a version: root and the mount's owner of
// all, others of what they could read while it was kept, and whose file they can reach
// and read now. Where the file is gone what counts is its last version. Where that is
// not known any more, where a directory is gone, and where an ACL may have said
// something else than the mode, a version is its file's owner's.
func (l *look) sees(v *history.Version) bool {
	if l.Viewer().Privileged {
		return true
	}
	own := l.Viewer().UID == v.Rights.UID
	if !l.couldRead(v) {
		return false
	}
	switch l.Way(reach.Dir(v.Path)) {
	case reach.Denied:
		return false
	case reach.Gone:
		return own
	case reach.All:
	}
	switch l.ReadsNow(v.Path) {
	case reach.ReadYes:
		return true
	case reach.ReadGone:
		return own || l.couldReadLast(v.Path)
	case reach.ReadNo:
	}
	return false
}

// couldRead reports whether the viewer could read a version when it was kept, and reach
// it then. Of one that is not kept nothing but the rights of its making is known.
func (l *look) couldRead(v *history.Version) bool {
	r := &v.Rights
	if l.Viewer().UID != r.UID && (r.ACL || v.Kept && !l.couldReach(v.Reach)) {
		return false
	}
	return l.Viewer().May(report.RightRead, r.UID, r.GID, r.Mode)
}

// couldReadLast reports whether the viewer could read the last file that a path held.
func (l *look) couldReadLast(path string) bool {
	return l.Once(path, l.findLast)
}

func (l *look) findLast(path string) bool {
	for v := range l.f.history.NewestOf(path) {
		switch v.Event {
		case history.Commit, history.Found:
			return v.Kept && l.couldRead(&v)
		case history.Delete, history.RenameAway: // the file that it held before counts
		}
	}
	return false
}

// seesKept reports whether a version of path is kept that the viewer may know of.
func (l *look) seesKept(path string) bool {
	for _, v := range l.f.history.KeptOf(path) {
		if l.sees(&v) {
			return true
		}
	}
	return false
}
