package lockview

import (
	"fmt"

	"latchfs/fs/ctl"
	"latchfs/fs/lockkey"
	"latchfs/fs/readclaim"
	"latchfs/fs/report"
	"latchfs/lockmgr"
)

// Engine knows what locks are for.
type Engine interface {
	// Record describes a lock, as it is shown under a key.
	Record(h *lockmgr.Holder, key string) report.Record
	// Keys are the lock table's names for a target.
	Keys(t *lockkey.Target) (keys, trees []lockmgr.Key)
	// IsOrphaned reports whether nobody lives who may have a claim that a file makes.
	IsOrphaned(cl *ctl.Claim) bool
	// Drop ends a claim that was made by a file or through the control file, DropRead
	// that of a reader.
	Drop(cl *ctl.Claim)
	DropRead(cl *readclaim.Claim)
	// SettleThefts does what follows from the locks that were stolen; by is the thief, nil
	// here.
	SettleThefts(by ctl.Caller)
}

// Label is what the engine keeps in the lock table beside a lock.
type Label interface {
	// UID is the user who has taken the lock.
	UID() uint32
	// Claim is the claim whose lock it is, and ReadClaim the reader's; nil if it is none's.
	Claim() *ctl.Claim
	ReadClaim() *readclaim.Claim
}

// labelOf is the engine's label of a lock, nil if it has none.
func labelOf(h *lockmgr.Holder) Label {
	lb, _ := h.Label.(Label)
	return lb
}

// View is the view of a lock table.
type View struct {
	Table  lockmgr.Authority
	Engine Engine
}

// Held are the records of the locks that are held, in any order.
func (w View) Held() []report.Record {
	snap := w.Table.Snapshot()
	waiters := snap.Waiters()
	out := make([]report.Record, 0, len(snap.Held))
	for i := range snap.Held {
		h := &snap.Held[i]
		for _, k := range h.Keys {
			if lockkey.IsShown(h, k) {
				r := w.Engine.Record(h, string(k))
				r.Waiters = waiters[k]
				out = append(out, r)
			}
		}
	}
	return out
}

// maxBehind is how many of those in a waiter's way are named.
const maxBehind = 8

// Waiting are the records of those who wait, those for one lock in the order of its queue.
func (w View) Waiting() []report.Record {
	snap := w.Table.Snapshot()
	var out []report.Record
	place := map[lockmgr.Key]int{}
	for i := range snap.Waiting {
		h := &snap.Waiting[i]
		var behind []string
		conflicts := w.Table.Conflicts(h.Lock, maxBehind)
		for j := range conflicts {
			r := w.Engine.Record(&conflicts[j], "")
			behind = append(behind, fmt.Sprintf("%s[%d]", r.Program, r.Owner.PID))
		}
		ahead := len(behind)
		for _, k := range h.Keys {
			if ahead == maxBehind {
				ahead = max(ahead, place[k]+1)
			}
			place[k]++
		}
		for _, k := range h.Keys {
			if lockkey.IsShown(h, k) {
				r := w.Engine.Record(h, string(k))
				r.State, r.WaitsFor, r.Ahead = report.Waiting, behind, ahead
				out = append(out, r)
			}
		}
	}
	return out
}
