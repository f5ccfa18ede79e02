package describe

import (
	"errors"
	"fmt"
	"strings"

	"latchfs/lockmgr/internal/keytree"
)

var (
	// ErrWouldBlock refuses a NoWait request that would have to wait. It comes
	// as a *ConflictError.
	ErrWouldBlock = errors.New("lock would block")
	// ErrDeadlock refuses a request that would wait for ever. It comes as a
	// *DeadlockError.
	ErrDeadlock = errors.New("deadlock")
	// ErrInvalid refuses a request that makes no sense.
	ErrInvalid = errors.New("invalid lock request")
	// ErrReleased is the Err of a lock that was released.
	ErrReleased = errors.New("lock released")
	// ErrReplaced is the Err of a lock in whose place another one of the same
	// client stands: after a flock conversion, or a Posix lock over the same bytes.
	ErrReplaced = errors.New("lock replaced")
	// ErrCancelled is the Err of a waiter cancelled without a cause.
	ErrCancelled = errors.New("lock request cancelled")
	// ErrStolen is the Err of a lock that was stolen after its lease expired.
	ErrStolen = errors.New("lock stolen")
	// ErrActive refuses to steal a lock whose lease has not expired.
	ErrActive = errors.New("lock is active")
	// ErrNotHeld refuses to steal what is not held.
	ErrNotHeld = errors.New("lock is not held")
)

// ConflictError says who stands in the way of a NoWait request; of a great many,
// the first.
type ConflictError[L any] struct {
	Holders []Holder[L] // holders first, then waiters that came earlier
}

// Error names the first in the way.
func (e *ConflictError[L]) Error() string {
	if len(e.Holders) == 0 {
		return ErrWouldBlock.Error()
	}
	h := e.Holders[0]
	return fmt.Sprintf("%v: %s by %s", ErrWouldBlock, h.describe(), h.Owner)
}

// Is makes errors.Is(err, ErrWouldBlock) true.
func (e *ConflictError[L]) Is(target error) bool { return target == ErrWouldBlock }

// Wait is one step of a deadlock: Waiter waits for Blocker at Key, and Blocker
// does not end before the Waiter of the next step goes on.
type Wait[L any] struct {
	Waiter, Blocker Holder[L]
	Key             keytree.Key
}

// DeadlockError lists a cycle of waits. The first waiter is the one refused;
// the last blocker is its own, or a holder whose heir it is.
type DeadlockError[L any] struct {
	Cycle []Wait[L]
}

// Error lists the cycle.
func (e *DeadlockError[L]) Error() string {
	var b strings.Builder
	b.WriteString(ErrDeadlock.Error())
	for i, w := range e.Cycle {
		sep := ", "
		if i == 0 {
			sep = ": "
		}
		fmt.Fprintf(&b, "%s%s waits for %q of %s", sep, w.Waiter.Owner, w.Key, w.Blocker.Owner)
	}
	return b.String()
}

// Is makes errors.Is(err, ErrDeadlock) true.
func (e *DeadlockError[L]) Is(target error) bool { return target == ErrDeadlock }
