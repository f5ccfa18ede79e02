package locksdir

import (
	"fmt"
	"slices"
	"sync"
	"time"
)

// Sight tells what one viewer may know of. It may be used by several goroutines.
type Sight interface {
	// Sees reports whether the viewer may know of a path, and of everything that is
	// said about it. uid is the user whom that concerns: it may know of what it has
	// done to paths that are gone.
	Sees(path string, uid uint32) bool
	// Stands reports whether all that Sees has said so far would be said again: a
	// directory may have been opened or closed to the viewer since.
	Stands() bool
}

// ShownTo is the record as the viewer may see it, false if the viewer may not know of
// it. Others' labels, command lines and working directories are theirs. A nil Sight
// sees everything.
func (r *Record) ShownTo(v Viewer, sight Sight) (*Record, bool) {
	if sight == nil {
		return r, true
	}
	if r.Name == "" && !sight.Sees(r.Path, r.UID) {
		return nil, false
	}
	file := r.File == "" || sight.Sees(r.File, r.UID)
	key := r.Key == "" || r.Key == r.id() || sight.Sees(r.Key, r.UID)
	if file && key && v.sees(r.UID) {
		return r, true
	}
	out := *r
	if !file {
		out.File = ""
	}
	if !key {
		out.Key = ""
	}
	if !v.sees(r.UID) {
		out.Actor, out.Cmdline, out.Cwd = "", nil, ""
	}
	return &out, true
}

// ShownInTheWay is the record of whoever keeps the viewer from the path that it asked
// for, nil if r is: the lock itself may be on something of which it may not know.
func (r *Record) ShownInTheWay(path string, v Viewer, sight Sight) *Record {
	if r == nil {
		return nil
	}
	if out, ok := r.ShownTo(v, sight); ok {
		return out
	}
	asked := *r
	asked.Path, asked.Key, asked.File, asked.Tree = path, "", "", false
	if out, ok := asked.ShownTo(v, sight); ok {
		return out
	}
	asked.Path, asked.Actor, asked.Cmdline, asked.Cwd = "", "", nil, ""
	return &asked
}

// credentials tells viewers apart by what they may see.
func (v Viewer) credentials() string {
	if v.Privileged {
		return "all"
	}
	return fmt.Sprint(v.UID, slices.Sorted(slices.Values(v.GIDs)), v.AllGroups)
}

// view is a snapshot as the viewers with the same credentials see it.
type view struct {
	mu      sync.Mutex // held while it is made
	snap    *snapshot
	sight   Sight
	checked time.Time
	grace   time.Duration
}

// maxViews bounds the views kept with a snapshot.
const maxViews = 8

// seenBy is the part of the snapshot that the viewer may know of.
func (t *Tree) seenBy(s *snapshot, v Viewer) *snapshot {
	if v.Privileged {
		return s
	}
	w := s.viewOf(v.credentials())
	w.mu.Lock()
	defer w.mu.Unlock()
	now := t.src.Now()
	if age := now.Sub(w.checked); w.snap != nil && age >= 0 && age < w.grace {
		return w.snap
	}
	if w.snap == nil || w.sight != nil && !w.sight.Stands() {
		w.sight = t.src.Sight(v)
		w.snap = s.filtered(v, w.sight)
	}
	// As for a snapshot: what was dear serves for a while.
	w.checked, w.grace = now, grace(t.src.Now().Sub(now))
	return w.snap
}

func (s *snapshot) viewOf(key string) *view {
	s.viewsMu.Lock()
	defer s.viewsMu.Unlock()
	w := s.views[key]
	if w == nil {
		if len(s.views) >= maxViews || s.views == nil {
			s.views = map[string]*view{}
		}
		w = &view{}
		s.views[key] = w
	}
	return w
}

// filtered is the snapshot with the records that the viewer may know of.
func (s *snapshot) filtered(v Viewer, sight Sight) *snapshot {
	out := &snapshot{gen: s.gen, taken: s.taken, stopping: s.stopping, texts: map[textKey][]byte{}}
	out.held = shown(s.held, v, sight)
	out.waiting = shown(s.waiting, v, sight)
	out.growTrees()
	return out
}

func shown(records []*Record, v Viewer, sight Sight) []*Record {
	list := make([]*Record, 0, len(records))
	for _, r := range records {
		if r, ok := r.ShownTo(v, sight); ok {
			list = append(list, r)
		}
	}
	return list
}
