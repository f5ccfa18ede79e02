// Package lockwait waits for locks that the lock table has not granted, and says what ends
// such a wait. It has no state and no mutex: the request and its lock are the caller's.
//
//	nil                     the lock is granted, or its file has another name: the caller
//	                        looks whether the lock is what the request needs
//	the error of the lock   the lock table has refused it, or somebody has ended the wait
//	denied.ErrTimeout       the request has waited as long as it may
//	denied.ErrInterrupted   a signal has come
//	denied.ErrShutdown      the mount stops
//
// The last three come with those who were in the way (denied.Error), and the request has
// left the queue. A request that keeps its place alone is interrupted where it stands
// (Wait.Keep), for its program goes on in the same place when it tries again.
//
// # Signals
//
// The kernel announces the first signal of a wait (Wait.Cancel), whatever it is, and no
// other one. Whether a signal ends the wait is seen by what the thread has pending: not
// those that programs take in passing. From the first one on it is looked at each
// SignalPoll. Nothing pending means the freezer right after the announcement, and later that
// another thread took the signal. A stop (Ctrl-Z) ends the wait only of a program that tries
// again afterwards (Wait.Again): no program tries a rename(2) again. It stops when its wait is
// over.
//
// # A grant in the same moment
//
// The lock may be granted while a request gives up (GiveUp). After a timeout the grant
// counts. After a signal, and when the mount stops, it does not, and the lock is released.
// But a program's own lock has replaced or grown into others of its client when it was
// granted, so that it cannot be taken back: it counts, unless the mount stops and the lock
// is held.
//
// # Holders that have gone
//
// RELEASE, which ends a lock, comes when close(2) has returned. Whoever tries for a lock that
// another program has just given up, by close or exit, expects to get it: Try waits for the
// end of locks whose holders have left. A deadlock may be none for the same reason: the
// holder has closed the file, and waits for something else by now; or it has other threads
// than the one that waits, and one of them is about to close it. Outlast says whether one
// of its locks has ended.
package lockwait
