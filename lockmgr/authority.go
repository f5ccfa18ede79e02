package lockmgr

import "time"

// Authority decides about locks: who has one, who waits, and who comes next. A Table is
// that of one daemon. One that several daemons share can take its place: it promises what
// the methods of a Table do, keeps a Table of what its own processes hold and wait for, and
// shows in it what another daemon holds as a foreign owner's lock, which it releases when
// that daemon does. Whoever waits then waits for that lock, in the same queue, and is told
// of it by name.
type Authority interface {
	Granter
	Renamer
	Lessor
	Observer
}

// Granter gives locks, and takes them back.
type Granter interface {
	Acquire(r Request) (*Lock, error)
	Cancel(l *Lock, cause error) bool
	Release(l *Lock)
	Unlock(key Key, class Class, client uint64, r Range)
	Shrink(l *Lock, keys []Key) bool
	SetOwner(l *Lock, o Owner, since Birth)
}

// Renamer lets locks follow what is renamed.
type Renamer interface {
	RenameTrees(renames ...Rename)
	RenameFiles(renames ...FileRename)
}

// Lessor keeps leases, and ends locks whose holders do not live, or have to yield.
type Lessor interface {
	Due(now time.Time) (due []DueLease, next time.Time)
	Heartbeat(l *Lock, now time.Time, alive bool) (failed int)
	Steal(l *Lock) error
	Revoke(l *Lock) error
	Thefts() uint64
	Stolen() []Holder
}

// Observer tells of locks, and changes none.
type Observer interface {
	Collect(in *Inbox) []*Lock
	Conflicts(l *Lock, n int) []Holder
	Holders(keys, trees []Key) []Holder
	IsAwaited(l *Lock) bool
	Len() (held, waiting int)
	Snapshot() Snapshot
	Test(r Request) *Holder
	Version() uint64
	Waits(o Owner) bool
}

var _ Authority = (*Table)(nil)
