package lockmgr

import (
	"errors"
	"fmt"
	"strings"
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
	// client stands: after an upgrade, a flock conversion, or a Posix lock over
	// the same bytes.
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

// maxConflicts bounds whom a ConflictError names.
const maxConflicts = 64

// ConflictError says who stands in the way of a NoWait request; of a great many,
// the first.
type ConflictError struct {
	Holders []Holder // holders first, then waiters that came earlier
}

// Error names the first in the way.
func (e *ConflictError) Error() string {
	if len(e.Holders) == 0 {
		return ErrWouldBlock.Error()
	}
	h := e.Holders[0]
	return fmt.Sprintf("%v: %s by %s", ErrWouldBlock, h.describe(), h.Owner)
}

// Is makes errors.Is(err, ErrWouldBlock) true.
func (e *ConflictError) Is(target error) bool { return target == ErrWouldBlock }

// Wait is one step of a deadlock: Waiter waits for Blocker at Key, and Blocker
// does not end before the Waiter of the next step goes on.
type Wait struct {
	Waiter, Blocker Holder
	Key             Key
}

// DeadlockError lists a cycle of waits. The first waiter is the one refused;
// the last blocker is its own, or a holder whose heir it is.
type DeadlockError struct {
	Cycle []Wait
}

// Error lists the cycle.
func (e *DeadlockError) Error() string {
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
func (e *DeadlockError) Is(target error) bool { return target == ErrDeadlock }

func (h *Holder) describe() string {
	keys := make([]string, len(h.Keys))
	for i, k := range h.Keys {
		keys[i] = fmt.Sprintf("%q", string(k))
	}
	return fmt.Sprintf("%v %v lock on %s", h.Mode, h.Class, strings.Join(keys, ", "))
}
