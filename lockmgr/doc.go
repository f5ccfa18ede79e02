// Package lockmgr is the lock table: who holds what, who waits, and who comes
// next. It is pure: requests go in, grants and refusals come out; it does no
// I/O, has no clock, starts no goroutine, and knows neither files nor FUSE.
// Timeouts, signals, leases and policy are its callers' business, who have
// Cancel and Steal for them.
//
// # Keys
//
// A lock stands on one or more keys, opaque names that different callers agree
// on. The only structure the table sees in them is the '/', for Rekey, which
// moves a key with everything below it. A key and the keys below it are
// different keys: locking a directory's name does not lock what is in it.
//
// # Who conflicts
//
// Two locks conflict at a key they share when their modes, their classes and
// their owners all say so. Modes:
//
//	            asks for
//	held        shared   update   exclusive
//	shared        +        +         -            + go together
//	update        +        -         -            - conflict
//	exclusive     -        -         -
//
// An update lock is for reading now and writing later: readers may come
// meanwhile, but no second reader that means to write.
//
// Classes, for two locks whose modes conflict:
//
//	            asks for
//	held        session        flock              posix
//	session     unless kin     unless kin         unless kin
//	flock       unless kin     other client       never
//	posix       unless kin     never              other client, bytes in common
//
// Session locks are those of latchfs. Flock and Posix locks are what programs
// take by themselves with flock(2) and fcntl(2), each on one key; among their
// own class they are told apart by client (the open file description, the lock
// owner) and by nothing else, as the manual pages say, and neither sees the
// other: "flock and fcntl locks do not interact".
//
// # Kin
//
// A requester is kin to a lock when it has the same Owner, or when it is an
// heir: a descendant whose branch of the family was born after the lock was
// asked for (Ancestor.Child is after the lock's Since). The owner is usually
// waiting for such a child, so keeping it out would be a deadlock. A parent is
// not kin to its child, nor are siblings to each other; but kin of one session
// are its guests: while a session lock is held, those who are kin to it do not
// wait for each other, except for what is stronger than the session itself.
//
// An owner with PID 0 is a process that nobody can see. It is kin to itself
// alone.
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
// addressed with Unlock and ReleaseClient.
//
// # What else happens to a held lock
//
// Upgrade replaces it with a stronger one, before all who queue at its keys;
// there is one pending upgrade for each key. Downgrade weakens it in place.
// Steal revokes it. SetOwner gives it to another process. Rekey and Exchange
// rename its keys. Where these bring together holders that conflict, both remain
// holders: what has been granted is taken back by Steal alone.
//
// # Fencing tokens
//
// Every grant has a token, greater than those of all grants before it on any
// key. Whoever lost a lock and still acts on it can be told by its token from
// the one who has it now. A downgrade, and what is left of a Posix lock that was
// split, keep the token: they are no new grant.
//
// # Layout
//
//	Table
//	  nodes    Key -> node      parents too, so that a subtree is a subtree:
//	             ""
//	             └── "d"              no locks, but "d/f" is below
//	                 └── "d/f"        held:    place ─ place
//	                                  waiting: place ─ place ─ place   by rank
//	  parties  Owner -> party   all locks of one owner
//	  held     Lock ─ Lock      in the order of the grants
//	  waiting  Lock ─ Lock      the order described above, by rank
//
//	Lock   one request      ── has a place ──   at each of its keys
//
// Acquire and Release without contention cost some hash table look-ups, whatever
// the number of locks, and no allocation but the Lock itself, or none with
// AcquireInto. A grant with others waiting at the key looks at each waiter of
// the table once.
package lockmgr
