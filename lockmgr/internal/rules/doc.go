// Package rules decides whether two locks conflict at a key that they share. It is
// pure: it knows the terms of two locks, and neither keys nor queues. Where locks
// stand, and whether they meet there at all, the lock table knows.
//
// Two locks conflict when their modes, their classes and their owners all say so.
//
// # Modes
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
// # Classes
//
// For two locks whose modes conflict:
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
// wait for each other, except for what is stronger than the session itself. A
// gate is a session lock that has heirs but no guests: they pass it and wait for
// each other.
//
// An owner with PID 0 is a process that nobody can see. It is kin to itself
// alone.
//
// # Weak locks
//
// A weak lock is that of a process that may only read what it locks. On a plain
// filesystem such a lock binds those who ask for the same kind of lock, and nobody
// else: a process that opens the file to write it does not notice. So it is here. A
// weak lock and a session do not wait for each other; a weak lock, and any other
// that a program has asked for by itself, do: a flock for a flock, an fcntl lock for
// an fcntl lock, a gate for a gate.
package rules
