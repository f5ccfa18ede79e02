package lockmgr

import "latchfs/lockmgr/internal/describe"

// Holder describes one lock, held or waiting, at the moment it was looked at.
type Holder = describe.Holder[Lock]

// ConflictError says who stands in the way of a NoWait request; of a great many,
// the first.
type ConflictError = describe.ConflictError[Lock]

// DeadlockError lists a cycle of waits. The first waiter is the one refused;
// the last blocker is its own, or a holder whose heir it is.
type DeadlockError = describe.DeadlockError[Lock]

// Wait is one step of a deadlock.
type Wait = describe.Wait[Lock]

// Why a lock is refused, or has ended: see Errors above.
var (
	ErrWouldBlock = describe.ErrWouldBlock
	ErrDeadlock   = describe.ErrDeadlock
	ErrInvalid    = describe.ErrInvalid
	ErrReleased   = describe.ErrReleased
	ErrReplaced   = describe.ErrReplaced
	ErrCancelled  = describe.ErrCancelled
	ErrStolen     = describe.ErrStolen
	ErrActive     = describe.ErrActive
	ErrNotHeld    = describe.ErrNotHeld
)

// maxConflicts bounds whom a ConflictError names.
const maxConflicts = 64
