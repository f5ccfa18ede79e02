package locksdir

import (
	"sync"
	"time"

	"latchfs/fs/report"
)

// view is a snapshot as the viewers with the same credentials see it.
type view struct {
	mu      sync.Mutex // held while it is made
	snap    *snapshot
	sight   report.Sight
	checked time.Time
	grace   time.Duration
}

// maxViews bounds the views kept with a snapshot.
const maxViews = 8

// seenBy is the part of the snapshot that the viewer may know of.
func (t *Tree) seenBy(s *snapshot, v report.Viewer) *snapshot {
	if v.Privileged {
		return s
	}
	w := s.viewOf(v.Credentials())
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
	w.checked, w.grace = now, s.graceFor(t.src.Now().Sub(now))
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
func (s *snapshot) filtered(v report.Viewer, sight report.Sight) *snapshot {
	out := &snapshot{gen: s.gen, taken: s.taken, stopping: s.stopping, texts: map[textKey][]byte{}}
	out.held = shown(s.held, v, sight)
	out.waiting = shown(s.waiting, v, sight)
	out.growTrees()
	return out
}

func shown(records []*report.Record, v report.Viewer, sight report.Sight) []*report.Record {
	list := make([]*report.Record, 0, len(records))
	for _, r := range records {
		if r, ok := r.ShownTo(v, sight); ok {
			list = append(list, r)
		}
	}
	return list
}
