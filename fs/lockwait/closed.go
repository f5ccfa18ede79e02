package lockwait

import (
	"errors"
	"slices"
	"time"

	"latchfs/fs/denied"
	"latchfs/lockmgr"
)

const (
	// Grace is how long RELEASE is waited for.
	Grace = 100 * time.Millisecond
	// ThreadGrace is how long a program with several threads may keep a lock for which another
	// of its threads stands in a circle of waits: a thread that does not wait may end that.
	ThreadGrace = 2 * time.Second
	// releasePoll is how often whoever waits for the end of a lock looks: nothing
	// announces it.
	releasePoll = time.Millisecond
)

// A Demand is a request that may be asked more than once.
type Demand interface {
	// Try asks the lock table for the lock, without waiting.
	Try() (*lockmgr.Lock, error)
	// Leaving reports whether all holders have closed the file or are dead, and returns
	// what tells of the end of their locks.
	Leaving(holders []lockmgr.Holder) (ends []<-chan struct{}, all bool)
	// MayHaveLeft reports whether a holder may have closed the file.
	MayHaveLeft(h *lockmgr.Holder) bool
	// MayGoOn reports whether a holder may close it although one of its threads waits.
	MayGoOn(h *lockmgr.Holder) bool
	// IsOver reports whether the program does not wait any more: a signal has come, or the
	// mount stops.
	IsOver() bool
}

// Try takes a lock that is not waited for. It waits for the RELEASE of files that their
// lockers have closed, and of those that were opened for writing, closed and not written. It
// stands in no queue meanwhile, where it would keep out others.
func Try(d Demand) (*lockmgr.Lock, error) {
	l, err := d.Try()
	if !errors.Is(err, lockmgr.ErrWouldBlock) {
		return l, err
	}
	timer := time.NewTimer(Grace)
	defer timer.Stop()
	for errors.Is(err, lockmgr.ErrWouldBlock) {
		ends, all := d.Leaving(denied.Holders(err))
		if !all {
			return nil, err
		}
		// Whoever left before the look at it announces no end any more.
		if l, err = d.Try(); !errors.Is(err, lockmgr.ErrWouldBlock) {
			break
		}
		over := !awaitAll(ends, timer.C)
		if l, err = d.Try(); over {
			break
		}
	}
	return l, err
}

// awaitAll waits for all ends; it returns false when the time is over before.
func awaitAll(ends []<-chan struct{}, over <-chan time.Time) bool {
	for _, end := range ends {
		select {
		case <-end:
		case <-over:
			return false
		}
	}
	select {
	case <-over:
		return false
	default:
		return true
	}
}

// Outlast waits for the end of a lock in a deadlock's cycle that its holder may have
// closed, until closed, or may come to close in another thread, for ThreadGrace or until
// threads. It reports whether the cycle is worth another look. It is false of any other error.
func Outlast(err error, closed, threads time.Time, d Demand) bool {
	var dead *lockmgr.DeadlockError
	if !errors.As(err, &dead) {
		return false
	}
	if soon := time.Now().Add(ThreadGrace); soon.Before(threads) {
		threads = soon
	}
	until := make([]time.Time, len(dead.Cycle))
	for i := range dead.Cycle {
		b := &dead.Cycle[i].Blocker
		if d.MayHaveLeft(b) {
			until[i] = closed
		}
		if threads.After(until[i]) && d.MayGoOn(b) {
			until[i] = threads
		}
	}
	for now := time.Now(); slices.ContainsFunc(until, now.Before) && !d.IsOver(); now = time.Now() {
		time.Sleep(releasePoll)
		for i := range until {
			if now.Before(until[i]) && !dead.Cycle[i].Blocker.Lock.Held() {
				return true
			}
		}
	}
	return false
}
