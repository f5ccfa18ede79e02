package lockmgr

import (
	"context"
	"time"

	"latchfs/lockmgr/internal/lease"
	"latchfs/lockmgr/internal/list"
	"latchfs/lockmgr/internal/places"
)

// stand is what package places knows of a lock, place is where it stands at one key, and
// node is a key with all who stand there.
type (
	stand = places.Stand[Lock]
	place = places.Place[Lock]
	node  = places.Node[Lock]
)

// Lock is one request, waiting or granted. It is made by Acquire, used by pointer and
// not copied. Its methods may be called from any goroutine. It has 352 bytes.
type Lock struct {
	t *Table // nil in the zero Lock, which was never asked for; t.mu guards what follows

	stand stand // its terms, and where it waits or is held

	steals bool // takes expired locks that are in its way
	yields bool // once expired, may be taken by whoever waits
	lease  lease.Lease

	now   time.Time
	label any

	seq  uint64 // of the arrival: smaller came earlier
	err  error
	done chan struct{} // made by Done when there is something to wait for

	inbox *Inbox

	party   *party           // the index of this owner's locks
	ofParty list.Links[Lock] // in party.held
	links   list.Links[Lock] // in t.held or t.waiting
}

// closed is what Done returns when there is nothing to wait for.
var closed = func() chan struct{} { c := make(chan struct{}); close(c); return c }()

// Done returns a channel that is closed when the wait is over: at the grant or
// the refusal. It is closed already when the lock was granted at once.
func (l *Lock) Done() <-chan struct{} {
	if l.t == nil {
		return closed
	}
	l.t.mu.Lock()
	defer l.t.mu.Unlock()
	if l.stand.State != places.Waiting {
		return closed
	}
	if l.done == nil {
		l.done = make(chan struct{})
	}
	return l.done
}

// Wait waits until the lock is granted (nil) or refused (why). When ctx ends
// first, the lock leaves the queue before Wait returns the cause; when the
// grant came at the same moment, the lock is held and Wait returns nil. On a
// lock that was never asked for it returns nil at once, as Err does: there is
// nothing to wait for, and nothing is held.
func (l *Lock) Wait(ctx context.Context) error {
	if l.t == nil {
		return nil
	}
	select {
	case <-l.Done():
	case <-ctx.Done():
		l.t.Cancel(l, context.Cause(ctx))
	}
	return l.Err()
}

// Err is nil while the lock waits or is held; afterwards it says why it is not:
// a *DeadlockError, the cause given to Cancel, ErrReleased, ErrStolen or
// ErrReplaced.
func (l *Lock) Err() error {
	if l.t == nil {
		return nil
	}
	l.t.mu.Lock()
	defer l.t.mu.Unlock()
	return l.err
}

// Held reports whether the lock is held now. It turns false at Release, at
// Steal, and when another lock of the client replaces it.
func (l *Lock) Held() bool {
	if l.t == nil {
		return false
	}
	l.t.mu.Lock()
	defer l.t.mu.Unlock()
	return l.stand.State == places.Held
}

// Token is the fencing token of the grant: a later grant of any key has a
// greater one. It is 0 before the grant and stays what it was after the end.
func (l *Lock) Token() uint64 {
	if l.t == nil {
		return 0
	}
	l.t.mu.Lock()
	defer l.t.mu.Unlock()
	return l.stand.Token
}

// Keys returns the current names of the lock's keys, sorted; after its end, the
// last ones.
func (l *Lock) Keys() []Key {
	if l.t == nil {
		return nil
	}
	l.t.mu.Lock()
	defer l.t.mu.Unlock()
	return l.stand.Keys(nil)
}

// Owner is the process that the lock belongs to.
func (l *Lock) Owner() Owner {
	if l.t == nil {
		return Owner{}
	}
	l.t.mu.Lock()
	defer l.t.mu.Unlock()
	return l.stand.Terms.Owner
}

// Request returns what was asked for, with the current keys, owner, mode and
// range; whether it was to wait is not kept.
func (l *Lock) Request() Request {
	if l.t == nil {
		return Request{}
	}
	l.t.mu.Lock()
	defer l.t.mu.Unlock()
	return Request{
		Keys: l.stand.Keys(nil), Trees: l.stand.Trees(), Gate: l.stand.Terms.Gate, Weak: l.stand.Terms.Weak, TTL: l.lease.TTL, Yields: l.yields, Steal: l.steals, Inbox: l.inbox,
		Mode: l.stand.Terms.Mode, Class: l.stand.Terms.Class, Client: l.stand.Terms.Client, Range: l.stand.Terms.Range,
		Owner: l.stand.Terms.Owner, Lineage: l.stand.Terms.Lineage, Since: l.stand.Terms.Since, Now: l.now, Label: l.label,
	}
}
