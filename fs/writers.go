package fs

import (
	"slices"

	"latchfs/fs/denied"
	"latchfs/fs/holders"
	"latchfs/lockmgr"
)

// This file finds out who can still write the shadow of a session.

// busyLocked reports whether somebody still has the shadow open for writing or mapped. If a
// process other than its owner has, the session is that process's from now on. Where nobody
// has it open, dying are those of the holder set who are being killed: whether they had is
// not known yet.
func (lk *locks) busyLocked(s *session, by *holders.Closer) (busy bool, dying []lockmgr.Owner) {
	if len(s.handles) == 0 {
		return lk.mappedLocked(s), nil
	}
	if s.hasUnclosedLocked() {
		return true, nil
	}
	found := s.holders.Find(s.who.Load().Owner(), by)
	if found.Next != (lockmgr.Owner{}) {
		lk.handToLocked(s, found.Next)
	}
	return found.Held, found.Dying
}

// hasUnclosedLocked reports whether the shadow is open through a handle of which the kernel has
// told of no close yet. s.mu is held.
func (s *session) hasUnclosedLocked() bool {
	for h := range s.handles {
		if !h.flushed {
			return true
		}
	}
	return false
}

// handToLocked makes another process the owner.
func (lk *locks) handToLocked(s *session, o lockmgr.Owner) {
	next := s.who.Load().PassedTo(o, lk.callers.proc)
	s.holders.Note(o)
	s.who.Store(next)
	lk.rules.table.SetOwner(s.lock, next.Owner(), next.Since())
}

// leftToHeirs is how many sessions in the way of a lock joinLeft looks at: those who hold
// the names, of which an operation has two at most, come first.
const leftToHeirs = 4

// joinLeft makes the demand that of an heir where a session is in the way that the caller's
// family has left to a descendant: the lock table knows the descendant alone. l is the lock
// that waits, or err says what is in the way. It reports whether there is such a session
// that the demand did not have yet.
func (lk *locks) joinLeft(d *demand, l *lockmgr.Lock, err error) (news bool) {
	if d.owner != nil || d.class != lockmgr.Session {
		return false
	}
	holders := denied.Holders(err)
	if err == nil {
		holders = lk.rules.table.Conflicts(l, leftToHeirs)
	}
	for i := range holders {
		lb, _ := holders[i].Label.(*label)
		if lb == nil || lb.session.Load() == nil {
			continue
		}
		id := lb.session.Load().who.Load()
		isKnown := func(a lockmgr.Ancestor) bool { return a.Owner == id.Owner() }
		if !d.c.BelongsTo(id.From()) || slices.ContainsFunc(d.left, isKnown) {
			continue
		}
		d.left = append(d.left, lockmgr.Ancestor{Owner: id.Owner(), Child: lk.callers.proc.Now()})
		news = true
	}
	return news
}

// mappedLocked reports whether somebody still has the shadow mapped although
// all descriptors are closed, as a passthrough mapping does not keep the
// handle open.
func (lk *locks) mappedLocked(s *session) bool {
	return lk.disk.passthrough && s.holders.IsMapped()
}
