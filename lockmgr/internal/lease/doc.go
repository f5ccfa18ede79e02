// Package lease says when the lease of a lock has expired. It is pure: it has no clock,
// and whether a holder lives comes in.
//
// A lease is kept up by heartbeats. One is due in each third of its TTL, and either
// finds the holder alive or fails. When three in a row have failed the lease has
// expired. A sign of life makes it active again.
//
//	         alive              failed             failed            failed
//	active ────────> active    active ───> active ───────> active ────────> expired
//	                                                         ▲                 │
//	                                                         └─────alive───────┘
//
// A lease counts failed heartbeats and looks at no clock: a machine that was
// suspended, or a daemon that was stopped, has missed heartbeats, but none has
// failed, and every holder has its whole TTL to show itself again.
//
// Nothing here has a mutex; that of the lock table guards it.
package lease
