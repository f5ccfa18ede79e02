// Package owners keeps what belongs to each owner: the locks that it holds, and how many
// of it and of its descendants wait. It is pure; what a lock is, its user knows.
//
// An owner has a Party as long as it has a lock, held or waiting:
//
//	parties  Owner -> Party   all that one owner holds, the newest first
//	waiters  Owner -> int     how many wait that are it or descend from it
//
// With a long queue the count of waiters tells at once what otherwise takes a look at
// each of them: that a holder has no kin among those who wait. That is the common case,
// and then whoever comes first goes on and nothing else changes. To enter a waiter
// takes one look-up for each of its ancestors.
//
// Parties that have gone are used again, so that an owner that comes and goes needs no
// memory. An Index has no mutex; its user's guards it.
package owners
