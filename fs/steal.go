package fs

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os/user"
	"strconv"
	"time"

	"latchfs/fs/calling"
	"latchfs/fs/ctl"
	"latchfs/fs/refusals"
	"latchfs/fs/report"
	"latchfs/lockmgr"

	"golang.org/x/sys/unix"
)

// settleThefts does what follows from the locks that were stolen: each is written
// to the audit trail (requirement T9), a session is fenced, and so are the heirs
// of who locked without opening. by is the thief, nil if the lease's end let a
// waiter have it.
//
// Nobody goes on with what was stolen before that is done: whoever waited for it
// settles, too, and so waits here for who began.
func (lk *locks) settleThefts(by *caller) {
	if lk.rules.table.Thefts() == lk.settled.Load() {
		return
	}
	lk.thefts.Lock()
	defer lk.thefts.Unlock()
	lk.settleNewLocked(by)
}

// steal has take take locks away for by, and settles that. Whoever gets one of them settles,
// too, as soon as take has taken it, and would be told of as the thief; and what others have
// got before is not by's doing.
func (lk *locks) steal(by *caller, take func()) {
	lk.thefts.Lock()
	defer lk.thefts.Unlock()
	lk.settleNewLocked(nil)
	take()
	lk.settleNewLocked(by)
}

// revoke takes a lock away whose holder may show life. Not from the middle of a commit, or of
// an operation on names: whoever got the lock then would go by what the file was before, and
// one of the two changes would be lost. Both end by themselves, and the lock with them.
func (lk *locks) revoke(h *lockmgr.Holder) error {
	lb, _ := h.Label.(*label)
	switch {
	case lb == nil:
		return ctl.ErrAtWork
	case lb.session.Load() != nil:
		s := lb.session.Load()
		if !s.mu.TryLock() {
			return ctl.ErrAtWork
		}
		defer s.mu.Unlock()
	case h.Class == lockmgr.Session && lb.claim == nil && lb.read == nil && lb.op != opOpen && lb.op != opCreate:
		return ctl.ErrAtWork
	}
	return lk.rules.table.Revoke(h.Lock)
}

// settleNewLocked settles what was stolen until now. locks.thefts is held.
func (lk *locks) settleNewLocked(by *caller) {
	for stolen := lk.rules.table.Stolen(); len(stolen) > 0; stolen = lk.rules.table.Stolen() {
		lk.settleAll(stolen, by)
		lk.settled.Add(uint64(len(stolen)))
	}
}

// settleAll settles thefts. locks.thefts is held.
func (lk *locks) settleAll(stolen []lockmgr.Holder, by *caller) {
	for _, h := range stolen {
		lb, _ := h.Label.(*label)
		detail := lk.previousLock(&h)
		detail["reason"] = "stale_lock_forced"
		if !h.Stale {
			detail["reason"] = "active_lock_forced"
		}
		if by != nil {
			detail["stolen_by"] = map[string]any{"pid": by.Owner().PID, "program": by.Program(), "uid": by.UID()}
		}
		lk.leaseEvent("lock_stolen", lb, h.Owner, detail)
		if lb == nil {
			continue
		}
		if h.Stale {
			lk.disk.log.Warnf("the lock on %q of pid %d was stolen: it had shown no sign of life since %v",
				cmp.Or(lb.where(), lb.name), h.Owner.PID, h.Beat.Format(time.RFC3339))
		}
		if s := lb.session.Load(); s != nil {
			taken := theftBy(by, time.Now())
			s.taken.Store(&taken)
			lk.fence(s)
		}
		if lb.claim != nil {
			lk.callers.ctl.Claims.Fence(lb.claim, &h)
			if lk.claimFiles.filed.FileOf(lb.claim) != nil {
				lk.revokeUnder(&h)
			}
			lk.claimFiles.filed.Lost(lb.claim)
		}
	}
}

// revokeUnder takes their locks away from the sessions that the family of the holder of a
// stolen claim, h, has on what that was on: what they have still to write was to be written
// under the claim. locks.thefts is held.
func (lk *locks) revokeUnder(h *lockmgr.Holder) {
	lk.nodes.mu.Lock()
	var running []*session
	for s := range lk.nodes.sessions {
		if !s.over {
			running = append(running, s)
		}
	}
	lk.nodes.mu.Unlock()
	for _, s := range running {
		if !s.mu.TryLock() {
			continue // it is being committed, and had the claim when that began
		}
		l := s.lock
		s.mu.Unlock()
		lb, ok := l.Request().Label.(*label)
		if ok && h.Covers(l.Keys()) && lb.c.BelongsTo(calling.NewIdentity(h.Owner, h.Since)) {
			_ = lk.rules.table.Revoke(l) // or it has just ended
		}
	}
}

// theftBy says to the former holder who has taken its lock away; by is the thief, nil
// if that was the next in the queue.
func theftBy(by *caller, at time.Time) string {
	when := " at " + at.Format(time.TimeOnly)
	if by == nil {
		return "the lock showed no sign of life for longer than its lease, and the next program in the queue got it" + when
	}
	name := fmt.Sprintf("user %d", by.UID())
	if u, err := user.LookupId(strconv.Itoa(int(by.UID()))); err == nil {
		name = u.Username
	}
	program := by.Program()
	if program == "latchfs" {
		program = "latchfs steal"
	}
	return fmt.Sprintf("%s took the lock away with %s%s", name, program, when)
}

// theft says how the session lost its lock.
func (s *session) theft() string {
	if t := s.taken.Load(); t != nil {
		return *t
	}
	return "the lock was taken away, for it showed no sign of life for longer than its lease"
}

// explainTheft tells the writer why an operation of its is refused with e.
func (lk *locks) explainTheft(s *session, op string, e unix.Errno) {
	lk.reports.explain(refusals.Refusal{
		Path: s.path(), Op: op, Errno: e, Reason: s.theft(), Owner: s.who.Load().Owner(), UID: s.uid,
		Hint: "Close the file: what was written is kept aside then. Open it again, and read it again.",
	})
}

// nobodysUID is the user id that nobody has: see setreuid(2).
const nobodysUID = ^uint32(0)

// previousLock is the record of a stolen lock as .locks showed it to strangers, with
// its hash.
func (lk *locks) previousLock(h *lockmgr.Holder) map[string]any {
	var path string
	if len(h.Keys) > 0 {
		path = string(h.Keys[0])
	}
	r := lk.record(h, path)
	r.State, r.Stale = report.Held, true
	b := report.AppendLock(nil, &r, time.Now(), report.Viewer{UID: nobodysUID})
	var shown struct {
		Holder json.RawMessage `json:"holder"`
	}
	if json.Unmarshal(b, &shown) != nil {
		return map[string]any{}
	}
	sum := sha256.Sum256(shown.Holder)
	return map[string]any{
		"previous_lock": shown.Holder, "previous_lock_hash": "sha256:" + hex.EncodeToString(sum[:]),
	}
}

// renewForCommit renews the lease of the session's lock, and reports whether the session may
// commit: it may if the lock was not stolen, and nobody can steal it from now on until s.mu,
// which is held, is given back.
func (lk *locks) renewForCommit(s *session) bool {
	lk.rules.table.Heartbeat(s.lock, time.Now(), true)
	return s.lock.Held()
}

// keptLock reports whether the session's lock has not been stolen.
func (s *session) keptLock() bool {
	if !s.mu.TryLock() {
		return true // it is at a commit, or close to one: its lock was kept
	}
	defer s.mu.Unlock()
	return !errors.Is(s.lock.Err(), lockmgr.ErrStolen)
}

// fence takes the name away from a session whose lock was stolen. Its writer goes
// on in the shadow; the close answers ESTALE and keeps the bytes.
func (lk *locks) fence(s *session) {
	lk.nodes.mu.Lock()
	if s.over {
		lk.nodes.mu.Unlock()
		return
	}
	if t := s.txn.Load(); t != nil {
		t.Lose()
	}
	dir, name := s.parent, s.dentry.Name()
	dir.pins++
	s.leaveLocked()
	lk.nodes.mu.Unlock()
	lk.names.dropName(dir, name)
	lk.nodes.unpin(dir)
}
