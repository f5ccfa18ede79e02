// Package lockmgr is the lock table: who holds what, who waits, and who comes
// next. It is pure: requests go in, grants and refusals come out; it does no
// I/O, has no clock, starts no goroutine, and knows neither files nor FUSE.
// Timeouts, signals, policy and the evidence for a heartbeat are its callers'
// business.
//
// # The life of a lock
//
// A lock is one Request and what became of it. Acquire answers at once: with an
// error, or with a Lock that is held already or waits. Wait, or Done, tells when
// the wait is over; Held and Err tell how it ended; Release gives the lock back,
// and is right in every state.
//
//	        Acquire
//	           │ refused: ErrInvalid, *ConflictError, *DeadlockError
//	   ┌───────┴────────┐
//	   ▼                ▼
//	waiting ──grant──> held
//	   │                │
//	   │ Cancel         │ Release: ErrReleased
//	   │ Release        │ a theft: ErrStolen
//	   │ a deadlock     │ another lock in its place: ErrReplaced
//	   ▼                ▼
//	       ended; Err says why
//
// The table tells who may go on; it stops nobody. A process that has died keeps
// its locks until the caller, who knows, releases them or gives them to another
// one.
//
// # Keys
//
// A lock stands on one or more keys, opaque names that different callers agree
// on. The only structure the table sees in them is the '/': "d/f" lies below "d",
// and all below the empty key, but for what begins with "//", which is apart. A
// key and the keys below it are different keys: locking a directory's name does
// not lock what is in it. A tree lock (Request.Trees) does: it conflicts with
// every lock on its key or below it, and with those tree locks above that have
// its key below. RenameTrees moves a key with everything below it.
//
// # Who conflicts
//
// Two locks conflict at a key they share when their modes, their classes and
// their owners all say so: package rules (lockmgr/internal/rules) says when, and who
// is kin to a lock, that is its owner or an heir. Kin of one session are its guests
// and do not wait for each other, but for what is stronger than the session. A gate
// has heirs but no guests; tree locks are gates. A weak lock, of a process that may
// only read, binds those alone who ask for the same. Whoever waits for a weak lock is
// passed by all who do not.
//
// # Who waits, and who comes next
//
// A lock is granted when it conflicts with no holder, and with no waiter before
// it, at any of its keys. So nobody overtakes a waiter it conflicts with: a
// reader waits behind a writer that waits, and a stream of readers cannot
// starve it. Whenever something changes, the table grants all that can be
// granted, in order, before the call returns; nothing polls. A lock on several
// keys is granted on all of them or none, holds none while it waits, and stands
// in the queue of each.
//
// A request with NoWait is granted or refused at once, as if it had come and
// given up in one moment: it is let ahead as any other, and nobody else is
// moved, woken or refused for it. (Of a flock that is converted the old lock is
// lost all the same: see Client locks.)
//
// All queues show one and the same order of waiters. It is the order of
// arrival, but for one rule: whoever depends on another stands behind it. W
// depends on V when W waits for a held lock that V holds up: V, who waits too,
// is the owner of that lock or an heir of it, so that the lock will not be
// released before V has had its turn. To let W go first would help nobody; so V
// comes first, together with what V itself depends on:
//
//	anna holds b; bert waits for both a and b; now anna asks for a, which is free.
//
//	      queue of a:  bert                     anna, bert
//	      queue of b:  bert         becomes     bert
//	      waiters:     bert, anna               anna, bert      and anna has a
//
// Two refinements. A waiter that waits for a lock of the very owner in question
// does not hold that owner up: the lock is in the hands of another thread, or
// of a parent that did not wait for its child, and will be released by itself.
// And when a waiter comes to a key, or its kin gets it, it is let ahead of
// everybody whom it conflicts with there, if it does not depend on them:
// whoever is inside a key does not queue behind those outside.
//
// # Deadlock
//
// Where the rule cannot be met, waiters depend on each other in a circle, and
// none would ever be granted. Of such a cycle the newest waiter is refused at
// once with a *DeadlockError that lists it. No cycle is ever closed by the order
// of a queue alone, for that gives way, so nobody is refused for having been
// polite. The graph spans everything that can wait, of all classes. Owners are
// processes, not threads: a process with one thread waiting counts as waiting.
//
// # Client locks
//
// A client that asks for a flock again converts the one it has. This is atomic
// when the new mode needs no wait; otherwise the old lock is removed first, and
// lost even if the new one is refused, as on Linux. A client that locks bytes it
// has locked already changes their mode: old locks end, shrink or split, and
// neighbours of the same mode become one, while a request that must wait keeps
// the old locks meanwhile, as on Linux. So the Lock that an Acquire returned for
// a client is of use until it is granted; after that, the client's locks are
// addressed with Unlock.
//
// # What else happens to a held lock
//
// Shrink takes keys away from it. SetOwner gives it to another process. RenameTrees and
// RenameFiles rename its keys. What waits in these cases is looked at anew: who was
// sheltered by a session that has gone, or has become kin to somebody, may have to
// wait for others, and a cycle that comes of it is refused like any other. Where
// these bring together holders that conflict, both remain holders: what has been
// granted is taken back by theft alone.
//
// # Leases and theft
//
// A lock with a TTL has a lease, which the caller's heartbeats keep up (Due,
// Heartbeat). When three in a row have failed the lease has expired and the lock is
// stale, until a sign of life makes it active again: see package lease
// (lockmgr/internal/lease). The table has no clock, and time in which nobody asked
// whether the holder lives does not count.
//
// A stale lock stays held until it is stolen: by Steal; by a request with Steal,
// arriving or waiting; or, if it Yields, by whoever comes to wait or waits. Thief
// or not, the next in the queue has it then: theft gives no right of way. A
// request steals all that is in its way or nothing, so it never breaks one lock
// to wait for another. An active lock is never stolen. Stolen tells the caller
// what was, for whatever follows from it.
//
// # Fencing tokens
//
// Every grant has a token, greater than those of all grants before it on any
// key. Whoever lost a lock and still acts on it can be told by its token from
// the one who has it now. What is left of a lock that has lost keys, or of a Posix
// lock that was split, keeps the token: it is no new grant. Tokens are 64 bits wide and are
// not stored: whoever wants them to rise over restarts gives New the next one.
//
// # What is promised
//
// After every call, and so at every moment that a caller can see:
//
//   - No two holders of a key conflict, but those who came as guests of one
//     session, which may have ended since, and those whom SetOwner or
//     a rename brought together.
//   - Every waiter waits for somebody: Conflicts names them, and a wake-up is
//     never lost.
//   - Nobody has been overtaken by a later one whom he conflicts with, but by
//     kin of a holder and by those on whom he depends.
//   - No waiters depend on each other in a circle.
//   - Tokens rise in the order of the grants.
//
// What is not:
//
//   - Nothing is kept over a restart.
//   - A deadlock through something that is not in the table (a pipe, a mutex, a
//     parent that waits for a child born before its lock) is not seen.
//   - Of a process with several threads, one thread that waits stands for all: a
//     cycle may be found that another thread would have broken. Whoever is refused
//     may ask again.
//   - A lock stands on its keys alone. That a directory's lock keeps others out
//     of what is in it takes a tree lock.
//
// # Errors
//
// All are to be told with errors.Is and errors.As. None is a system's errno; what
// a program sees is decided by the caller.
//
//	ErrInvalid       the request makes no sense; the table is unchanged
//	ErrWouldBlock    NoWait, and somebody is in the way: *ConflictError says who
//	ErrDeadlock      the wait would never end: *DeadlockError shows the cycle
//	ErrCancelled     Cancel without a cause of its own
//	ErrReleased      Release
//	ErrReplaced      a conversion or a client's newer lock stands there
//	ErrStolen        the lock was stolen
//	ErrActive        Steal: the lease has not expired
//	ErrNotHeld       Steal: nothing is held
//
// # Layout
//
//	Table
//	  ground   Key -> node      who holds each key, and who waits for it, by rank
//	  owners   Owner -> party   all that one owner holds, and whether kin of it waits
//	  held     Lock ─ Lock      in the order of the grants
//	  waiting  Lock ─ Lock      the order described above, by rank
//
// A Lock is one request. It has a place at each of its keys: package places
// (lockmgr/internal/places) says how locks stand there, those on trees among them,
// and who is in whose way. Here is decided who is granted, and in which order.
//
// Acquire and Release without contention cost some hash table look-ups, whatever
// the number of locks, and no allocation but the Lock itself. To wait costs some look-ups more, for each ancestor one. With n
// others waiting, a release, a grant or a cancellation costs the same, unless the
// owner of a holder has kin among those who wait anywhere, or readers or client
// locks hold the key, or several keys are handed over at once: then it looks at
// each waiter of these keys, and for kin at each of the table. To name whom a waiter
// waits for (Conflicts, and every *ConflictError) takes a description of each.
package lockmgr
