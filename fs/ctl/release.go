package ctl

import (
	"cmp"
	"slices"

	"latchfs/fs/control"
	"latchfs/fs/lockkey"
	"latchfs/fs/report"
	"latchfs/lockmgr"
)

// wasStolen warns who gives back what somebody else has by now.
const wasStolen = "the lock was stolen meanwhile"

// release gives back what the request names, all or part of a claim.
func (q *query) release(t *lockkey.Target) *control.Reply {
	if q.r.Lock != "" {
		return q.releaseOne()
	}
	out := &control.Reply{OK: true}
	own, rep := q.own()
	if rep != nil {
		return rep
	}
	for _, cl := range own {
		whole := cl.Target()
		if !q.r.All && !whole.Meets(t) {
			continue
		}
		if rest := whole.Without(t); !q.r.All && rest.Len() > 0 {
			if !q.shrink(cl, t) {
				return refused(control.Unavailable, "the lock "+cl.ID()+" was stolen, or is about to change")
			}
		} else if !q.s.Claims.Drop(cl) {
			out.Warning = wasStolen
			continue
		}
		out.Released++
	}
	if out.Released > 0 || q.r.All || out.Warning != "" {
		return out
	}
	return q.notOurs(t, out)
}

// releaseOne gives back the lock that the request names by its id.
func (q *query) releaseOne() *control.Reply {
	out := &control.Reply{OK: true}
	cl, rep := q.ownByID()
	switch {
	case rep != nil:
		return rep
	case cl != nil:
		if q.s.Claims.Drop(cl) {
			out.Released++
		} else {
			out.Warning = wasStolen
		}
	case q.s.Claims.ByID(q.r.Lock) != nil:
		t := q.s.Claims.ByID(q.r.Lock).Target()
		if rep := q.anothers(&t, q.r.Lock); rep != nil {
			return rep
		}
		return refused(control.NotHolder, "the lock "+q.r.Lock+" is another process's")
	default:
		out.Warning = "there is no lock " + q.r.Lock + ": it was released already, or never taken"
	}
	return out
}

// notOurs answers a release of what the requester does not hold.
func (q *query) notOurs(t *lockkey.Target, out *control.Reply) *control.Reply {
	if rep := q.anothers(t, ""); rep != nil {
		return rep
	}
	out.Warning = "it was not locked by this process"
	return out
}

// anothers says who has the lock on a target, and what ends it: to run the command again does
// not. id is that of the lock, "" for any. It is nil if there is none, or none to be told of.
func (q *query) anothers(t *lockkey.Target, id string) *control.Reply {
	path, _ := t.First()
	sight := q.s.Views.Sight(q.viewer())
	for _, h := range q.s.Table.Holders(q.s.Engine.Keys(t)) {
		if !q.isNotToRelease(&h, id) || !q.reaches(t, sight) {
			continue
		}
		r := q.shown(&h, path, sight)
		x := report.Refusal{Path: r.Path, Name: r.Name, Errno: "EAGAIN", Holder: r}
		rep := refused(control.NotHolder, x.InTheWay()+", not by this process")
		describe(rep.Refusal, r)
		now := h.Stale || q.owns(t) && q.isAnothers(&h) || q.isOrphaned(&h)
		rep.Error, rep.Suggestion = control.NotHolder, r.HowToEnd(now, q.maySteal(&h) == nil)
		return rep
	}
	return nil
}

// isNotToRelease reports whether a lock, that of this id if there is one, is one that somebody
// else has to give back: a claim, or what another user's process has by working with the file.
// What the requester's own programs have open is no lock that anybody asks to be released.
func (q *query) isNotToRelease(h *lockmgr.Holder, id string) bool {
	lb := labelOf(h)
	switch {
	case lb == nil:
		return false
	case lb.Claim() == nil:
		return id == "" && q.isAnothers(h)
	}
	return id == "" || lb.Claim().ID() == id
}

// shrink takes a part of what it is on away from a claim. It is false if there is no
// claim any more.
func (q *query) shrink(cl *Claim, part *lockkey.Target) bool {
	release := q.s.Engine.HoldPaths()
	defer release()
	whole := cl.Target()
	rest := whole.Without(part)
	keys, trees := q.s.Engine.Keys(&rest)
	return q.s.Claims.shrink(cl, rest, slices.Concat(keys, trees))
}

// decide commits a transaction or rolls it back. That takes time, so the answer
// comes later.
func (q *query) decide() *control.Reply {
	cl, rep := q.ownByID()
	switch {
	case rep != nil:
		return rep
	case cl == nil || cl.Txn() == nil:
		return refused(control.NoSuchLock, "this process has no transaction "+q.r.Lock)
	}
	cv := q.cv
	cv.mu.Lock()
	cv.ending++
	cv.mu.Unlock()
	go func() {
		defer cv.ended()
		cv.reply(q.r.ID, q.decided(cl))
	}()
	return nil
}

func (q *query) decided(cl *Claim) *control.Reply {
	t := cl.Txn()
	defer t.Forget()
	out := &control.Reply{OK: true, Lock: cl.ID(), Token: t.Token()}
	if q.r.Op == control.Rollback {
		t.Rollback(cmp.Or(q.r.Reason, "as asked for"))
		return out
	}
	done, err := t.Commit()
	switch {
	case !done:
		return refused(control.Refused, err.Error())
	case err != nil:
		out.Warning = err.Error()
	}
	return out
}
