package filed

import (
	"time"

	"latchfs/fs/claimfile"
	"latchfs/fs/ctl"
	"latchfs/lockmgr"
	"latchfs/lockmgr/policy/lockfile"
	"latchfs/lockmgr/proc"
)

// review finds out whether a claim is stale by now, and does what follows.
func (r *Room) review(cl *Claim) {
	r.mu.Lock()
	if cl.over || r.at[cl.place] != cl {
		r.mu.Unlock()
		return
	}
	v := r.judgeLocked(cl)
	r.rearmLocked(cl, v.Due)
	lives := len(cl.chain) > 0 && r.c.Procs.Alive(cl.chain[0].Owner)
	removes := v.Stale && cl.rule.OnStale == lockfile.RemoveStale && !cl.removing
	expires := v.Stale && cl.rule.OnStale == lockfile.KeepStale && !cl.expired
	cl.removing, cl.expired = cl.removing || removes, v.Stale
	r.mu.Unlock()
	now := time.Now()
	if expires {
		r.c.Locks.Expire(cl.held, now)
		r.c.Engine.Tell("heartbeat_failed", cl.held, r.ownerOf(cl), map[string]any{"reason": v.Reason})
	}
	if !removes {
		return
	}
	r.c.Engine.Log(r.c.Engine.Path(cl.place), claimfile.LogLine(cl.rule.Format, cl.rec, v))
	r.c.Engine.Tell("stale_claim_removed", cl.held, r.ownerOf(cl), map[string]any{
		"reason": v.Reason, "format": string(cl.rule.Format), "message": claimfile.LogLine(cl.rule.Format, cl.rec, v),
	})
	if lives { // what it still writes there is refused
		r.c.Locks.Expire(cl.held, now)
		r.c.Locks.Revoke(cl.held)
		r.c.Engine.SettleThefts()
		return
	}
	r.remove(cl)
}

// remove removes the file of a claim that is stale or lost, unless it is another claim's by
// now. The lock is given back first, for the removal asks for that, too.
func (r *Room) remove(cl *Claim) {
	if !r.isRemoving(cl) {
		return
	}
	r.mu.Lock()
	_, lost := r.lost[cl]
	r.mu.Unlock()
	if !lost {
		r.c.Locks.GiveBack(cl.held)
	}
	if r.c.Engine.Remove(cl.place) == nil || !r.isRemoving(cl) {
		return
	}
	// Somebody is at work on it, and may leave it as it is.
	r.mu.Lock()
	defer r.mu.Unlock()
	cl.failed++
	time.AfterFunc(min(removeAgain<<min(cl.failed, 10), maxRemoveAgain), func() { r.remove(cl) })
}

// isRemoving reports whether the file of a claim is to be removed.
func (r *Room) isRemoving(cl *Claim) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return !cl.over && cl.removing && r.at[cl.place] == cl
}

// removeAgain is how long after a failure the removal of a stale claim's file is tried
// again, twice as long each time until it is maxRemoveAgain.
const (
	removeAgain    = 50 * time.Millisecond
	maxRemoveAgain = 10 * time.Second
)

func (r *Room) ownerOf(cl *Claim) lockmgr.Owner {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(cl.chain) > 0 {
		return cl.chain[0].Owner
	}
	return cl.by.Owner()
}

// rearmLocked sees to it that a claim is looked at again when time makes it stale. r.mu is
// held.
func (r *Room) rearmLocked(cl *Claim, due time.Time) {
	switch {
	case due.IsZero() && cl.timer != nil:
		cl.timer.Stop()
	case due.IsZero():
	case cl.timer == nil:
		cl.timer = time.AfterFunc(time.Until(due), func() { r.review(cl) })
	default:
		cl.timer.Reset(time.Until(due))
	}
}

// watchLocked sees to it that a claim is looked at again when its holder dies. r.mu is held.
func (r *Room) watchLocked(cl *Claim) {
	if len(cl.chain) == 0 || cl.over || cl.watched == cl.chain[0].Owner {
		return
	}
	if cl.unwatch != nil {
		close(cl.unwatch)
	}
	cl.watched, cl.unwatch = cl.chain[0].Owner, make(chan struct{})
	dead, end, stop, err := r.c.Procs.WatchEnd(cl.watched)
	if err != nil { // its end is noticed when somebody meets the claim
		return
	}
	go r.attend(cl, cl.watched, dead, end, stop, cl.unwatch)
}

// attend waits for the end of a claim's holder.
func (r *Room) attend(cl *Claim, o lockmgr.Owner, dead <-chan struct{}, end func() proc.End, stop func(), quit <-chan struct{}) {
	defer stop()
	select {
	case <-dead:
		r.holderDied(cl, o, end())
		r.review(cl)
	case <-quit:
	case <-r.c.Done:
	}
}

// commandFor is how long a process may live with a claim and still be a command that has
// claimed for whoever called it.
const commandFor = 10 * time.Second

// holderDied hands a claim on, whose holder has died: a command that has done its work,
// or failed, leaves the claim to the process that has called it. Where a longer life ends, or is cut
// short, the holder itself has ended.
func (r *Room) holderDied(cl *Claim, o lockmgr.Owner, how proc.End) {
	r.mu.Lock()
	if cl.over || len(cl.chain) == 0 || cl.chain[0].Owner != o {
		r.mu.Unlock()
		return
	}
	rest := cl.chain[1:]
	if killed(how) || time.Since(cl.began) > commandFor {
		rest = nil
	}
	for len(rest) > 0 && !r.c.Procs.Alive(rest[0].Owner) {
		rest = rest[1:]
	}
	cl.chain = rest
	if len(rest) == 0 {
		cl.gone = time.Now()
		cl.progress = cl.gone
	}
	passed := cl.passed
	cl.passed, cl.from, cl.handing = make(chan struct{}), o, passed
	_, lost := r.lost[cl]
	r.watchLocked(cl)
	r.mu.Unlock()
	if len(rest) > 0 {
		r.c.Locks.HandTo(cl.held, rest[0].Owner, rest[0].Since)
		r.c.Engine.Changed()
	} else if lost {
		r.end(cl)
	}
	close(passed)
}

// killed reports whether a signal has ended a process.
func killed(how proc.End) bool {
	const signal = 0x7f
	return how.Known && how.Status&signal != 0
}

// passGrace bounds the wait for a claim of a process that is dead to be passed on, which
// takes no time.
const passGrace = 50 * time.Millisecond

// PassOn waits until a claim whose holder has just died is another one's. It reports
// whether it is.
func (r *Room) PassOn(held *ctl.Claim) bool {
	if r.Count() == 0 {
		return false
	}
	r.mu.Lock()
	cl := r.of[held]
	if cl == nil || cl.over || len(cl.chain) == 0 || r.c.Procs.Alive(cl.chain[0].Owner) {
		r.mu.Unlock()
		return false
	}
	passed := cl.passed
	r.mu.Unlock()
	select {
	case <-passed:
		return true
	case <-time.After(passGrace):
		return false
	}
}

// Passed reports whether a claim has been passed on by the holder that somebody has met,
// before that could be asked of PassOn.
func (r *Room) Passed(held *ctl.Claim, from lockmgr.Owner) bool {
	if r.Count() == 0 {
		return false
	}
	r.mu.Lock()
	cl := r.of[held]
	if cl == nil || cl.over || len(cl.chain) == 0 || cl.from != from || cl.chain[0].Owner == from {
		r.mu.Unlock()
		return false
	}
	handing := cl.handing
	r.mu.Unlock()
	<-handing // the lock is the next one's by then
	return true
}
