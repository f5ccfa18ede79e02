// Package report says what is known of locks, in records for programs and in sentences
// for people: who holds a lock, who waits for it, who was refused and what to do then.
// `.locks/`, the answers on `.locks/control`, the log and the commands all say it in
// the same words, for they are written here.
//
// It is pure: it renders values that others have filled in. It does no I/O and has no
// mutex; the time at which something is rendered comes with it. It knows neither the
// lock table nor the journal nor how `.locks/` is laid out, but for the name of a
// lock's record, which advice mentions. Nothing that it writes is read back by latchfs:
// the records are views (SEED T12).
//
// # What is rendered
//
//	Record           a lock, held or waited for
//	  AppendHolders  the lock/v1 records of those who hold one (SEED T3), as one object
//	  AppendQueue    those who wait for one, an object a line, next in turn first
//	  AppendLock     the answer to "is it locked" (SEED W8), on one line
//	  Refused        the answer to a request that it keeps out (SEED T5, T7)
//	Status           all of them, at one moment
//	  Text           the table that a person wants
//	  JSON           the same for programs: AppendLock of each that is held
//	Refusal          an operation that was refused
//	  Message        what was refused, and who was in the way (SEED C7, W7)
//	  Advice         what to do
//	Why              a list of refusals, a paragraph each
//
// When several holders share a lock, the object of AppendHolders is the record of the
// one with the lowest token, and its "co_holders" are those of the others. What a lock
// covers is its "scope": "file" the one path, "tree" a directory and everything below
// it (PATH/** in text), "name" nothing but the name itself (name:NAME in text). "file"
// is the file that it was taken for and "key" its name in the lock table, each only
// where it is not the path.
//
// # Who sees what
//
// A Viewer is told of a path what its Sight allows; a nil Sight allows everything.
// Record.ShownTo is the record as a viewer may see it: others' labels, command lines
// and working directories are shown to their own user, and to privileged viewers.
// Refusals are filtered by whoever keeps them; where a lock on something hidden is in
// the way, Record.ShownInTheWay tells no more than that somebody is.
//
// # Text
//
// Everything goes through package printable, so that no name and no command line
// reaches a terminal as it is. A "lock_name", a "file" and a "key" that are not UTF-8
// have their raw bytes beside them in "lock_name_base64" and so on. A heartbeat changes
// no size of what AppendHolders renders: times have a fixed width.
package report
