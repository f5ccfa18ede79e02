// Package load is what the client processes of the bench do: which operations are
// measured, what files they need, how they are repeated, and how long they took. A
// client knows where the files are and whether a close commits there; what is mounted,
// how often it is measured and what the times are compared with is none of its business.
//
// # Works and curves
//
// A Work is one operation that is repeated until a budget of time is spent, a Curve a
// work at several points of what grows. Both are made ready in the client, untimed. The
// files that they use MakeFixtures and MakeArchive have made before, below all mounts.
//
// # A client
//
// The controlling process starts the same program with Spec.Args; Main does there what
// these say. They talk in lines:
//
//	client      ready                the work is prepared and warmed up
//	controller  go
//	client      a Result, as JSON    or at any time instead of ready, with Err
//
// Of a pair, the holder and the waiter of a lock, each has the other at the end of the
// pipes that are its descriptors 3 (to read) and 4 (to write).
//
// A client of LockArgs does one Order after the other, each a line of JSON, and answers
// each with an Answer, until its input ends.
//
// A client has one thread that counts, and no garbage collector; it has no mutex. All
// times are nanoseconds of CLOCK_MONOTONIC, one clock for all processes.
package load
