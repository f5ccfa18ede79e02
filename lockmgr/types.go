package lockmgr

import (
	"fmt"
	"time"

	"latchfs/lockmgr/internal/keytree"
	"latchfs/lockmgr/internal/rules"
)

// Key names one lockable thing. It is opaque but for one property: '/'
// separates components, so that RenameTrees can move a key with everything below it.
// The table compares keys byte by byte and cleans nothing.
type Key = keytree.Key

// Package rules decides by these, and documents them.
type (
	// Mode is the strength of a lock.
	Mode = rules.Mode
	// Class says by which rules a lock is compared with others.
	Class = rules.Class
	// Owner identifies a process.
	Owner = rules.Owner
	// Birth is a moment in the life of the machine.
	Birth = rules.Birth
	// Ancestor is one ancestor of a requester.
	Ancestor = rules.Ancestor
	// Range is a range of bytes, both ends included, counted from 0.
	Range = rules.Range
)

// The modes, the weakest first, and the classes.
const (
	Shared    = rules.Shared
	Update    = rules.Update
	Exclusive = rules.Exclusive

	Session = rules.Session
	Flock   = rules.Flock
	Posix   = rules.Posix
)

// Whole is the range of a whole file, however long it grows.
var Whole = rules.Whole

// Request asks for a lock. The table copies Keys; Lineage and Label it keeps,
// so the caller does not change them afterwards.
type Request struct {
	Keys    []Key      // taken all or nothing; in any order, repetitions allowed; exactly one for Flock and Posix
	Trees   []Key      // further keys, each with everything below it; Session only
	Mode    Mode       // Flock and Posix know Shared and Exclusive only
	Class   Class      // by which rules it conflicts
	Client  uint64     // Flock: the open file description; Posix: the lock owner; Session: 0
	Range   Range      // Posix: which bytes, within Whole
	Owner   Owner      // the requesting process
	Lineage []Ancestor // its ancestors, nearest first
	Since   Birth      // the moment of the request; descendants born after it are heirs of the lock
	NoWait  bool       // fail with ErrWouldBlock instead of waiting

	// Gate is a lock that lets heirs in, but not side by side: those who do not
	// wait for it wait for each other. A lock with Trees is one.
	Gate bool
	// Weak is the lock of a process that could not keep others out by itself, for
	// it may only read. It is advisory: see package rules.
	Weak bool
	// TTL is the lease: how long the holder may show no sign of life before
	// the lock can be stolen. 0: it cannot.
	TTL time.Duration
	// Yields lets whoever waits take the lock when its lease has expired.
	Yields bool
	// Steal takes the lock from holders whose lease has expired, now or while
	// the request waits, if all who are in the way are such.
	Steal bool
	// Inbox is told when a wait is over; nil: Lock.Done alone tells.
	Inbox *Inbox

	Now   time.Time // the time of the request, for records only
	Label any       // opaque, handed back in snapshots
}

func (r *Request) validate() error {
	switch {
	case len(r.Keys)+len(r.Trees) == 0:
		return fmt.Errorf("%w: no keys", ErrInvalid)
	case r.Mode < Shared || r.Mode > Exclusive:
		return fmt.Errorf("%w: mode %d", ErrInvalid, r.Mode)
	case r.Class > Posix:
		return fmt.Errorf("%w: class %d", ErrInvalid, r.Class)
	case r.Owner == Owner{}:
		return fmt.Errorf("%w: no owner", ErrInvalid)
	case r.Class == Session:
		return nil
	case len(r.Keys) != 1 || len(r.Trees) > 0:
		return fmt.Errorf("%w: a %v lock on %d keys", ErrInvalid, r.Class, len(r.Keys)+len(r.Trees))
	case r.Mode == Update:
		return fmt.Errorf("%w: %v knows no update locks", ErrInvalid, r.Class)
	case r.Class == Posix && !r.Range.IsValid():
		return fmt.Errorf("%w: range %d-%d", ErrInvalid, r.Range.Start, r.Range.End)
	}
	return nil
}
