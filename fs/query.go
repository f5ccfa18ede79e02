package fs

import (
	"fmt"
	"slices"
	"time"

	"latchfs/fs/control"
	"latchfs/fs/denied"
	"latchfs/fs/lockkey"
	"latchfs/fs/locksdir"
	"latchfs/lockmgr"
	"latchfs/lockmgr/policy"
)

// query is one request of a conversation being answered.
type query struct {
	cv *conversation
	f  *FS
	c  *caller // who wrote it
	v  locksdir.Viewer
	r  *control.Request // nil: the conversation goes on with an earlier one
}

// wait is a request that waits for its lock. There may be many: it keeps what
// the reply needs, and no more.
type wait struct {
	cv      *conversation
	cl      *claim
	id      string       // of the request
	mode    lockmgr.Mode // upgrade: the mode asked for
	wait    time.Duration
	timer   *time.Timer
	holders []lockmgr.Holder // in the way when the time was over
}

func (w *wait) stop() {
	if w.timer != nil {
		w.timer.Stop()
	}
}

// run carries the request out. A nil reply means that it waits.
func (q *query) run() *control.Reply {
	t, err := q.f.targetOf(q.r)
	if err != nil {
		return refused(control.Invalid, err.Error())
	}
	if q.f.isClosing() && (q.r.Op == control.Acquire || q.r.Op == control.Upgrade) {
		return refused(control.Unavailable, q.f.shutdownNotice())
	}
	switch q.r.Op {
	case control.Acquire:
		return q.acquire(t)
	case control.Release:
		return q.release(t)
	case control.Upgrade, control.Downgrade:
		return q.change()
	case control.Check:
		return q.check()
	case control.List:
		return q.list()
	case control.Steal:
		return q.steal(t)
	case control.Commit, control.Rollback:
		return q.decide()
	case control.Label:
		return q.label()
	case control.Forget:
		return q.forget(t)
	}
	return refused(control.Invalid, "unknown op")
}

// acquire takes a lock for the conversation, or for the holder named.
func (q *query) acquire(t lockkey.Target) *control.Reply {
	weak, err := q.f.mayLock(q.c, &t, q.mode())
	if err != nil {
		return refused(control.NotAllowed, err.Error())
	}
	owner, lineage, rep := q.holder()
	if rep != nil {
		return rep
	}
	if q.r.Steal {
		for _, h := range q.f.table.Holders(q.f.keysOfTarget(&lockkey.Target{Names: t.Names})) {
			if err := q.maySteal(&h); err != nil {
				return refused(control.NotAllowed, err.Error())
			}
		}
	}
	if q.f.controls.n.Load() >= maxClaims {
		return refused(control.Unavailable, "too many locks are held")
	}
	if q.r.Txn && q.f.txnOf(q.c) != nil {
		return refused(control.Invalid, "this process is part of a transaction already")
	}
	cl := q.claim(t)
	cl.staged = q.r.Txn
	if cl.cost = costOf(&t, &cl.label); !q.f.book.Take(cl.label.c.uid, cl.cost) {
		return refused(control.Unavailable, "this user's locks take as much memory as one user may have: give some back first")
	}
	q.f.joinGuard(q.c)
	cl.joined = q.c.guard
	d := q.demand(cl, owner, lineage)
	d.weak = weak
	return q.try(cl, d, q.r.ID)
}

// try enters the demand of the request id and grants, refuses, or lets it wait.
func (q *query) try(cl *claim, d *demand, id string) *control.Reply {
	f := q.f
	d.inbox = q.cv.inbox
	l, err := f.acquireOrClosed(d, d.wait == 0)
	if err != nil {
		f.controls.forget(cl)
		return q.refusal(cl, err, 0)
	}
	if l.Held() {
		return q.granted(cl)
	}
	q.wait(&wait{cv: q.cv, cl: cl, id: id, wait: d.wait}, l)
	return nil
}

// wait lets a request wait for l.
func (q *query) wait(w *wait, l *lockmgr.Lock) {
	f, cv := q.f, q.cv
	cv.mu.Lock()
	if cv.closed {
		cv.mu.Unlock()
		f.table.Cancel(l, denied.ErrInterrupted)
		f.table.Release(l)
		w.forget()
		return
	}
	cv.waits[l] = w
	if w.wait > 0 {
		w.timer = time.AfterFunc(w.wait, func() {
			w.holders = f.table.FirstConflicts(l, 1)
			f.table.Cancel(l, denied.ErrTimeout) // the inbox tells
		})
	}
	cv.mu.Unlock()
	cv.watch.Do(func() { go cv.collect() })
	select {
	case <-l.Done(): // the inbox may have told of it before there was a wait to find
		cv.settle(l)
	default:
	}
}

// maxClaims bounds the memory that locks without a file open can take.
const maxClaims = 1 << 19

// forget drops the claim of a request that did not get its lock. One that wanted
// to change it goes on as it was.
func (w *wait) forget() {
	if w.mode == 0 {
		w.cv.f.controls.forget(w.cl)
	}
}

// over answers a request whose wait has ended.
func (w *wait) over(l *lockmgr.Lock) {
	q, f := w.cv.query(), w.cv.f
	var rep *control.Reply
	switch err := l.Err(); {
	case w.mode != 0:
		rep = q.changed(w.cl, l, err)
	case err != nil:
		f.controls.forget(w.cl)
		rep = q.refusal(w.cl, &denied.Error{Cause: err, Holders: w.holdersFor(err)}, w.wait)
	case !f.covers(l, &demand{claim: w.cl}):
		f.table.Release(l) // a file was renamed meanwhile
		cost := w.cl.cost
		f.controls.forget(w.cl)
		f.book.Charge(w.cl.label.c.uid, cost)
		w.cl.cost = cost
		rep = q.try(w.cl, q.again(w, l), w.id)
	default:
		f.settleThefts(nil)
		if err := f.fenced(q.c, l.Keys()); err != nil {
			f.controls.release(w.cl)
			rep = q.refusal(w.cl, err, 0)
		} else {
			rep = q.granted(w.cl)
		}
	}
	if rep != nil {
		w.cv.reply(w.id, rep)
	}
}

// again is the demand of a request whose lock turned out to be on other keys.
func (q *query) again(w *wait, l *lockmgr.Lock) *demand {
	r := l.Request()
	return &demand{
		c: q.c, op: w.cl.label.op, path: w.cl.label.where(), claim: w.cl, mode: r.Mode, class: r.Class,
		gate: r.Gate, weak: r.Weak, wait: w.wait, ttl: r.TTL, yields: r.Yields, steal: r.Steal,
		label: &w.cl.label, owner: &r.Owner, lineage: r.Lineage,
	}
}

func (w *wait) holdersFor(err error) []lockmgr.Holder {
	if hs := denied.Holders(err); hs != nil {
		return hs
	}
	return w.holders
}

// granted enters a claim that has its lock.
func (q *query) granted(cl *claim) *control.Reply {
	f := q.f
	cl.since = time.Since(f.source.started)
	if err := f.coverToken(cl.lock.Token()); err != nil {
		f.controls.release(cl)
		return refused(control.Unavailable, err.Error())
	}
	if cl.cv != nil {
		cl.cv.mu.Lock()
		closed := cl.cv.closed
		if !closed {
			cl.cv.locks[cl.label.control] = cl
		}
		cl.cv.mu.Unlock()
		if closed {
			f.controls.release(cl)
			return nil
		}
	} else if err := f.controls.keep(cl, f.controls.lockOf(cl).Owner()); err != nil {
		f.controls.release(cl)
		return refused(control.Unavailable, "the holder is gone: "+err.Error())
	}
	if cl.staged {
		f.beginTxn(cl)
	}
	r := cl.lock.Request()
	f.leaseEvent("lock_acquired", &cl.label, r.Owner, map[string]any{
		"request_id": cl.label.id(), "lock_path": heldFile(&cl.label), "ttl_seconds": r.TTL.Seconds(), "token": cl.lock.Token(),
	})
	return &control.Reply{OK: true, Lock: cl.label.id(), Token: cl.lock.Token()}
}

// heldFile is where .locks shows a lock.
func heldFile(lb *label) string {
	if lb.name != "" {
		return "names/" + lb.name + ".lock"
	}
	return "held/" + lb.where() + ".lock"
}

// claim makes a claim on a target, without a lock yet.
func (q *query) claim(t lockkey.Target) *claim {
	cl := &claim{}
	path, name := t.First()
	op := q.r.Operation
	if op == "" {
		op = opGuard
	}
	cl.label = label{op: op, path: path, name: name, actor: q.r.Actor, control: q.f.controls.serial.Add(1), c: q.c}
	if q.r.Holder == 0 {
		cl.cv, cl.label.c = q.cv, q.cv.c
	}
	cl.setTarget(t)
	return cl
}

// demand asks for a claim's lock on behalf of its owner.
func (q *query) demand(cl *claim, owner lockmgr.Owner, lineage []lockmgr.Ancestor) *demand {
	f := q.f
	set := f.policy.Defaults()
	if cl.label.name == "" {
		set = f.settings(cl.label.path)
	}
	d := &demand{
		c: q.c, op: cl.label.op, path: cl.label.where(), claim: cl, mode: q.mode(), class: lockmgr.Session,
		gate: true, wait: set.Wait, ttl: set.TTL, yields: set.OnStale == policy.StealStale, steal: q.r.Steal,
		label: &cl.label, owner: &owner, lineage: lineage,
	}
	if w := q.r.Wait; w != nil {
		d.wait = time.Duration(*w)
	}
	if ttl := q.r.TTL; ttl != nil {
		d.ttl = q.ttl(time.Duration(*ttl), set.TTL)
	}
	return d
}

// shortestTTL is what the policy's is, too: heartbeats come three times as often.
const shortestTTL = 100 * time.Millisecond

// ttl is the lease that a request gets which asks for one. Only root may have a
// lock that stays longer than the policy says without a sign of life.
func (q *query) ttl(asked, policy time.Duration) time.Duration {
	if asked > 0 {
		asked = max(asked, shortestTTL)
	}
	if q.c.uid != 0 && policy > 0 && (asked <= 0 || asked > policy) {
		return policy
	}
	return max(asked, 0)
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

// holder is the process to which a lock is to belong.
func (q *query) holder() (lockmgr.Owner, []lockmgr.Ancestor, *control.Reply) {
	if q.r.Holder == 0 {
		q.cv.mu.Lock()
		defer q.cv.mu.Unlock()
		return q.cv.owner, q.cv.lineage, nil
	}
	if q.c.foreign() {
		return lockmgr.Owner{}, nil, refused(control.Unavailable,
			"a holder cannot be named from another pid namespace: it would not be seen when it ends")
	}
	up := q.c.ancestors()
	if q.r.Holder == q.c.owner.PID {
		return q.c.owner, up, nil
	}
	for i, a := range up {
		if a.Owner.PID == q.r.Holder && (q.c.uid == 0 || q.f.proc.Describe(a.Owner.PID).UID == q.c.uid) {
			return a.Owner, up[i+1:], nil
		}
	}
	return lockmgr.Owner{}, nil, refused(control.NotAllowed,
		fmt.Sprintf("process %d is not this process or an ancestor of it, of the same user", q.r.Holder))
}

// own are the claims that a request may give back or change: the conversation's,
// or the holder's.
func (q *query) own() ([]*claim, *control.Reply) {
	if q.r.Holder == 0 {
		q.cv.mu.Lock()
		defer q.cv.mu.Unlock()
		out := make([]*claim, 0, len(q.cv.locks))
		for _, cl := range q.cv.locks {
			out = append(out, cl)
		}
		return out, nil
	}
	owner, _, rep := q.holder()
	if rep != nil {
		return nil, rep
	}
	return slices.DeleteFunc(q.f.controls.ofOwner(owner), func(cl *claim) bool { return !q.mayChange(cl) }), nil
}

// mayChange reports whether a claim is the requester's to give back, as far as
// users go.
func (q *query) mayChange(cl *claim) bool { return q.c.uid == 0 || q.c.uid == cl.label.c.uid }

// ownByID is the one of own that the request names, nil if there is none.
func (q *query) ownByID() (*claim, *control.Reply) {
	cl := q.f.controls.byID(q.r.Lock)
	if q.r.Holder == 0 {
		if cl == nil {
			return nil, nil
		}
		q.cv.mu.Lock()
		defer q.cv.mu.Unlock()
		return q.cv.locks[cl.label.control], nil
	}
	owner, _, rep := q.holder()
	if rep != nil || cl == nil || !q.f.controls.keeps(owner, cl) || !q.mayChange(cl) {
		return nil, rep
	}
	return cl, nil
}
