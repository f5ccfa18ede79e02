package lockwait

import (
	"errors"
	"math"
	"time"

	"latchfs/fs/denied"
	"latchfs/lockmgr"
	"latchfs/lockmgr/proc"
)

// SignalPoll is how often a waiter that was interrupted without a reason to give up looks
// again: the kernel announces only the first signal of a wait.
const SignalPoll = 20 * time.Millisecond

// Signals tell what the signals mean that a thread has pending. See proc.Reader.Pending.
type Signals interface{ Pending(tid uint32) proc.Pending }

// A Wait is a wait of one request.
type Wait struct {
	Table   lockmgr.Authority
	Signals Signals
	Thread  uint32          // whose signals end it
	Class   lockmgr.Class   // of the lock
	Limit   time.Duration   // how long the request may wait, in all its waits; 0 or less: for ever
	Until   *time.Time      // the end of that, which the first wait sets
	Stop    <-chan struct{} // closed when those who wait are to give up
	Cancel  <-chan struct{} // closed at the first signal
	Keep    bool            // interrupted, it stays in the queue
	Again   bool            // the program tries again what a stop has interrupted
}

// Names are the names that a lock is on.
type Names interface {
	// Moves returns a channel that is closed when an owner next renames the file that it
	// is writing: whoever waits for the old name has nothing to wait for then.
	Moves() <-chan struct{}
	// Covers reports whether a lock is still the one that the request needs.
	Covers(l *lockmgr.Lock) bool
}

// IsGranted reports whether a lock is held or, if it is a program's own, has had its grant,
// whatever has become of it: its client's other threads may have replaced or undone it.
func IsGranted(l *lockmgr.Lock, c lockmgr.Class) bool {
	return l.Held() || hadGrant(l, c)
}

func hadGrant(l *lockmgr.Lock, c lockmgr.Class) bool { return c != lockmgr.Session && l.Token() != 0 }

// Lock waits until a lock is granted, or does not cover the names any more.
func (w *Wait) Lock(l *lockmgr.Lock, on Names) error {
	moved := on.Moves()
	if IsGranted(l, w.Class) {
		return nil
	}
	end := w.begin()
	defer end.stop()
	for {
		err := end.wait(l.Done(), moved)
		switch {
		case errors.Is(err, errMoved):
			if !on.Covers(l) {
				return nil
			}
			moved = on.Moves()
		case errors.Is(err, denied.ErrInterrupted) && w.Keep:
			return err
		case err != nil:
			return w.GiveUp(l, err)
		default:
			return w.told(l)
		}
	}
}

// told is the end of a wait of which the lock table has told.
func (w *Wait) told(l *lockmgr.Lock) error {
	if err := l.Err(); err != nil && !hadGrant(l, w.Class) {
		return err
	}
	select {
	case <-w.Stop: // the grant may have come of what the stop has rolled back
		return w.GiveUp(l, denied.ErrShutdown)
	default:
		return nil
	}
}

// GiveUp leaves the queue; a grant that came at the same moment counts, unless a signal or
// a stop is the cause.
func (w *Wait) GiveUp(l *lockmgr.Lock, cause error) error {
	holders := w.Table.Conflicts(l, math.MaxInt)
	if !w.Table.Cancel(l, cause) {
		<-l.Done()
		held, counts := l.Held(), cause != denied.ErrInterrupted && cause != denied.ErrShutdown
		if held && counts || hadGrant(l, w.Class) && (cause != denied.ErrShutdown || !held) {
			return nil
		}
		w.Table.Release(l)
	}
	return &denied.Error{Cause: cause, Holders: holders}
}

// For waits until over is closed. Its errors are those of a wait for a lock, without
// holders.
func (w *Wait) For(over <-chan struct{}) error {
	end := w.begin()
	defer end.stop()
	return end.wait(over, nil)
}

// errMoved ends a wait because a file has been renamed.
var errMoved = errors.New("a file was renamed")

// ending is what may end a wait, beside that for which it waits.
type ending struct {
	*Wait
	cancel <-chan struct{} // nil when it was closed
	limit  *time.Timer     // nil: it waits for ever
	poll   *time.Ticker    // for signals, after the first one
}

func (w *Wait) begin() *ending {
	e := &ending{Wait: w, cancel: w.Cancel}
	if w.Limit > 0 {
		if w.Until.IsZero() {
			*w.Until = time.Now().Add(w.Limit)
		}
		e.limit = time.NewTimer(time.Until(*w.Until))
	}
	return e
}

func (e *ending) stop() {
	if e.limit != nil {
		e.limit.Stop()
	}
	if e.poll != nil {
		e.poll.Stop()
	}
}

// wait waits until over is closed, until moved is (errMoved), or for what ends the wait.
func (e *ending) wait(over, moved <-chan struct{}) error {
	var limit, poll <-chan time.Time
	if e.limit != nil {
		limit = e.limit.C
	}
	for {
		if e.poll != nil {
			poll = e.poll.C
		}
		select {
		case <-over:
			return nil
		case <-moved:
			return errMoved
		case <-limit:
			return denied.ErrTimeout
		case <-e.Stop:
			return denied.ErrShutdown
		case <-e.cancel:
			e.cancel, e.poll = nil, time.NewTicker(SignalPoll)
			if e.Signals.Pending(e.Thread).Ends(true, e.Again) {
				return denied.ErrInterrupted
			}
		case <-poll:
			if e.Signals.Pending(e.Thread).Ends(false, e.Again) {
				return denied.ErrInterrupted
			}
		}
	}
}
