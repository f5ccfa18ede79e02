package ctl

import (
	"time"

	"latchfs/fs/control"
	"latchfs/fs/lockkey"
	"latchfs/lockmgr/policy"
)

// maxClaims bounds the memory that locks without a file open can take.
const maxClaims = 1 << 19

// opAcquire is what a lock is for whose requester does not say: what it asked for.
const opAcquire = "acquire"

// acquire takes a lock for the conversation, or for the holder named.
func (q *query) acquire(t lockkey.Target) *control.Reply {
	s := q.s
	weak, err := s.Engine.MayLock(q.c, &t, q.mode())
	if err != nil {
		return refused(control.NotAllowed, err.Error())
	}
	owner, lineage, rep := q.holder()
	if rep != nil {
		return rep
	}
	if q.r.Steal {
		for _, h := range s.Table.Holders(s.Engine.Keys(&lockkey.Target{Names: t.Names})) {
			if err := q.maySteal(&h); err != nil {
				return refused(control.NotAllowed, err.Error())
			}
		}
	}
	if s.Claims.Count() >= maxClaims {
		return refused(control.Unavailable, "too many locks are held")
	}
	if q.r.Txn && s.Engine.IsInTxn(q.c) {
		return refused(control.Invalid, "this process is part of a transaction already")
	}
	cl := q.claim(t)
	cl.staged = q.r.Txn
	if cl.cost = costOf(&t, cl); !s.Book.Take(cl.By.UID(), cl.cost) {
		return refused(control.Unavailable, "this user's locks take as much memory as one user may have: give some back first")
	}
	cl.joined = s.Engine.Join(q.c)
	a := q.ask(cl)
	a.Owner, a.Lineage, a.Weak = owner, lineage, weak
	return q.try(a, q.r.ID)
}

// claim makes a claim on a target, without a lock yet.
func (q *query) claim(t lockkey.Target) *Claim {
	path, name := t.First()
	cl := &Claim{
		Op: q.r.Operation, Name: name, Actor: q.r.Actor, By: q.c,
		of: q.s.Claims, no: q.s.Claims.serial.Add(1), path: path,
	}
	if cl.Op == "" {
		cl.Op = opAcquire
	}
	if q.r.Holder == 0 {
		cl.cv, cl.By = q.cv, q.cv.c
	}
	cl.setTarget(t)
	return cl
}

// ask asks for a claim's lock as the request and the policy say.
func (q *query) ask(cl *Claim) *Ask {
	set := q.s.Defaults
	if cl.Name == "" {
		set = q.s.Engine.Settings(cl.Where())
	}
	a := &Ask{
		Claim: cl, By: q.c, Mode: q.mode(), Wait: set.Wait, TTL: set.TTL,
		Yields: set.OnStale == policy.StealStale, Steal: q.r.Steal, Inbox: q.cv.inbox,
	}
	if w := q.r.Wait; w != nil {
		a.Wait = time.Duration(*w)
	}
	if ttl := q.r.TTL; ttl != nil {
		a.TTL = q.ttl(time.Duration(*ttl), set.TTL)
	}
	return a
}

// try asks for the lock of the request id and grants, refuses, or lets it wait.
func (q *query) try(a *Ask, id string) *control.Reply {
	l, err := q.s.Engine.Acquire(a)
	if err != nil {
		q.s.Claims.forget(a.Claim)
		return q.refusal(a.Claim, err, 0)
	}
	if l.Held() {
		return q.granted(a.Claim)
	}
	q.wait(&wait{cv: q.cv, cl: a.Claim, id: id, wait: a.Wait}, l)
	return nil
}

// granted enters a claim that has its lock.
func (q *query) granted(cl *Claim) *control.Reply {
	s := q.s
	cl.since = time.Now()
	if err := s.Engine.CoverToken(cl.lock.Token()); err != nil {
		s.Claims.release(cl)
		return refused(control.Unavailable, err.Error())
	}
	if cl.staged {
		s.Engine.BeginTxn(cl) // before the conversation has it, whose end rolls it back
	}
	if cl.cv != nil {
		if !cl.cv.own(cl) {
			s.Claims.release(cl)
			return nil
		}
	} else if err := s.Claims.keep(cl, s.Claims.LockOf(cl).Owner()); err != nil {
		s.Claims.release(cl)
		return refused(control.Unavailable, "the holder is gone: "+err.Error())
	}
	r := cl.lock.Request()
	s.Engine.Tell("lock_acquired", cl, r.Owner, map[string]any{
		"request_id": cl.ID(), "lock_path": cl.heldFile(), "ttl_seconds": r.TTL.Seconds(), "token": cl.lock.Token(),
	})
	return &control.Reply{OK: true, Lock: cl.ID(), Token: cl.lock.Token()}
}
