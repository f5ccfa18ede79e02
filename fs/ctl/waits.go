package ctl

import (
	"time"

	"latchfs/fs/control"
	"latchfs/fs/denied"
	"latchfs/lockmgr"
)

// wait is a request that waits for its lock. There may be many: it keeps what
// the reply needs, and no more.
type wait struct {
	cv      *Conversation
	cl      *Claim
	id      string // of the request
	wait    time.Duration
	timer   *time.Timer
	holders []lockmgr.Holder // in the way when the time was over
}

func (w *wait) stop() {
	if w.timer != nil {
		w.timer.Stop()
	}
}

// wait lets a request wait for l.
func (q *query) wait(w *wait, l *lockmgr.Lock) {
	s, cv := q.s, q.cv
	cv.mu.Lock()
	if cv.closed {
		cv.mu.Unlock()
		s.Table.Cancel(l, denied.ErrInterrupted)
		s.Table.Release(l)
		s.Claims.forget(w.cl)
		return
	}
	cv.waits[l] = w
	if w.wait > 0 {
		w.timer = time.AfterFunc(w.wait, func() {
			w.holders = s.Table.Conflicts(l, 1)
			s.Table.Cancel(l, denied.ErrTimeout) // the inbox tells
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

// collect answers the requests whose wait is over.
func (cv *Conversation) collect() {
	for {
		select {
		case <-cv.gone:
			return
		case <-cv.s.Draining:
			cv.giveUp(denied.ErrShutdown)
			return
		case <-cv.inbox.Ready():
		}
		for _, l := range cv.s.Table.Collect(cv.inbox) {
			cv.settle(l)
		}
	}
}

// settle answers the request that waited for l, unless it has been answered.
func (cv *Conversation) settle(l *lockmgr.Lock) {
	cv.mu.Lock()
	w := cv.waits[l]
	if w == nil {
		cv.mu.Unlock()
		return
	}
	delete(cv.waits, l)
	cv.ending++ // a read must not find nothing to wait for before the reply is there
	cv.mu.Unlock()
	defer cv.ended()
	w.stop()
	w.over(l)
}

// ended takes back what ending was raised by.
func (cv *Conversation) ended() {
	cv.mu.Lock()
	defer cv.mu.Unlock()
	cv.ending--
	cv.changedLocked()
}

// giveUp ends all waits for a reason.
func (cv *Conversation) giveUp(cause error) {
	cv.mu.Lock()
	waits := cv.waits
	cv.waits = map[*lockmgr.Lock]*wait{}
	cv.ending++
	cv.mu.Unlock()
	defer cv.ended()
	for l, w := range waits {
		w.stop()
		w.holders = cv.s.Table.Conflicts(l, 1)
		cv.s.Table.Cancel(l, cause)
		cv.s.Table.Release(l)
		cv.s.Claims.forget(w.cl)
		cv.reply(w.id, cv.query().refusal(w.cl, &denied.Error{Cause: cause, Holders: w.holders}, w.wait))
	}
}

// over answers a request whose wait has ended.
func (w *wait) over(l *lockmgr.Lock) {
	q, s := w.cv.query(), w.cv.s
	var rep *control.Reply
	switch err := l.Err(); {
	case err != nil:
		s.Claims.forget(w.cl)
		rep = q.refusal(w.cl, &denied.Error{Cause: err, Holders: w.holdersFor(err)}, w.wait)
	case !s.Engine.Covers(l, w.cl):
		s.Table.Release(l) // a file was renamed meanwhile
		cost := w.cl.cost
		s.Claims.forget(w.cl)
		s.Book.Charge(w.cl.By.UID(), cost)
		w.cl.cost = cost
		rep = q.try(w.again(l), w.id)
	default:
		s.Engine.SettleThefts(nil)
		if err := s.Engine.Fenced(q.c, l.Keys()); err != nil {
			s.Claims.release(w.cl)
			rep = q.refusal(w.cl, err, 0)
		} else {
			rep = q.granted(w.cl)
		}
	}
	if rep != nil {
		w.cv.reply(w.id, rep)
	}
}

// again asks once more, for a claim whose lock turned out to be on other keys.
func (w *wait) again(l *lockmgr.Lock) *Ask {
	r := l.Request()
	return &Ask{
		Claim: w.cl, By: w.cv.c, Owner: r.Owner, Lineage: r.Lineage, Mode: r.Mode, Weak: r.Weak,
		Wait: w.wait, TTL: r.TTL, Yields: r.Yields, Steal: r.Steal, Inbox: w.cv.inbox,
	}
}

func (w *wait) holdersFor(err error) []lockmgr.Holder {
	if hs := denied.Holders(err); hs != nil {
		return hs
	}
	return w.holders
}
