package ctl

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"latchfs/fs/control"
	"latchfs/fs/denied"
	"latchfs/fs/lockkey"
	"latchfs/fs/report"
	"latchfs/lockmgr"
)

// steal ends the locks on what the request names: those that are stale, and for the
// owner of all that is named, or root, the active ones of other users, too.
func (q *query) steal(t *lockkey.Target) *control.Reply {
	s := q.s
	owner := q.owns(t)
	if !owner {
		if _, err := s.Engine.MayLock(q.c, t, lockmgr.Exclusive); err != nil {
			return refused(control.NotAllowed, err.Error())
		}
	}
	out := &control.Reply{OK: true}
	for end := time.Now().Add(workPatience); ; time.Sleep(workPoll) {
		rep, atWork := q.stealNow(t, owner, out)
		if rep == nil {
			break
		}
		if !atWork || !time.Now().Before(end) {
			return rep
		}
	}
	if owner && q.r.Force {
		out.Stolen += q.turnAway(t)
	}
	return out
}

// A holder that is about to finish what it has the lock for, a commit above all, ends the lock
// by itself, and nobody may come in between: the thief waits for that.
const (
	workPatience = 2 * time.Second
	workPoll     = 10 * time.Millisecond
)

// stealNow takes away what can be taken now, and counts that in out. If something is in the way
// it returns the refusal, and whether that is a holder at work.
func (q *query) stealNow(t *lockkey.Target, owner bool, out *control.Reply) (rep *control.Reply, atWork bool) {
	s := q.s
	hs := s.Table.Holders(s.Engine.Keys(t))
	for i := range hs {
		h := &hs[i]
		if labelOf(h) == nil && q.r.Force {
			continue // take finds it at work
		}
		if !q.r.Force || !h.Stale && !(owner && q.isAnothers(h)) && !q.isOrphaned(h) {
			return q.inTheWay(h, t), false
		}
		if err := q.maySteal(h); err != nil {
			return refused(control.NotAllowed, err.Error()), false
		}
	}
	var n int
	var busy *lockmgr.Holder
	s.Engine.Steal(q.c, func() { n, busy = q.take(hs, owner) })
	out.Stolen += n
	if busy != nil {
		return q.inTheWay(busy, t), true
	}
	if out.Stolen == 0 && len(hs) == 0 {
		out.Warning = "nothing is locked"
	}
	return nil, false
}

// take takes the locks away that are stale, and for the owner of what they are on those of
// other users. It returns how many those were, and a holder that is at work, if any.
func (q *query) take(hs []lockmgr.Holder, owner bool) (n int, atWork *lockmgr.Holder) {
	s := q.s
	for i := range hs {
		h := &hs[i]
		err := s.Table.Steal(h.Lock)
		switch {
		case err == nil:
		case labelOf(h) == nil:
			err = ErrAtWork
		case owner && q.isAnothers(h) || q.isOrphaned(h):
			err = s.Engine.Revoke(h)
		}
		switch {
		case err == nil:
			n++
		case errors.Is(err, ErrAtWork) && h.Lock.Held():
			atWork = h
		}
	}
	return n, atWork
}

// isOrphaned reports whether a lock is a standing claim whose holders are all dead.
func (q *query) isOrphaned(h *lockmgr.Holder) bool {
	lb := labelOf(h)
	return lb != nil && lb.Claim() != nil && q.s.Engine.IsOrphaned(lb.Claim())
}

// inTheWay refuses a theft because of a lock that is active.
func (q *query) inTheWay(h *lockmgr.Holder, t *lockkey.Target) *control.Reply {
	asked, _ := t.First()
	r := q.shown(h, asked, q.s.Views.Sight(q.v))
	x := report.Refusal{Path: r.Path, Name: r.Name, Errno: "EAGAIN", Holder: r}
	ref := &control.Refusal{Error: control.Blocked}
	describe(ref, r)
	ttl := r.TTL.Seconds()
	ref.Message, ref.TTLSeconds = x.Message(), &ttl
	if !h.Stale {
		now := !q.r.Force && (q.owns(t) && q.isAnothers(h) || q.isOrphaned(h))
		ref.Suggestion = r.HowToEnd(now, q.maySteal(h) == nil)
	}
	return &control.Reply{Refusal: ref}
}

// owns reports whether all that a target names is the requester's: its files and
// directories and, where nothing has the name, the directory. Names are root's.
func (q *query) owns(t *lockkey.Target) bool {
	if q.c.UID() == 0 {
		return true
	}
	return len(t.Names) == 0 && !slices.ContainsFunc(slices.Concat(t.Paths, t.Trees), func(p string) bool { return !q.s.Engine.Owns(q.c, p) })
}

// isAnothers reports whether a lock is that of another user.
func (q *query) isAnothers(h *lockmgr.Holder) bool {
	lb := labelOf(h)
	return lb != nil && lb.UID() != q.c.UID()
}

// turnAway ends the waits of other users' requests for what a target names: they have
// no end of their own, and keep out who comes later.
func (q *query) turnAway(t *lockkey.Target) (ended int) {
	keys, trees := q.s.Engine.Keys(t)
	for _, h := range q.s.Table.Snapshot().Waiting {
		lb := labelOf(&h)
		if lb != nil && lb.Claim() != nil && q.isAnothers(&h) && meets(&h, keys, trees) && q.s.Table.Cancel(h.Lock, denied.ErrTurnedAway) {
			ended++
		}
	}
	return ended
}

// meets reports whether a lock is on one of the keys, or on a tree above one, or on
// something in the trees.
func meets(h *lockmgr.Holder, keys, trees []lockmgr.Key) bool {
	asked := lockmgr.Holder{Keys: slices.Concat(keys, trees), Trees: trees}
	return h.Covers(asked.Keys) || asked.Covers(h.Keys)
}

// maySteal refuses to take a named lock from another user: no file says who may.
func (q *query) maySteal(h *lockmgr.Holder) error {
	lb := labelOf(h)
	if q.c.UID() == 0 || lb == nil || lb.Claim() == nil || lb.Claim().Name == "" || lb.UID() == q.c.UID() {
		return nil
	}
	return fmt.Errorf("the lock %s is another user's", lb.Claim().Name)
}
