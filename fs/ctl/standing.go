package ctl

import (
	"errors"
	"time"

	"latchfs/fs/lockkey"
	"latchfs/lockmgr"
)

// Standing is what a claim is asked for that belongs neither to a conversation nor to a
// process: it lasts until it is given back, whoever has died meanwhile.
type Standing struct {
	By     Caller
	Holder lockmgr.Owner // whose it is from the beginning; zero: the caller's
	Target lockkey.Target
	Op     string        // what it is for
	Actor  string        // who it is for
	TTL    time.Duration // 0: no lease
	Yields bool          // once stale, it may be taken by whoever waits
}

// errCrowded refuses a claim because of how many there are.
var errCrowded = errors.New("too many locks are held")

// Stand takes a claim at once, exclusively, for the process that asks. An error says that
// this process may not, or who is in the way. No directory gets another name meanwhile.
func (s *Server) Stand(st *Standing) (*Claim, error) {
	if err := s.Engine.MayClaim(st.By, &st.Target); err != nil {
		return nil, err
	}
	path, name := st.Target.First()
	if len(st.Target.Names) > 0 { // it is known by that, whatever else it is on
		path, name = "", st.Target.Names[0]
	}
	cl := &Claim{Op: st.Op, Name: name, Actor: st.Actor, By: st.By, of: s.Claims, no: s.Claims.serial.Add(1), path: path}
	cl.setTarget(st.Target)
	if cl.cost = costOf(&st.Target, cl); s.Claims.Count() >= maxClaims || !s.Book.Take(st.By.UID(), cl.cost) {
		return nil, errCrowded
	}
	owner := st.Holder
	if owner == (lockmgr.Owner{}) {
		owner = st.By.Owner()
	}
	l, err := s.Engine.Take(&Ask{
		Claim: cl, By: st.By, Owner: owner, Lineage: st.By.Ancestors(),
		Mode: lockmgr.Exclusive, TTL: st.TTL, Yields: st.Yields,
	})
	if err != nil {
		s.Claims.forget(cl)
		return nil, err
	}
	if err := s.Engine.CoverToken(l.Token()); err != nil {
		s.Claims.end(cl)
		return nil, err
	}
	cl.since = time.Now()
	s.Engine.Tell("lock_acquired", cl, l.Owner(), map[string]any{
		"request_id": cl.ID(), "lock_path": cl.heldFile(), "ttl_seconds": st.TTL.Seconds(), "token": l.Token(),
	})
	return cl, nil
}

// GiveBack ends a standing claim, also one whose lock was stolen.
func (cs *Claims) GiveBack(cl *Claim) { cs.end(cl) }

// HandTo makes a standing claim another process's, whose heirs are those born after since.
func (cs *Claims) HandTo(cl *Claim, o lockmgr.Owner, since lockmgr.Birth) {
	cs.table.SetOwner(cs.LockOf(cl), o, since)
}

// Renew is a sign of life of a standing claim.
func (cs *Claims) Renew(cl *Claim, now time.Time) { cs.table.Heartbeat(cs.LockOf(cl), now, true) }

// LastBeat is the last sign of life of whoever holds a claim; zero if none was seen.
func (cs *Claims) LastBeat(cl *Claim) time.Time {
	l := cs.LockOf(cl)
	for _, h := range cs.table.Holders(l.Keys(), nil) {
		if h.Lock == l {
			return h.Beat
		}
	}
	return time.Time{}
}

// Expire ends the lease of a standing claim, so that its lock can be stolen.
func (cs *Claims) Expire(cl *Claim, now time.Time) {
	for range lockmgr.Heartbeats {
		cs.table.Heartbeat(cs.LockOf(cl), now, false)
	}
}

// Revoke takes the lock of a standing claim away from whoever has it. Engine.SettleThefts
// does what follows.
func (cs *Claims) Revoke(cl *Claim) {
	l := cs.LockOf(cl)
	if cs.table.Steal(l) != nil {
		_ = cs.table.Revoke(l)
	}
}
