package ctl

import (
	"fmt"
	"slices"
	"time"

	"latchfs/fs/control"
	"latchfs/fs/report"
	"latchfs/lockmgr"
)

// query is one request of a conversation being answered.
type query struct {
	cv *Conversation
	s  *Server
	c  Caller // who wrote it
	v  report.Viewer
	r  *control.Request // nil: the conversation goes on with an earlier one
}

// run carries the request out. A nil reply means that it waits.
func (q *query) run() *control.Reply {
	t, err := q.s.targetOf(q.r)
	if err != nil {
		return refused(control.Invalid, err.Error())
	}
	if q.s.Engine.IsStopping() && q.r.Op == control.Acquire {
		return refused(control.Unavailable, q.s.Engine.Notice())
	}
	switch q.r.Op {
	case control.Acquire:
		return q.acquire(t)
	case control.Release:
		return q.release(&t)
	case control.Check:
		return q.check()
	case control.List:
		return q.list()
	case control.Steal:
		return q.steal(&t)
	case control.Commit, control.Rollback:
		return q.decide()
	case control.Label:
		return q.label()
	case control.Forget:
		return q.forget(&t)
	case control.Pin:
		return q.pin(&t)
	case control.Unpin:
		return q.cv.unpin(pinned{t.Paths[0], q.r.Version})
	}
	return refused(control.Invalid, "unknown op")
}

func (q *query) mode() lockmgr.Mode {
	switch q.r.Mode {
	case "shared":
		return lockmgr.Shared
	case "update":
		return lockmgr.Update
	}
	return lockmgr.Exclusive
}

// shortestTTL is what the policy's is, too: heartbeats come three times as often.
const shortestTTL = 100 * time.Millisecond

// ttl is the lease that a request gets which asks for one. Only root may have a
// lock that stays longer than the policy says without a sign of life.
func (q *query) ttl(asked, policy time.Duration) time.Duration {
	if asked > 0 {
		asked = max(asked, shortestTTL)
	}
	if q.c.UID() != 0 && policy > 0 && (asked <= 0 || asked > policy) {
		return policy
	}
	return max(asked, 0)
}

// holder is the process to which a lock is to belong.
func (q *query) holder() (lockmgr.Owner, []lockmgr.Ancestor, *control.Reply) {
	if q.r.Holder == 0 {
		q.cv.mu.Lock()
		defer q.cv.mu.Unlock()
		return q.cv.owner, q.cv.lineage, nil
	}
	if q.c.Foreign() {
		return lockmgr.Owner{}, nil, refused(control.Unavailable,
			"a holder cannot be named from another pid namespace: it would not be seen when it ends")
	}
	up := q.c.Ancestors()
	self := q.s.Procs.IDs(q.c.Owner().PID)
	if isNamed(q.s.Procs, q.c.Owner(), q.r.Holder, self) {
		return q.c.Owner(), up, nil
	}
	for i, a := range up {
		if isNamed(q.s.Procs, a.Owner, q.r.Holder, self) && (q.c.UID() == 0 || q.s.Procs.Describe(a.Owner.PID).UID == q.c.UID()) {
			return a.Owner, up[i+1:], nil
		}
	}
	return lockmgr.Owner{}, nil, refused(control.NotAllowed,
		fmt.Sprintf("process %d is not this process or an ancestor of it, of the same user", q.r.Holder))
}

// isNamed reports whether o is the process that a requester calls id. One in a pid namespace
// below ours means the id there: self are the ids of the requester.
func isNamed(procs Procs, o lockmgr.Owner, id int32, self []int32) bool {
	switch len(self) {
	case 0:
		return false // it has gone: nobody can tell which ids it meant
	case 1:
		return o.PID == id
	}
	ids := procs.IDs(o.PID)
	return len(ids) == len(self) && ids[len(ids)-1] == id
}

// own are the claims that a request may give back or change: the conversation's,
// or the holder's.
func (q *query) own() ([]*Claim, *control.Reply) {
	if q.r.Holder == 0 {
		return q.cv.claims(), nil
	}
	owner, _, rep := q.holder()
	if rep != nil {
		return nil, rep
	}
	return slices.DeleteFunc(q.s.Claims.ofOwner(owner), func(cl *Claim) bool { return !q.mayChange(cl) }), nil
}

// mayChange reports whether a claim is the requester's to give back, as far as
// users go.
func (q *query) mayChange(cl *Claim) bool { return q.c.UID() == 0 || q.c.UID() == cl.By.UID() }

// ownByID is the one of own that the request names, nil if there is none.
func (q *query) ownByID() (*Claim, *control.Reply) {
	cl := q.s.Claims.ByID(q.r.Lock)
	if q.r.Holder == 0 {
		if cl == nil || !q.cv.owns(cl) {
			return nil, nil
		}
		return cl, nil
	}
	owner, _, rep := q.holder()
	if rep != nil || cl == nil || !q.s.Claims.keeps(owner, cl) || !q.mayChange(cl) {
		return nil, rep
	}
	return cl, nil
}

// viewer is the requester as one who looks.
func (q *query) viewer() report.Viewer {
	if q.r != nil {
		return q.v
	}
	return q.s.Engine.Viewer(q.c) // the conversation goes on with an earlier request
}
