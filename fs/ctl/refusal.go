package ctl

import (
	"encoding/json"
	"errors"
	"time"

	"golang.org/x/sys/unix"

	"latchfs/fs/control"
	"latchfs/fs/denied"
	"latchfs/fs/lockkey"
	"latchfs/fs/report"
	"latchfs/lockmgr"
)

// refusal is the answer to a request that did not get its lock.
func (q *query) refusal(cl *Claim, err error, waited time.Duration) *control.Reply {
	s := q.s
	x := report.Refusal{Path: cl.Where(), Name: cl.Name, Operation: cl.Op, Reason: denied.Reason(err)}
	word := control.Blocked
	errno := unix.EAGAIN
	var dead *lockmgr.DeadlockError
	switch {
	case errors.As(err, &dead):
		word, errno = control.Deadlock, unix.EDEADLK
	case errors.Is(err, denied.ErrFenced):
		word, errno = control.Fenced, unix.EBUSY
	case errors.Is(err, denied.ErrShutdown):
		word, errno = control.Unavailable, unix.EBUSY
	case errors.Is(err, denied.ErrTimeout):
		errno, x.Wait = unix.EBUSY, waited
	}
	x.Errno = unix.ErrnoName(errno)
	ref := &control.Refusal{Error: word}
	var shown *report.Record
	if hs := denied.Holders(err); len(hs) > 0 {
		whole := cl.Target()
		x.Path, x.Name = s.contended(&whole, &hs[0])
		r := s.Engine.Record(&hs[0], lockkey.ShownAt(&hs[0], x.Path))
		x.Holder, x.Reason = &r, denied.BesidesHolder(err)
		v := q.viewer()
		shown = r.ShownInTheWay(x.Path, v, s.Views.Sight(v))
		describe(ref, shown)
	}
	told := x
	told.Holder = shown
	ref.Message = told.Message()
	switch {
	case errors.Is(err, denied.ErrShutdown):
		ref.Message = s.Engine.Notice()
	case errors.Is(err, denied.ErrTurnedAway):
		ref.Message = x.Path + x.Name + ": " + err.Error()
	}
	if ref.Suggestion == "" {
		ref.Suggestion = told.Advice()
	}
	if word == control.Blocked || word == control.Deadlock {
		s.Engine.Refused(&Refusal{
			Claim: cl, By: q.c, Path: x.Path, Name: x.Name, Errno: errno, Wait: x.Wait,
			Reason: x.Reason, Full: denied.Reason(err), Holder: x.Holder,
		})
	}
	return &control.Reply{Refusal: ref}
}

// describe says who is in the way, in the words of requirements T5 and T7.
func describe(ref *control.Refusal, r *report.Record) {
	b, err := json.Marshal(r.Refused(time.Now()))
	if err != nil {
		return
	}
	word := ref.Error
	if json.Unmarshal(b, ref) == nil && word != control.Blocked {
		ref.Error = word
	}
}

// contended is the first of several things that the holder keeps from whoever asks for
// them.
func (s *Server) contended(t *lockkey.Target, h *lockmgr.Holder) (path, name string) {
	for _, one := range t.Each() {
		keys, trees := s.Engine.Keys(&one)
		if meets(h, keys, trees) {
			return one.First()
		}
	}
	return t.First()
}
