package transaction

import (
	"slices"
	"sync"
	"sync/atomic"

	"latchfs/lockmgr"
)

// Config is what a transaction begins with.
type Config struct {
	Engine  Engine
	Store   Store
	ID      uint64 // the token of its claim, so never used again
	Label   string // by what programs know the claim
	UID     uint32 // whose transaction it is
	Owner   lockmgr.Owner
	Lineage []lockmgr.Ancestor
	Since   lockmgr.Birth // descendants of the owner that were born after it are members
}

// state is where a transaction is in its life; see the package comment.
type state int32

const (
	open state = iota
	deciding
	committed
	rolledBack
)

// Txn is a transaction: everything that its members write is staged, shown to them alone,
// and published as a whole or not at all.
type Txn struct {
	c     Config
	state atomic.Int32 // a state; changed with mu held
	lost  atomic.Bool  // a lock of its was stolen

	mu     sync.Mutex      // guards what follows, and is held by each change of names
	locks  []*lockmgr.Lock // on names that were changed
	reason string          // why it is over
}

// New begins a transaction.
func New(c Config) *Txn { return &Txn{c: c} }

// Engine is what the transaction was begun with.
func (t *Txn) Engine() Engine { return t.c.Engine }

// ID is the number of the transaction, which no other one gets.
func (t *Txn) ID() uint64 { return t.c.ID }

// Label is by what programs know the transaction.
func (t *Txn) Label() string { return t.c.Label }

// Owner is the process that has begun the transaction.
func (t *Txn) Owner() lockmgr.Owner { return t.c.Owner }

// Since is the moment after which the descendants of the owner are born that are members.
func (t *Txn) Since() lockmgr.Birth { return t.c.Since }

// Forebears are whose locks do not keep a member out that asks in the transaction's name:
// those of the transaction's ancestors, and what the member or the processes between have
// locked themselves, with flock(2) for instance.
func (t *Txn) Forebears(member lockmgr.Ancestor, up []lockmgr.Ancestor) []lockmgr.Ancestor {
	return slices.Concat([]lockmgr.Ancestor{member}, up, t.c.Lineage)
}

// IsOver reports whether nothing is staged any more.
func (t *Txn) IsOver() bool { return t.is() >= committed }

// TakesFiles reports whether a file may become the transaction's: nobody would end one that
// comes when the others are decided.
func (t *Txn) TakesFiles() bool { return t.is() == open }

func (t *Txn) is() state { return state(t.state.Load()) }

// become is the only way from one state to another. t.mu is held.
func (t *Txn) become(next state) { t.state.Store(int32(next)) }

// Lose notes that a lock of the transaction was stolen, so that it cannot be committed.
func (t *Txn) Lose() { t.lost.Store(true) }

// Lock keeps a change of names apart from others, and from the end of the transaction.
func (t *Txn) Lock() { t.mu.Lock() }

// TryLock is Lock if nobody else has called that, and reports whether it is. It is for tests.
func (t *Txn) TryLock() bool { return t.mu.TryLock() }

// Unlock ends what Lock or TryLock began.
func (t *Txn) Unlock() { t.mu.Unlock() }

// KeepLocked holds a lock until the transaction ends, if it has not. The caller has called
// Lock.
func (t *Txn) KeepLocked(l *lockmgr.Lock) {
	if t.IsOver() {
		t.c.Engine.Release(l)
		return
	}
	t.locks = append(t.locks, l)
}
