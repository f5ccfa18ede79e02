package main

import (
	"encoding/base64"
	"fmt"
	"maps"
	"os"
	"slices"
	"time"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"latchfs/fs/printable"
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
	last   *fileVersion // the newest
	known  bool         // what the file was before
	target *fileVersion // what it goes back to; nil: there was none

	source    string // where that can be read; "" if nowhere
	sourceWas fileStamp
	now       fileStamp // of the file when the plan was made

	removed  *auditEvent // of a directory or link: what became of it
	replaces bool        // something of the actor's has the name, and is deleted first
}

// plan says for each file that somebody has changed what undo would do.
func (f *undoFlags) plan(v *view, all histories, below []string) ([]*undoing, error) {
	t, err := f.trail(v)
	if err != nil {
		return nil, err
	}
	if !t.known && !f.isKnownIn(all) {
		who := printable.Line(f.actor.name)
		if f.actor.only != nil {
			who += ", as user " + userName(*f.actor.only) + ","
		}
		return nil, fmt.Errorf("nothing is known that %s has done here: latchfs audit says who has done what", who)
	}
	appended := t.appended
	plan := f.planNamed(v, t, below)
	for _, u := range plan {
		u.refuseTooLong(v)
	}
	for _, p := range slices.Sorted(maps.Keys(union(all, appended))) {
		if !isBelow(p, below) {
			continue
		}
		u := f.planFile(all[p], appended[p])
		if u == nil {
			continue
		}
		u.named, u.path = named{Path: p}, p
		if !utf8.ValidString(p) {
			u.PathBase64 = base64.StdEncoding.EncodeToString([]byte(p))
		}
		f.find(v, all, u)
		if u.refuseTooLong(v) {
			plan = append(plan, u)
			continue
		}
		so, err := u.isSo(v)
		if err != nil {
			return nil, err
		}
		if !so {
			plan = append(plan, u)
		}
	}
	plan = join(plan)
	for _, u := range plan {
		u.refuseInTheWay(v, plan)
	}
	return plan, nil
}

// isKnownIn tells whether the actor has made a version, at whatever time.
func (f *undoFlags) isKnownIn(all histories) bool {
	for _, states := range all {
		if slices.ContainsFunc(states, func(s *fileVersion) bool { return f.actor.matches(&s.author) }) {
			return true
		}
	}
	return false
}

func union(all histories, appended map[string][]*auditEvent) map[string]bool {
	paths := map[string]bool{}
	for p := range all {
		paths[p] = true
	}
	for p := range appended {
		paths[p] = true
	}
	return paths
}

// planFile says what to do with a file of these versions, to which these records
// were appended; nil if nothing of it is the actor's.
func (f *undoFlags) planFile(states []*fileVersion, appended []*auditEvent) *undoing {
	first := slices.IndexFunc(states, f.isTheirs)
	u := &undoing{Action: undoRestore}
	if first < 0 {
		if !slices.ContainsFunc(appended, func(e *auditEvent) bool { return f.actor.matches(&e.author) }) {
			return nil
		}
		return u.refuse("what was appended makes no version, and is not taken back")
	}
	if n := states[first].Version; n > 1 && (first == 0 || states[first-1].Version != n-1) {
		return u.refuse("version %d, before the change, is not known any more", n-1)
	}
	u.known, u.last = true, states[len(states)-1]
	if first > 0 && states[first-1].isFile() {
		u.target = states[first-1]
		u.Version = u.target.Version
	} else {
		u.Action = undoDelete
	}
	u.Reason = f.objection(states[first:], appended)
	if u.Reason == "" {
		return u
	}
	switch when, is := f.anothers(states[first:], appended); {
	case is:
		return u.refuse("another user has changed it since, %s: only root takes that back", when)
	case !f.force:
		u.Action = undoRefuse
	}
	return u
}

func (u *undoing) refuse(format string, args ...any) *undoing {
	u.Action, u.Reason = undoRefuse, fmt.Sprintf(format, args...)
	return u
}

// refuseTooLong refuses what no command reaches, for the kernel takes no name of that length
// (PATH_MAX), and reports whether it is that. What shall not be there, and is not, is none.
func (u *undoing) refuseTooLong(v *view) bool {
	switch {
	case len(v.file(u.path)) < unix.PathMax && len(u.source) < unix.PathMax:
		return false
	case u.known && u.target == nil && !v.has(u.path):
		return false
	}
	u.refuse("its path is too long for a command: take it back by hand, from a directory nearer to it")
	return true
}

// anothers reports whether something that would be taken back along with the actor's
// changes is another user's, and so not the caller's to take back; and if so when and by
// whom the first of that was done, versions before what was appended.
func (f *undoFlags) anothers(states []*fileVersion, appended []*auditEvent) (when string, is bool) {
	me := f.caller
	another := func(a *author) bool { return me != 0 && (a.UID == nil || *a.UID != me) }
	for _, s := range states {
		if another(&s.author) {
			return s.when(), true
		}
	}
	for _, e := range appended {
		if !e.Timestamp.Before(states[0].Time) && another(&e.author) {
			return fmt.Sprintf("%s by %s", e.Timestamp.Local().Format(time.DateTime), e.author.withUser()), true
		}
	}
	return "", false
}

// objection says why a file whose versions from the actor's first one on are states
// cannot simply go back; "" if it can.
func (f *undoFlags) objection(states []*fileVersion, appended []*auditEvent) string {
	for _, s := range states {
		if !f.isTheirs(s) {
			return fmt.Sprintf("version %d, %s, was made later (--force takes that back, too)", s.Version, s.when())
		}
	}
	for _, e := range appended {
		when := e.Timestamp.Local().Format(time.DateTime)
		switch theirs, before := f.actor.matches(&e.author), e.Timestamp.Before(states[0].Time); {
		case !theirs && !before:
			return fmt.Sprintf("%s appended to it later, %s (--force takes that back, too)", e.author.withUser(), when)
		case theirs && before:
			return fmt.Sprintf("what was appended, %s, before version %d, is not taken back", when, states[0].Version)
		}
	}
	return ""
}

// find finds what the file is now and what it goes back to.
func (f *undoFlags) find(v *view, all histories, u *undoing) {
	u.now = v.stampAt(u.path)
	if u.known && u.Reason == "" && !f.force && u.last.isFile() && u.now.ino != 0 && u.now.size != uint64(u.last.Bytes) {
		u.refuse("it is not as version %d, the last one, left it", u.last.Version)
	}
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
	case u.now == fileStamp{}:
		return u.target == nil, nil
	case u.target == nil:
		return !isFile(v.file(u.path)), nil // what else may be there has no versions
	case u.source == "":
		return false, nil
	}
	for _, name := range []string{u.source, v.file(u.path)} {
		if st, err := os.Lstat(name); err != nil || !st.Mode().IsRegular() {
			return false, nil // the write will say
		}
	}
	return sameContent(u.source, v.file(u.path))
}
