package main

import (
	"fmt"
	"maps"
	"os"
	"slices"
)

// What undo does with a file.
const (
	undoRestore = "restore"
	undoDelete  = "delete"
	undoRefuse  = "refuse"
)

// undoing is what undo does with one file.
type undoing struct {
	named
	Action string `json:"action"`
	// Version is the one that the file goes back to; 0: there was none.
	Version int64 `json:"version,omitempty"`
	// Reason is why it is refused, or what else is lost.
	Reason string `json:"reason,omitempty"`
	// Done tells that it has been done, not only planned.
	Done bool `json:"done"`

	path   string
	known  bool         // what the file was before
	target *fileVersion // what it goes back to; nil: there was none

	source    string // where that can be read; "" if nowhere
	sourceWas fileStamp
	now       fileStamp // of the file when the plan was made
}

// plan says for each file that somebody has changed what undo would do.
func (f *undoFlags) plan(v *view, all histories, below []string) ([]*undoing, error) {
	var plan []*undoing
	for _, p := range slices.Sorted(maps.Keys(all)) {
		if !isBelow(p, below) {
			continue
		}
		u := f.planFile(all[p])
		if u == nil {
			continue
		}
		u.find(v, all)
		u.named, u.path = all[p][0].named, p
		u.now = stampAt(v.file(p))
		so, err := u.isSo(v)
		if err != nil {
			return nil, err
		}
		if !so {
			plan = append(plan, u)
		}
	}
	return plan, nil
}

// planFile says what to do with a file of these versions; nil if it is none of the
// actor's.
func (f *undoFlags) planFile(states []*fileVersion) *undoing {
	first := slices.IndexFunc(states, f.isTheirs)
	if first < 0 {
		return nil
	}
	u := &undoing{Action: undoRestore}
	if n := states[first].Version; n > 1 && (first == 0 || states[first-1].Version != n-1) {
		u.Action, u.Reason = undoRefuse, fmt.Sprintf("version %d, before the change, is not known any more", n-1)
		return u
	}
	u.known = true
	if first > 0 && states[first-1].isFile() {
		u.target = states[first-1]
		u.Version = u.target.Version
	} else {
		u.Action = undoDelete
	}
	if later := slices.IndexFunc(states[first:], func(s *fileVersion) bool { return !f.isTheirs(s) }); later >= 0 {
		other := states[first+later]
		u.Reason = fmt.Sprintf("version %d, %s, is somebody else's", other.Version, other.when())
		if !f.force {
			u.Action = undoRefuse
			return u
		}
	}
	return u
}

// find finds what the file goes back to.
func (u *undoing) find(v *view, all histories) {
	if u.target == nil {
		return
	}
	name, err := v.content(u.target, all)
	if err == nil {
		u.source, u.sourceWas = name, stampAt(name)
	} else if u.Action != undoRefuse {
		u.Action, u.Reason = undoRefuse, err.Error()
	}
}

// isTheirs tells whether a version is one to be taken back.
func (f *undoFlags) isTheirs(s *fileVersion) bool {
	return !s.Time.Before(f.since.at) && f.actor.matches(&s.author)
}

// isSo tells whether the file is already what it is to become: somebody has taken
// the changes back before.
func (u *undoing) isSo(v *view) (bool, error) {
	switch {
	case !u.known:
		return false, nil
	case u.target == nil:
		return u.now == fileStamp{}, nil
	case u.now == fileStamp{}, u.source == "":
		return false, nil
	}
	for _, name := range []string{u.source, v.file(u.path)} {
		if st, err := os.Lstat(name); err != nil || !st.Mode().IsRegular() {
			return false, nil // the write will say
		}
	}
	return sameContent(u.source, v.file(u.path))
}
