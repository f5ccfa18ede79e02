package fs

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"latchfs/fs/control"
	"latchfs/fs/lockkey"
	"latchfs/fs/locksdir"
	"latchfs/lockmgr"
)

// release gives back what the request names, all or part of a claim.
func (q *query) release(t lockkey.Target) *control.Reply {
	out := &control.Reply{OK: true}
	if q.r.Lock != "" {
		cl, rep := q.ownByID()
		switch {
		case rep != nil:
			return rep
		case cl != nil:
			if q.f.controls.drop(cl) {
				out.Released++
			} else {
				out.Warning = wasStolen
			}
		case q.f.controls.byID(q.r.Lock) != nil:
			return refused(control.NotHolder, "the lock "+q.r.Lock+" belongs to somebody else")
		default:
			out.Warning = "there is no lock " + q.r.Lock + ": it was released already, or never taken"
		}
		return out
	}
	own, rep := q.own()
	if rep != nil {
		return rep
	}
	for _, cl := range own {
		whole := cl.target()
		if !q.r.All && !whole.Meets(&t) {
			continue
		}
		if rest := whole.Without(&t); !q.r.All && rest.Len() > 0 {
			if !q.shrink(cl, &t) {
				return refused(control.Unavailable, "the lock "+cl.label.id()+" was stolen, or is about to change")
			}
		} else if !q.f.controls.drop(cl) {
			out.Warning = wasStolen
			continue
		}
		out.Released++
	}
	if out.Released > 0 || q.r.All || out.Warning != "" {
		return out
	}
	return q.notOurs(&t, out)
}

// wasStolen warns who gives back what somebody else has by now.
const wasStolen = "the lock was stolen meanwhile"

// notOurs answers a release of what the requester does not hold.
func (q *query) notOurs(t *lockkey.Target, out *control.Reply) *control.Reply {
	path, _ := t.First()
	v := q.viewer()
	sight := q.f.source.Sight(v)
	for _, h := range q.f.table.Holders(q.f.keysOfTarget(t)) {
		if lb, ok := h.Label.(*label); ok && lb.control != 0 && q.reaches(t, sight) {
			r := *ptr(q.f.record(&h, lockkey.Shown(&h))).ShownInTheWay(path, v, sight)
			rep := refused(control.NotHolder, fmt.Sprintf("the lock belongs to %s", r.Who()))
			q.describe(rep.Refusal, &r)
			rep.Error = control.NotHolder
			return rep
		}
	}
	out.Warning = "it was not locked by this process"
	return out
}

// shrink takes a part of what it is on away from a claim. It is false if there is no
// claim any more.
func (q *query) shrink(cl *claim, part *lockkey.Target) bool {
	f := q.f
	f.ns.RLock()
	defer f.ns.RUnlock()
	whole := cl.target()
	rest := whole.Without(part)
	keys, trees := f.keysOfTarget(&rest)
	f.controls.mu.Lock()
	defer f.controls.mu.Unlock()
	keep := slices.Concat(keys, trees)
	gone := slices.DeleteFunc(cl.lock.Keys(), func(k lockmgr.Key) bool { return slices.Contains(keep, k) })
	if !f.table.Shrink(cl.lock, gone) {
		return false
	}
	cl.setTarget(rest)
	return true
}

// change upgrades or downgrades a claim.
func (q *query) change() *control.Reply {
	cl, rep := q.ownByID()
	switch {
	case rep != nil:
		return rep
	case cl == nil:
		return refused(control.NoSuchLock, "this process has no lock "+q.r.Lock)
	}
	f := q.f
	l := f.controls.lockOf(cl)
	if q.r.Op == control.Upgrade && l.Request().Weak {
		return refused(control.NotAllowed, "the lock "+q.r.Lock+" was taken without the right to write, and keeps no writer out: it cannot be upgraded")
	}
	if q.r.Op == control.Downgrade {
		f.table.Downgrade(l, q.mode())
		return q.changed(cl, l, nil)
	}
	d := q.demand(cl, lockmgr.Owner{}, nil)
	u, err := f.table.Upgrade(l, q.mode(), d.wait == 0)
	f.settleThefts(q.c)
	if err == nil && q.cv.awaits(u) {
		return refused(control.Invalid, "the lock "+q.r.Lock+" has an upgrade under way")
	}
	if err == nil && !u.Held() {
		q.wait(&wait{cv: q.cv, cl: cl, id: q.r.ID, mode: q.mode(), wait: d.wait}, u)
		return nil
	}
	return q.changed(cl, u, err)
}

// decide commits a transaction or rolls it back. That takes time, so the answer
// comes later.
func (q *query) decide() *control.Reply {
	cl, rep := q.ownByID()
	switch {
	case rep != nil:
		return rep
	case cl == nil || cl.txn.Load() == nil:
		return refused(control.NoSuchLock, "this process has no transaction "+q.r.Lock)
	}
	cv, t := q.cv, cl.txn.Load()
	cv.mu.Lock()
	cv.ending++
	cv.mu.Unlock()
	go func() {
		cv.reply(q.r.ID, q.decided(t))
		cv.mu.Lock()
		cv.ending--
		cv.changedLocked()
		cv.mu.Unlock()
	}()
	return nil
}

func (q *query) decided(t *txn) *control.Reply {
	defer t.forget()
	out := &control.Reply{OK: true, Lock: t.label, Token: t.id}
	if q.r.Op == control.Rollback {
		t.rollback(cmp.Or(q.r.Reason, "as asked for"))
		return out
	}
	switch err := t.commit(); {
	case errors.Is(err, errCommit):
		return refused(control.Refused, err.Error())
	case err != nil:
		out.Warning = err.Error()
	}
	return out
}

// changed answers a change of a claim's mode.
func (q *query) changed(cl *claim, l *lockmgr.Lock, err error) *control.Reply {
	if err != nil {
		return q.refusal(cl, err, 0)
	}
	if !q.f.controls.replace(cl, l) {
		q.f.table.Release(l)
		return refused(control.NoSuchLock, "the lock was released meanwhile")
	}
	return &control.Reply{OK: true, Lock: cl.label.id(), Token: l.Token()}
}

// check says of each thing asked about who holds it, in the order of the question.
func (q *query) check() *control.Reply {
	out := &control.Reply{OK: true}
	sight := q.f.source.Sight(q.v)
	for _, one := range q.f.askedAbout(q.r) {
		asked, _ := one.First()
		if !q.reaches(&one, sight) {
			return refused(control.NotAllowed, fmt.Sprintf("%q: %v", asked, unix.EACCES))
		}
		hs := q.f.table.Holders(q.f.keysOfTarget(&one))
		if len(hs) == 0 {
			path, name := one.First()
			if name == "" {
				name = path
			}
			free, err := json.Marshal(map[string]any{"lock_name": name, "locked": false})
			if err == nil {
				out.Locks = append(out.Locks, free)
			}
			continue
		}
		r := ptr(q.f.record(&hs[0], lockkey.Shown(&hs[0]))).ShownInTheWay(asked, q.v, sight)
		out.Locks = append(out.Locks, locksdir.AppendLock(nil, r, time.Now(), q.v))
	}
	return out
}

// list lists what is held, by anybody or by the requester.
func (q *query) list() *control.Reply {
	out := &control.Reply{OK: true}
	var mine map[string]bool
	if q.r.Mine {
		own, rep := q.own()
		if rep != nil {
			return rep
		}
		mine = map[string]bool{}
		for _, cl := range own {
			mine[cl.label.id()] = true
		}
	}
	sight := q.f.source.Sight(q.v)
	held := q.f.source.Held()
	for i := range held {
		if r, ok := held[i].ShownTo(q.v, sight); ok && (mine == nil || mine[r.Session]) {
			out.Locks = append(out.Locks, locksdir.AppendLock(nil, r, time.Now(), q.v))
		}
	}
	return out
}

// viewer is the requester as one who looks.
func (q *query) viewer() locksdir.Viewer {
	if q.r != nil {
		return q.v
	}
	return q.f.virt.viewerOf(q.c) // the conversation goes on with an earlier request
}

// reaches reports whether the requester can reach everything that a target names, or
// could if it were there.
func (q *query) reaches(t *lockkey.Target, sight locksdir.Sight) bool {
	for _, p := range slices.Concat(t.Paths, t.Trees) {
		if sight != nil && !sight.Sees(p, q.c.uid) {
			return false
		}
	}
	return true
}

func ptr[T any](v T) *T { return &v }
