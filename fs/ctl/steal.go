package ctl

import (
	"fmt"
	"slices"

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
	hs := s.Table.Holders(s.Engine.Keys(t))
	out := &control.Reply{OK: true}
	for i := range hs {
		if !q.r.Force || !hs[i].Stale && !(owner && q.isAnothers(&hs[i])) && !q.isOrphaned(&hs[i]) {
			return q.inTheWay(&hs[i], t)
		}
		if err := q.maySteal(&hs[i]); err != nil {
			return refused(control.NotAllowed, err.Error())
		}
	}
	s.Engine.Steal(q.c, func() { out.Stolen = q.take(hs, owner) })
	if owner && q.r.Force {
		out.Stolen += q.turnAway(t)
	}
	if out.Stolen == 0 && len(hs) == 0 {
		out.Warning = "nothing is locked"
	}
	return out
}

// take takes the locks away that are stale, and for the owner of what they are on those of
// other users. It returns how many those were.
func (q *query) take(hs []lockmgr.Holder, owner bool) (n int) {
	s := q.s
	for i := range hs {
		if s.Table.Steal(hs[i].Lock) == nil || (owner && q.isAnothers(&hs[i]) || q.isOrphaned(&hs[i])) && s.Table.Revoke(hs[i].Lock) == nil {
			n++
		}
	}
	return n
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
