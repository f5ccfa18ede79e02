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

	"latchfs/fs/report"
	"latchfs/lockmgr"
)

// settleThefts does what follows from the locks that were stolen: each is written
// to the audit trail (requirement T9), a session is fenced, and so are the heirs
// of who locked without opening. by is the thief, nil if the lease's end let a
// waiter have it.
//
// Nobody goes on with what was stolen before that is done: whoever waited for it
// settles, too, and so waits here for who began.
func (f *FS) settleThefts(by *caller) {
	if f.table.Thefts() == f.settled.Load() {
		return
	}
	f.thefts.Lock()
	defer f.thefts.Unlock()
	for stolen := f.table.Stolen(); len(stolen) > 0; stolen = f.table.Stolen() {
		f.settleAll(stolen, by)
		f.settled.Add(uint64(len(stolen)))
	}
}

// settleAll settles thefts. FS.thefts is held.
func (f *FS) settleAll(stolen []lockmgr.Holder, by *caller) {
	for _, h := range stolen {
		lb, _ := h.Label.(*label)
		detail := f.previousLock(&h)
		detail["reason"] = "stale_lock_forced"
		if !h.Stale {
			detail["reason"] = "active_lock_forced"
		}
		if by != nil {
			detail["stolen_by"] = map[string]any{"pid": by.owner.PID, "program": by.program(), "uid": by.uid}
		}
		f.leaseEvent("lock_stolen", lb, h.Owner, detail)
		if lb == nil {
			continue
		}
		if h.Stale {
			f.log.Warnf("the lock on %q of pid %d was stolen: it had shown no sign of life since %v",
				cmp.Or(lb.where(), lb.name), h.Owner.PID, h.Beat.Format(time.RFC3339))
		}
		if s := lb.session.Load(); s != nil {
			taken := theftBy(by, time.Now())
			s.taken.Store(&taken)
			s.fence()
		}
		if lb.claim != nil {
			f.ctl.Claims.Fence(lb.claim, &h)
			if f.filed.FileOf(lb.claim) != nil {
				f.revokeUnder(&h)
			}
			f.filed.Lost(lb.claim)
		}
	}
}

// revokeUnder takes their locks away from the sessions that the family of the holder of a
// stolen claim, h, has on what that was on: what they have still to write was to be written
// under the claim. FS.thefts is held.
func (f *FS) revokeUnder(h *lockmgr.Holder) {
	f.mu.Lock()
	var running []*session
	for s := range f.sessions {
		if !s.over {
			running = append(running, s)
		}
	}
	f.mu.Unlock()
	for _, s := range running {
		if !s.mu.TryLock() {
			continue // it is being committed, and had the claim when that began
		}
		l := s.lock
		s.mu.Unlock()
		lb, ok := l.Request().Label.(*label)
		if ok && h.Covers(l.Keys()) && lb.c.kinOf(&identity{owner: h.Owner, since: h.Since}) {
			_ = f.table.Revoke(l) // or it has just ended
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
	name := fmt.Sprintf("user %d", by.uid)
	if u, err := user.LookupId(strconv.Itoa(int(by.uid))); err == nil {
		name = u.Username
	}
	program := by.program()
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

// nobodysUID is the user id that nobody has: see setreuid(2).
const nobodysUID = ^uint32(0)

// previousLock is the record of a stolen lock as .locks showed it to strangers, with
// its hash.
func (f *FS) previousLock(h *lockmgr.Holder) map[string]any {
	var path string
	if len(h.Keys) > 0 {
		path = string(h.Keys[0])
	}
	r := f.record(h, path)
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

// keepsLock reports whether the session may commit, and is a sign of life: from
// here until the lock is released nobody can steal it.
func (s *session) keepsLock() bool {
	s.f.table.Heartbeat(s.lock, time.Now(), true)
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
func (s *session) fence() {
	f := s.f
	f.mu.Lock()
	if s.over {
		f.mu.Unlock()
		return
	}
	if t := s.txn.Load(); t != nil {
		t.Lose()
	}
	dir, name := s.parent, s.dentry.Name()
	dir.pins++
	s.leaveLocked()
	f.mu.Unlock()
	f.dropName(dir, name)
	f.unpin(dir)
}
