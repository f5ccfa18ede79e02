// Package describe is how the lock table tells of locks: as a Holder, which is a copy
// and may be kept, and in the errors of a lock that is refused or has ended. It is
// pure; the type of the locks themselves, L, its user knows.
//
// All errors are to be told with errors.Is and errors.As. A ConflictError is an
// ErrWouldBlock, a DeadlockError is an ErrDeadlock.
package describe
