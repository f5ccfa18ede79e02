package disclosure

import (
	"latchfs/fs/reach"
	"latchfs/fs/rejected"
	"latchfs/fs/report"
	"latchfs/journal/history"
)

// look is what one viewer may know of versions.
type look struct {
	*reach.Look
	store Store
}

// sees reports whether the viewer may know of a version.
func (l *look) sees(v *history.Version) bool {
	if l.Viewer().Privileged {
		return true
	}
	if v.Event == history.Delete || v.Event == history.RenameAway {
		return l.seesGone(v)
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

// seesGone reports whether the viewer may know that a path holds no file any more: who has
// brought that about, and, as long as it is so, whoever may know of the file that it held.
func (l *look) seesGone(v *history.Version) bool {
	own := l.Viewer().UID == v.UID
	switch l.Way(reach.Dir(v.Path)) {
	case reach.Denied:
		return false
	case reach.Gone:
		return own
	case reach.All:
	}
	return own || v.Current && l.ReadsNow(v.Path) == reach.ReadGone && l.couldReadLast(v.Path)
}

// couldRead reports whether the viewer could read a version when it was kept, and reach
// it then. Of one that is not kept nothing but the rights of its making is known.
func (l *look) couldRead(v *history.Version) bool {
	r := &v.Rights
	if l.Viewer().UID != r.UID && (r.ACL || v.Kept && !couldReach(l.Look, v.Reach)) {
		return false
	}
	return l.Viewer().May(report.RightRead, r.UID, r.GID, r.Mode)
}

// couldReadLast reports whether the viewer could read the last file that a path held.
func (l *look) couldReadLast(path string) bool {
	return l.Once(path, l.findLast)
}

func (l *look) findLast(path string) bool {
	for v := range l.store.NewestOf(path) {
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
	for _, v := range l.store.KeptOf(path) {
		if l.sees(&v) {
			return true
		}
	}
	return false
}

// Rejected returns what reports whether a viewer may know of refused bytes, as far as
// their mode lets it read them: their owner may, and whoever could reach the file then and
// may read it now.
func Rejected(l *reach.Look) func(*rejected.File) bool {
	return func(k *rejected.File) bool { return seesRejected(l, k) }
}

func seesRejected(l *reach.Look, k *rejected.File) bool {
	switch {
	case l.Viewer().Privileged, l.Viewer().UID == k.UID:
		return true
	case k.ACL, k.Path == "", !couldReach(l, k.Reach), l.Way(reach.Dir(k.Path)) != reach.All:
		return false
	}
	return l.ReadsNow(k.Path) == reach.ReadYes
}
