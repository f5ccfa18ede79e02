package filed

import (
	"errors"
	"reflect"
	"slices"
	"strings"
	"time"

	"latchfs/fs/claimfile"
	"latchfs/fs/ctl"
	"latchfs/lockmgr"
	"latchfs/lockmgr/policy/lockfile"
)

// HeldError refuses a version of a claim file, for it is another claim's.
type HeldError struct{ Line string }

// Error says who has the claim, as its system does.
func (e *HeldError) Error() string { return e.Line }

// May refuses content of a claim file that is not the next version of the claim that its
// writer's family has. Others do not come so far: they wait for the claim's lock.
func (r *Room) May(f *Filing) error {
	if r.Count() == 0 {
		return nil
	}
	rec, err := claimfile.Parse(f.Rule.Format, f.Content)
	r.mu.Lock()
	defer r.mu.Unlock()
	cl := r.at[f.At]
	if cl == nil || err != nil || cl.rec == nil || cl.rec.Identity == rec.Identity {
		return nil
	}
	v := r.judgeLocked(cl)
	if v.Stale {
		return nil
	}
	return &HeldError{claimfile.LogLine(cl.rule.Format, cl.rec, v)}
}

// File enters the version that a claim file has now. Whoever has made it so holds the lock
// of the file's name. An error says why the file claims nothing.
func (r *Room) File(f *Filing) error {
	rec, malformed := claimfile.Parse(f.Rule.Format, f.Content)
	if malformed != nil {
		rec = nil
	}
	if r.renewed(f, rec) {
		return nil
	}
	chain, isNamed := slices.Clone(f.Chain), false
	if m, ok := r.named(f, rec); ok {
		chain, isNamed = []Member{m}, true
	}
	st := standing(f, rec)
	if f.Restored && len(chain) > 0 { // who may have claimed one file by two names
		st.Holder = chain[0].Owner
	}
	held, err := r.c.Locks.Stand(st)
	if err != nil {
		r.Gone(f.At)
		r.c.Engine.Left(f.At)
		return err
	}
	cl := &Claim{
		place: f.At, rule: f.Rule, target: f.Target, by: f.By, restored: f.Restored, rec: rec, made: f.Made, held: held,
		chain: chain, named: isNamed, progress: time.Now(),
		began: time.Now(), passed: make(chan struct{}),
	}
	if len(cl.chain) > 0 {
		r.c.Locks.HandTo(held, cl.chain[0].Owner, cl.chain[0].Since)
	} else if f.Restored || !f.By.Foreign() {
		cl.gone = time.Now()
	}
	r.mu.Lock()
	before := r.at[f.At]
	r.at[f.At], r.of[held] = cl, cl
	r.n.Add(1)
	r.watchLocked(cl)
	fenced := r.fencedLocked(f.By)
	r.mu.Unlock()
	r.replaced(before)
	for _, old := range fenced {
		r.end(old)
	}
	if malformed != nil && !errors.Is(malformed, claimfile.ErrEmpty) { // that is about to be written, or taken apart
		r.c.Engine.Log(r.c.Engine.Path(f.At), claimfile.MalformedLine(f.Rule.Format, malformed))
	}
	go r.review(cl)
	r.c.Engine.Changed()
	return nil
}

// renewed reports whether the version is that of the claim that is there.
func (r *Room) renewed(f *Filing, rec *claimfile.Record) bool {
	r.mu.Lock()
	cl := r.at[f.At]
	same := cl != nil && (cl.rec == nil) == (rec == nil) && (rec == nil || cl.rec.Identity == rec.Identity) &&
		reflect.DeepEqual(cl.target, f.Target)
	if same {
		cl.rec, cl.made, cl.progress, cl.removing = rec, f.Made, time.Now(), false
	}
	r.mu.Unlock()
	if same {
		r.c.Locks.Renew(cl.held, time.Now())
		r.c.Engine.Left(f.At)
		go r.review(cl)
	}
	return same
}

// standing is the lock that a filing asks for.
func standing(f *Filing, rec *claimfile.Record) *ctl.Standing {
	st := &ctl.Standing{By: f.By, Target: f.Target, Op: "claim"}
	if rec != nil {
		st.Actor = rec.Holder
		if rec.Operation != "" {
			st.Op = rec.Operation
		}
	}
	switch f.Rule.Format {
	case lockfile.Clawdbot:
		st.TTL = f.Rule.TTL
	case lockfile.LockV1:
		st.TTL = f.Rule.TTL
		if rec != nil && rec.TTL > 0 {
			st.TTL = rec.TTL
		}
	case lockfile.Beads, lockfile.OwnerDir, lockfile.Flock:
	}
	st.Yields = st.TTL > 0 && f.Rule.OnStale == lockfile.RemoveStale
	return st
}

// named is the process that the record names, where that is to be believed.
func (r *Room) named(f *Filing, rec *claimfile.Record) (Member, bool) {
	if rec == nil || rec.PID <= 0 || f.By.Foreign() && !f.Restored || !strings.EqualFold(rec.Host, r.c.Host) {
		return Member{}, false
	}
	if !trustsPID(f.Rule) {
		return Member{}, false
	}
	for _, m := range f.Chain {
		if m.Owner.PID == rec.PID {
			return m, true
		}
	}
	th, err := r.c.Procs.Process(rec.PID)
	born := r.c.Boot.Add(time.Duration(th.Owner.Start) * time.Second / ticks)
	if err != nil || f.Restored && born.After(f.Made.Add(time.Second)) {
		return Member{Owner: lockmgr.Owner{PID: rec.PID}}, true // dead: it is stale at once
	}
	return Member{Owner: th.Owner, Since: r.c.Procs.Now()}, r.c.Engine.MayHold(f.By, th.Owner)
}

// ticks is how many of the clock ticks in which a process's start is given make a second.
const ticks = 100

// trustsPID reports whether a record's process id says whose the claim is.
func trustsPID(rule *lockfile.Convention) bool {
	return rule.Format == lockfile.Beads || rule.Format == lockfile.Clawdbot
}

// fencedLocked are the claims that were stolen from the filer, or from somebody whose
// family it is of: it claims anew, and so knows that they are lost. r.mu is held.
func (r *Room) fencedLocked(by ctl.Caller) []*Claim {
	var out []*Claim
	for cl := range r.lost {
		if len(cl.chain) > 0 && isOf(by, cl.chain[0].Owner) {
			out = append(out, cl)
		}
	}
	return out
}

// isOf reports whether a caller is a process or descends from it.
func isOf(c ctl.Caller, o lockmgr.Owner) bool {
	return c.Owner() == o || slices.ContainsFunc(c.Ancestors(), func(a lockmgr.Ancestor) bool { return a.Owner == o })
}

// Gone ends the claim of a file that is no more, or claims nothing.
func (r *Room) Gone(p Place) {
	if r.Count() == 0 {
		return
	}
	r.mu.Lock()
	cl := r.at[p]
	delete(r.at, p)
	r.mu.Unlock()
	r.replaced(cl)
	if cl != nil {
		r.c.Engine.Changed()
	}
}

// replaced ends a claim that is no longer its file's; nil is none. One that was lost keeps
// its holders from what it was on until they are dead, or claim anew.
func (r *Room) replaced(cl *Claim) {
	if cl == nil {
		return
	}
	r.mu.Lock()
	_, lost := r.lost[cl]
	lost = lost && len(cl.chain) > 0
	r.mu.Unlock()
	if !lost {
		r.end(cl)
	}
}

// end gives a claim back; nil is none.
func (r *Room) end(cl *Claim) {
	if cl == nil {
		return
	}
	r.mu.Lock()
	if cl.over {
		r.mu.Unlock()
		return
	}
	cl.over = true
	if r.at[cl.place] == cl {
		delete(r.at, cl.place)
	}
	delete(r.of, cl.held)
	delete(r.lost, cl)
	r.n.Add(-1)
	if cl.timer != nil {
		cl.timer.Stop()
	}
	if cl.unwatch != nil {
		close(cl.unwatch)
		cl.unwatch = nil
	}
	r.mu.Unlock()
	r.c.Locks.GiveBack(cl.held)
	r.c.Engine.Left(cl.place)
}

// Lost notes that the lock of a claim was stolen. Its file is removed, unless the thief
// has written another one by then. Until its holders are dead, or claim anew, they write
// nothing of what it was on.
func (r *Room) Lost(held *ctl.Claim) {
	if r.Count() == 0 {
		return
	}
	r.mu.Lock()
	cl := r.of[held]
	if cl == nil || cl.over {
		r.mu.Unlock()
		return
	}
	r.lost[cl] = struct{}{}
	inForce := r.at[cl.place] == cl
	cl.removing = inForce
	r.mu.Unlock()
	if inForce {
		go r.remove(cl)
	}
}

// FileOf is where the file of a claim is; nil if no file has made it.
func (r *Room) FileOf(held *ctl.Claim) Place {
	if r.Count() == 0 {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if cl := r.of[held]; cl != nil {
		return cl.place
	}
	return nil
}

// IsOrphaned reports whether nobody lives any more who may have a claim: what becomes of it is
// for whoever may remove its file to say.
func (r *Room) IsOrphaned(held *ctl.Claim) bool {
	if r.Count() == 0 {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	cl := r.of[held]
	return cl != nil && !cl.gone.IsZero()
}

// Disown gives the lock of an orphaned claim at a place back, for somebody is about to remove
// the file.
func (r *Room) Disown(p Place) {
	if r.Count() == 0 {
		return
	}
	r.mu.Lock()
	cl := r.at[p]
	orphaned := cl != nil && !cl.gone.IsZero()
	r.mu.Unlock()
	if orphaned {
		r.c.Locks.GiveBack(cl.held)
	}
}

// Release gives a claim back on behalf of its holder, and removes its file. It is false if
// no file has made the claim.
func (r *Room) Release(held *ctl.Claim) bool {
	if r.Count() == 0 {
		return false
	}
	r.mu.Lock()
	cl := r.of[held]
	if cl != nil {
		cl.removing = true
	}
	r.mu.Unlock()
	if cl == nil {
		return false
	}
	r.c.Locks.GiveBack(held)
	go r.remove(cl)
	return true
}

// Stale is told that the lease of a claim has ended.
func (r *Room) Stale(held *ctl.Claim) {
	r.mu.Lock()
	cl := r.of[held]
	r.mu.Unlock()
	if cl != nil {
		go r.review(cl)
	}
}

// IsTimed reports whether it is the record, and not what its holder does, that keeps up
// the lease of a claim, and then whether that is in force.
func (r *Room) IsTimed(held *ctl.Claim) (timed, inForce bool) {
	if r.Count() == 0 {
		return false, false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	cl := r.of[held]
	if cl == nil || cl.rule.Format != lockfile.LockV1 {
		return false, false
	}
	return true, !r.judgeLocked(cl).Stale
}

var errInForce = errors.New("the claim is in force")

// MayRemove reports whether the mount may remove the file of a place, whose lock it has.
func (r *Room) MayRemove(p Place) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	cl := r.at[p]
	if cl == nil || !cl.removing {
		return errInForce
	}
	return nil
}
