// Package refusals keeps what was refused lately, and says which of it a reader of .locks/why
// is told.
//
// A reader is told of a refusal that concerns it and of whose file it may know:
//
//   - It concerns the process that was refused, its ancestors with their children, however
//     deep in a build it was (a shell, and the cat that it starts), its descendants, and those
//     with whom it shares an ancestor at most four generations up. Pid 1 is everybody's
//     ancestor, and does not count. They must be of the same user: one sshd or cron is
//     above everybody. A reader who sees everything is told of its relatives of any user.
//   - Of a process in another pid namespace nothing is known but the user: what was
//     refused there concerns the readers of that user who are in one, too.
//   - A path shows to whoever can reach it (report.Sight). The name of a lock that
//     stands for no file shows to all whom the refusal concerns.
//   - What a validator has quoted of the content, and said of it, is for the user who has
//     written that.
//
// The last thousand refusals are kept. One that tells of the same lost update as another
// takes its place: the close of a descriptor has more to say than the open had.
//
// Ring.mu guards the list, and nobody takes another mutex while holding it: what a reader
// may know is found out afterwards, for that may take looks at directories.
package refusals

import (
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"latchfs/fs/report"
	"latchfs/journal/validate"
	"latchfs/lockmgr"
)

// Most is how many refusals are remembered.
const Most = 1000

// Refusal is one operation that was answered with an error, and for whom.
type Refusal struct {
	At      time.Time
	Path    string
	Name    string // of a lock that stands for no file
	Op      string
	Errno   unix.Errno
	Wait    time.Duration // how long it had waited
	Reason  string
	Kept    string            // the id of the refused bytes that were kept
	Verdict *validate.Refusal // why content was not accepted; nil of other refusals
	Hint    string            // what to do about it, beside what follows from the rest
	Holder  *report.Record    // who was in the way; nil: nobody
	Owner   lockmgr.Owner     // the process that was refused
	UID     uint32            // its user
	Lineage []lockmgr.Ancestor

	// Temporary is the file that was to be renamed, and WithoutIt the hint if that is
	// no longer there: many programs remove what they could not rename.
	Temporary, WithoutIt string
	// Of is the lost update that was refused, to be compared; nil of other refusals.
	Of any
}

// Ring is the latest refusals.
type Ring struct {
	mu   sync.Mutex // guards what follows
	list []Refusal
	next int // the oldest, once there are Most
}

// Add keeps a refusal.
func (r *Ring) Add(x Refusal) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if i := slices.IndexFunc(r.list, func(old Refusal) bool { return x.Of != nil && old.Of == x.Of }); i >= 0 {
		r.list[i] = x
		return
	}
	if len(r.list) < Most {
		r.list = append(r.list, x)
		return
	}
	r.list[r.next] = x
	r.next = (r.next + 1) % Most
}

func (r *Ring) all() []Refusal {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.list)
}

// For is what a viewer is told, in no particular order. A nil Sight sees everything;
// exists reports whether there is something at a path.
func (r *Ring) For(v report.Viewer, sight report.Sight, exists func(path string) bool) []report.Refusal {
	var out []report.Refusal
	for _, x := range r.all() {
		if x.concerns(v) && (sight == nil || x.Name != "" || sight.Sees(x.Path, x.UID)) {
			out = append(out, x.shownTo(v, sight, exists))
		}
	}
	return out
}

// shownTo is the refusal as a viewer whom it concerns may see it.
func (x *Refusal) shownTo(v report.Viewer, sight report.Sight, exists func(path string) bool) report.Refusal {
	r := report.Refusal{
		Time: x.At, Path: x.Path, Name: x.Name, Operation: x.Op, Errno: unix.ErrnoName(x.Errno), Wait: x.Wait,
		Reason: x.Reason, Holder: x.Holder.ShownInTheWay(x.Path, v, sight), PID: x.Owner.PID, Kept: x.Kept,
	}
	if sight != nil && x.Errno == unix.EDEADLK {
		r.Reason = "" // it names what the others in the circle wait for
	}
	if d := x.Verdict; d != nil && (v.Privileged || v.UID == x.UID) {
		r.Content, r.Place, r.Output = d.Content, d.Place, d.Output
	}
	hint := x.Hint
	if x.Temporary != "" && !exists(x.Temporary) {
		hint = x.WithoutIt
	}
	switch {
	case hint == "":
	case r.Holder == nil && x.Errno == unix.EBUSY:
		r.Suggestion = hint // it says all that there is to do about an overtaken change
	default:
		r.Suggestion = strings.TrimSpace(r.Advice() + " " + hint)
	}
	return r
}

// generations is how far up a common ancestor may be for a refusal to concern a viewer.
const generations = 4

// concerns reports whether viewer and refused process belong together; see the package.
func (x *Refusal) concerns(v report.Viewer) bool {
	if !v.Privileged && v.UID != x.UID {
		return false
	}
	if v.PID == 0 {
		return x.Owner.PID == 0
	}
	up := map[lockmgr.Owner]int{x.Owner: 0}
	for i, a := range x.Lineage {
		if a.Owner.PID <= 1 {
			break
		}
		up[a.Owner] = i + 1
	}
	for i, p := range v.Lineage {
		if i > generations || p.PID <= 1 {
			break
		}
		// The viewer itself, and its parent, which is the shell that it is typed into, have
		// started the refused process.
		far, ok := up[lockmgr.Owner{PID: p.PID, Start: p.Start}]
		if ok && (far <= generations || i <= 1) {
			return true
		}
	}
	return false
}
