// Package places knows where locks stand, and who is in whose way there. It is pure: what
// a lock is besides, when one is granted and who comes next, its user says.
//
// A lock has a place at each of its keys, which is among the holders of the key or in its
// queue:
//
//	Ground   Key -> Node      Held:    Place ─ Place            as granted
//	                          Waiting: Place ─ Place ─ Place    by rank
//	                            │
//	Stand    of one lock  ── First, Also ──  its places, in no order
//
// # Tree locks
//
// A tree lock and a lock further down conflict, though they share no key. So that they
// meet all the same, a lock also has a place at each key above its own where there is a
// tree lock: an intention, as data bases call it, which meets tree locks and nothing else.
// As long as a key has no tree lock, nobody has an intention there, and whoever takes no
// tree lock pays for none. Intentions come and go with the tree locks, and with the names
// of keys; a user sees them as places and need not care.
//
// # Who is in whose way
//
// A lock that asks waits for a holder when their terms conflict (see package rules) and
// they meet at a key; but not when both are guests of one session that is held there. In
// a queue it stands behind those with whom it conflicts, and lets one past all the same
// that waits for a weak lock for which it does not wait itself: a session that queued
// behind a flock would wait for a weak lock if that flock does. So where a weak lock is, a
// change matters to others than those who wait there: see Ground.Touch.
//
// # What changes
//
// All that makes room is told to two functions that its user gives to New: a node whose
// queue may have somebody to serve is touched, and where a holder has left, or become
// weaker, its kin may have lost a shelter. They are called in the midst of a change and do
// no more than note it. Whoever is served then, its user says: nobody is made a holder
// but by Hold, nor made to wait but by Enqueue.
//
// A Ground has no mutex; its user's guards it, and all that stands there.
package places
