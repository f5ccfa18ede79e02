// Package denied says why somebody did not get a lock, and who was in the way. It has
// the errors that the rooms above the lock table share, and what people are told of
// them: no lock table, no I/O, no mutex.
//
// A request for a lock ends without it in one of these ways:
//
//	lockmgr.ErrWouldBlock     somebody has it, and the request does not wait
//	*lockmgr.DeadlockError    the wait would never end
//	ErrTimeout, ErrShutdown   the wait has ended
//	ErrInterrupted            a signal has ended it
//	ErrTurnedAway             the owner of the file has ended it, or root
//	ErrNotNow                 the operation is one that cannot wait
//	ErrMoved                  the lock would be that of another file by now
//	ErrFenced                 the requester works under a lock that was stolen
package denied

import (
	"errors"

	"latchfs/lockmgr"
)

// Why a request is answered without the lock.
var (
	ErrTimeout     = errors.New("lock wait timed out")
	ErrInterrupted = errors.New("lock wait interrupted by a signal")
	ErrNotNow      = errors.New("the lock is held and this operation cannot wait")
	ErrShutdown    = errors.New("latchfs is shutting down")
	ErrTurnedAway  = errors.New("the owner of the file, or root, has ended the wait")
	ErrMoved       = errors.New("the file moved away from the name")
	// ErrFenced refuses what an heir of a stolen lock wants to do under it.
	ErrFenced = errors.New("the lock under which this process works was stolen")
)

// Error is a wait that ended without the lock, and who was in the way.
type Error struct {
	Cause   error
	Holders []lockmgr.Holder
}

func (e *Error) Error() string { return e.Cause.Error() }

// Unwrap makes errors.Is find the cause.
func (e *Error) Unwrap() error { return e.Cause }

// Fenced is ErrFenced for people: Lock is the id of the lock that was stolen.
type Fenced struct{ Lock string }

func (e *Fenced) Error() string {
	return "Lock " + e.Lock + ", under which this process works, was stolen: it may not change what that covered"
}

// Is makes a Fenced an ErrFenced.
func (e *Fenced) Is(err error) bool { return err == ErrFenced }

// Hint is what to do about it.
func (e *Fenced) Hint() string {
	return "`latchfs release --lock " + e.Lock + "` ends the work under it; then take the lock again, and read the file again."
}

// Holders are those who were in the way, nil if the error does not tell.
func Holders(err error) []lockmgr.Holder {
	var le *Error
	var ce *lockmgr.ConflictError
	var de *lockmgr.DeadlockError
	switch {
	case errors.As(err, &le):
		return le.Holders
	case errors.As(err, &ce):
		return ce.Holders
	case errors.As(err, &de) && len(de.Cycle) > 0:
		return []lockmgr.Holder{de.Cycle[0].Blocker}
	}
	return nil
}

// Reason is the error for people who are told the wait beside it: of a timeout the wait
// says it all.
func Reason(err error) string {
	var dead *lockmgr.DeadlockError
	switch {
	case errors.As(err, &dead):
		return err.Error()
	case errors.Is(err, ErrTimeout):
		return ""
	}
	return err.Error()
}

// BesidesHolder is Reason for people who are shown the holder beside it.
func BesidesHolder(err error) string {
	var conflict *lockmgr.ConflictError
	if errors.As(err, &conflict) {
		return ""
	}
	return Reason(err)
}
