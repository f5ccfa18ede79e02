package fs

import (
	"encoding/json"
	"errors"
	"time"

	"golang.org/x/sys/unix"

	"latchfs/fs/control"
	"latchfs/fs/denied"
	"latchfs/fs/lockkey"
	"latchfs/fs/locksdir"
	"latchfs/lockmgr"
)

// refusal is the answer to a request that did not get its lock.
func (q *query) refusal(cl *claim, err error, waited time.Duration) *control.Reply {
	f := q.f
	x := locksdir.Refusal{Path: cl.label.where(), Name: cl.label.name, Operation: cl.label.op, Reason: denied.Reason(err)}
	word := control.Blocked
	var dead *lockmgr.DeadlockError
	switch {
	case errors.As(err, &dead):
		word, x.Errno = control.Deadlock, "EDEADLK"
	case errors.Is(err, denied.ErrFenced):
		word, x.Errno = control.Fenced, "EBUSY"
	case errors.Is(err, denied.ErrShutdown):
		word, x.Errno = control.Unavailable, "EBUSY"
	case errors.Is(err, denied.ErrTimeout):
		x.Errno, x.Wait = "EBUSY", waited
	default:
		x.Errno = "EAGAIN"
	}
	ref := &control.Refusal{Error: word}
	var shown *locksdir.Record
	if word == control.Blocked || word == control.Deadlock {
		defer q.noteRefusal(cl, &x, denied.Reason(err))
	}
	if hs := denied.Holders(err); len(hs) > 0 {
		whole := cl.target()
		x.Path, x.Name = f.contendedOf(&whole, &hs[0])
		r := f.record(&hs[0], lockkey.ShownAt(&hs[0], x.Path))
		x.Holder, x.Reason = &r, denied.BesidesHolder(err)
		v := q.viewer()
		shown = r.ShownInTheWay(x.Path, v, f.source.Sight(v))
		q.describe(ref, shown)
	}
	told := x
	told.Holder = shown
	ref.Message = told.Message()
	switch {
	case errors.Is(err, denied.ErrShutdown):
		ref.Message = f.shutdownNotice()
	case errors.Is(err, denied.ErrTurnedAway):
		ref.Message = x.Path + x.Name + ": " + err.Error()
	}
	if ref.Suggestion == "" {
		ref.Suggestion = told.Advice()
	}
	return &control.Reply{Refusal: ref}
}

// noteRefusal keeps the refusal of a lock for .locks/why and the audit trail, as that
// of an open is kept.
func (q *query) noteRefusal(cl *claim, x *locksdir.Refusal, reason string) {
	f, c := q.f, q.c
	errno := unix.EAGAIN
	switch x.Errno {
	case "EBUSY":
		errno = unix.EBUSY
	case "EDEADLK":
		errno = unix.EDEADLK
	}
	r := refusal{
		path: x.Path, name: x.Name, op: cl.label.op, errno: errno, wait: x.Wait, reason: x.Reason,
		holder: x.Holder, owner: c.owner, uid: c.uid, lineage: c.ancestors(),
	}
	f.explain(r)
	f.refusalEvent(&r, &cl.label, c, reason)
}

// describe says who is in the way, in the words of requirements T5 and T7.
func (q *query) describe(ref *control.Refusal, r *locksdir.Record) {
	b, err := json.Marshal(r.Refused(time.Now()))
	if err != nil {
		return
	}
	word := ref.Error
	if json.Unmarshal(b, ref) == nil && word != control.Blocked {
		ref.Error = word
	}
}

// contendedOf is the first of several things that the holder keeps from who asks
// for them.
func (f *FS) contendedOf(t *lockkey.Target, h *lockmgr.Holder) (path, name string) {
	for _, one := range t.Each() {
		keys, trees := f.keysOfTarget(&one)
		asked := lockmgr.Holder{Keys: append(keys, trees...), Trees: trees}
		if h.Covers(asked.Keys) || asked.Covers(h.Keys) {
			return one.First()
		}
	}
	return t.First()
}
