package lockmgr

import (
	"sync"
	"sync/atomic"

	"latchfs/lockmgr/internal/lease"
	"latchfs/lockmgr/internal/list"
	"latchfs/lockmgr/internal/owners"
	"latchfs/lockmgr/internal/places"
	"latchfs/lockmgr/internal/ranks"
	"latchfs/lockmgr/internal/rules"
	"latchfs/lockmgr/internal/turns"
)

// Options configures a Table.
type Options struct {
	// FirstToken is the first fencing token to hand out; 0 means 1. A caller
	// that wants tokens to rise over restarts passes one that was never used.
	FirstToken uint64
}

// Table is a lock table. Its methods may be called from any goroutine; each is
// one atomic step.
//
// Mutex order: Table.mu is the only mutex of the package, and a leaf: while it
// is held the table calls nothing outside the package, blocks on nothing, and
// wakes waiters only after it has recorded what they are woken for. Callers may
// hold mutexes of their own.
type Table struct {
	mu sync.Mutex

	// Everything below is guarded by mu.

	ground *places.Ground[Lock]         // every key with a lock
	owners *owners.Index[Lock, ofParty] // every owner with a lock

	held    list.List[Lock, inTable]  // in the order of the grants
	waiting ranks.List[Lock, inTable] // in the order of the queues
	token   uint64
	seq     uint64
	clock   lease.Clock
	version atomic.Uint64 // also read without mu
	thefts  atomic.Uint64 // likewise

	dirty    []*node  // wait queues that may have someone to serve
	touched  uint64   // how often a node was touched
	turn     []*Lock  // scratch space of handOver
	lapsed   int      // holders whose lease has expired
	stolen   []Holder // for Stolen
	fresh    []*Lock  // holders since the order was last looked at
	suspects []*Lock  // waiters whose place in the order may be wrong
	newcomer *Lock    // the waiter that has just come
	sorted   uint64   // the token when the order was last looked at
	search   turns.Search[Lock, place]

	spareSuspects []*Lock
}

// New returns an empty table.
func New(o Options) *Table {
	t := &Table{owners: owners.New[Lock, ofParty]()}
	t.ground = places.New(t.touch, t.weaken)
	t.token = max(o.FirstToken, 1) - 1
	return t
}

// Version is a number that rises whenever Snapshot would answer differently, apart
// from the times of heartbeats.
func (t *Table) Version() uint64 { return t.version.Load() }

// Acquire asks for a lock. It is granted at once (Held) or waits in the queue
// of every key (then Done tells when the wait is over); an error means that it
// is neither: ErrInvalid, a *ConflictError when NoWait was asked for, or a
// *DeadlockError when the wait would never end.
func (t *Table) Acquire(r Request) (*Lock, error) {
	if err := r.validate(); err != nil {
		return nil, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	l := newLock(t, &r)
	converts := l.stand.Terms.Class == Flock && t.convert(l, r.Keys[0])
	if err := t.enter(l, converts, r.NoWait); err != nil {
		return nil, err
	}
	return l, nil
}

// newLock makes a lock of the table; it stands nowhere yet.
func newLock(t *Table, r *Request) *Lock {
	l := &Lock{t: t, steals: r.Steal, yields: r.Yields, lease: lease.Lease{TTL: r.TTL}, inbox: r.Inbox, now: r.Now, label: r.Label}
	l.stand = stand{Lock: l, Terms: rules.Terms{
		Mode: r.Mode, Class: r.Class, Client: r.Client, Range: r.Range, Gate: r.Gate || len(r.Trees) > 0, Weak: r.Weak,
		Owner: r.Owner, Lineage: r.Lineage, Since: r.Since,
	}}
	if r.Class != Posix {
		l.stand.Terms.Range = Whole
	}
	l.stand.SetKeys(r.Keys, r.Trees)
	return l
}

// enter grants a new lock, lets it wait, or ends it. A lock that converts another one of
// its owner is granted.
//
// A lock with noWait must not change the order of the waiters. So it enters the queue only if
// no holder blocks it: then it depends on nobody, and lead, which may put it before waiters
// that it conflicts with, moves nothing else along with it.
func (t *Table) enter(l *Lock, converts, noWait bool) error {
	t.seq++
	l.seq = t.seq
	t.join(l)
	t.ground.Stand(&l.stand)
	if victims := l.prey(); len(victims) > 0 {
		t.ground.Leave(&l.stand)
		t.robAll(victims)
		t.settle()
		t.ground.Stand(&l.stand)
	}
	blocked := l.stand.IsBlocked()
	switch {
	case converts || !blocked && !l.stand.IsBehind():
		t.grant(l)
		if l.lease.TTL != 0 && !l.lease.HasBegun() {
			l.lease.Start(t.clock.Tick(l.now))
		}
	case blocked && noWait:
		t.end(l, &ConflictError{Holders: l.blockers(maxConflicts)})
	default:
		l.stand.Trial = noWait
		t.enqueue(l)
	}
	t.settle()
	l.stand.Trial = false
	if l.stand.State == places.Waiting && noWait {
		t.end(l, &ConflictError{Holders: l.blockers(maxConflicts)})
		t.settle()
	}
	if l.stand.Token != 0 {
		return nil // even if another thread's flock has replaced it since
	}
	return l.err
}

// enqueue lets l wait at each of its keys, behind all others as yet.
func (t *Table) enqueue(l *Lock) {
	t.waiting.Append(l)
	t.owners.CountWaiter(&l.stand.Terms, 1)
	t.ground.Enqueue(&l.stand)
	t.suspects, t.newcomer = append(t.suspects, l), l
}

// Cancel takes a waiting lock out of the queue before it returns, with cause as
// its Err (nil: ErrCancelled). It returns false, and does nothing, when the
// wait is over already.
func (t *Table) Cancel(l *Lock, cause error) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if l.t != t || l.stand.State != places.Waiting {
		return false
	}
	if cause == nil {
		cause = ErrCancelled
	}
	t.end(l, cause)
	t.settle()
	return true
}

// Release ends a lock, held or waiting, with ErrReleased as its Err, and hands its
// keys over. Releasing a lock that has ended, or was never asked for, does nothing.
func (t *Table) Release(l *Lock) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if l.t != t || l.stand.State == places.Nowhere {
		return
	}
	t.end(l, ErrReleased)
	t.settle()
}
