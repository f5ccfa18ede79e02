package ctl

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"latchfs/fs/account"
	"latchfs/fs/lockkey"
	"latchfs/lockmgr"
	"latchfs/lockmgr/proc"
)

// Claims are all locks taken through the control file.
type Claims struct {
	engine Engine
	procs  Procs
	table  lockmgr.Authority
	book   *account.Book
	epoch  string
	done   <-chan struct{}

	serial atomic.Uint64
	n      atomic.Int32 // claims
	fences atomic.Int32

	mu      sync.Mutex // guards what follows
	all     map[uint64]*Claim
	keepers map[lockmgr.Owner]*keeper
	stolen  map[uint64]*lockmgr.Holder // claims whose lock was stolen
}

// keeper holds the locks that belong to a process and not to a descriptor.
type keeper struct {
	owner lockmgr.Owner
	locks map[uint64]*Claim
	quit  chan struct{} // closed when the last lock is gone
	dead  bool
}

func newClaims(c *Config) *Claims {
	return &Claims{
		engine: c.Engine, procs: c.Procs, table: c.Table, book: c.Book, epoch: c.Epoch, done: c.Done,
		all: map[uint64]*Claim{}, keepers: map[lockmgr.Owner]*keeper{}, stolen: map[uint64]*lockmgr.Holder{},
	}
}

// Count is how many claims there are.
func (cs *Claims) Count() int { return int(cs.n.Load()) }

// Enter notes the lock of a claim, which is held or waits. HoldPaths is in force, so that
// the claim is known when a directory above next gets another name.
func (cs *Claims) Enter(cl *Claim, l *lockmgr.Lock) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	cl.lock = l
	if cs.all[cl.no] == nil {
		cs.all[cl.no] = cl
		cs.n.Add(1)
	}
}

// forget drops a claim without a lock.
func (cs *Claims) forget(cl *Claim) {
	cs.mu.Lock()
	_, known := cs.all[cl.no]
	delete(cs.all, cl.no)
	if k := cl.keeper; k != nil {
		delete(k.locks, cl.no)
		if len(k.locks) == 0 && cs.keepers[k.owner] == k {
			delete(cs.keepers, k.owner)
			close(k.quit)
		}
	}
	if cs.stolen[cl.no] != nil {
		delete(cs.stolen, cl.no)
		cs.fences.Add(-1)
	}
	cost := cl.cost
	cl.cost = 0
	cs.mu.Unlock()
	cs.book.Give(cl.By.UID(), cost)
	if known {
		cs.n.Add(-1)
	}
}

// release gives the locks of claims back, and notes it when all are free: with
// many of them the notes take longer, and somebody may wait for the last.
func (cs *Claims) release(claims ...*Claim) (released int) {
	for _, cl := range claims {
		if t := cl.Txn(); t != nil {
			t.Rollback("its lock was given back without a decision")
			t.Forget()
		}
	}
	return cs.end(claims...)
}

// end is release of claims that are no transactions.
func (cs *Claims) end(claims ...*Claim) (released int) {
	ended := claims[:0:0]
	owners := make([]lockmgr.Owner, 0, len(claims))
	for _, cl := range claims {
		l := cs.LockOf(cl)
		held, owner := l.Held(), l.Owner()
		cs.table.Release(l)
		cs.forget(cl)
		if held {
			ended, owners = append(ended, cl), append(owners, owner)
		}
	}
	now := time.Now()
	for i, cl := range ended {
		if cl.since.IsZero() {
			continue // nobody was told that it was acquired
		}
		cs.engine.Tell("lock_released", cl, owners[i], map[string]any{
			"request_id": cl.ID(), "held_duration_seconds": now.Sub(cl.since).Round(time.Millisecond).Seconds(),
			"result": "success",
		})
	}
	return len(ended)
}

// Drop releases a claim before its conversation ends. It is false if the claim had
// lost its lock.
func (cs *Claims) Drop(cl *Claim) bool {
	if cl.cv != nil {
		cl.cv.disown(cl)
	}
	return cs.release(cl) > 0
}

// ByID finds a claim by what programs call it, nil if there is none.
func (cs *Claims) ByID(id string) *Claim {
	no, ok := noOf(cs.epoch, id)
	if !ok {
		return nil
	}
	cs.mu.Lock()
	defer cs.mu.Unlock()
	return cs.all[no]
}

// keep makes a claim a process's: it ends with a release or with the process.
func (cs *Claims) keep(cl *Claim, o lockmgr.Owner) error {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	k := cs.keepers[o]
	if k != nil && k.dead {
		return proc.ErrGone
	}
	if k == nil {
		dead, stop, err := cs.procs.Watch(o)
		if err != nil {
			return err
		}
		k = &keeper{owner: o, locks: map[uint64]*Claim{}, quit: make(chan struct{})}
		cs.keepers[o] = k
		go cs.attend(k, dead, stop)
	}
	cl.keeper = k
	k.locks[cl.no] = cl
	return nil
}

// attend releases a process's locks at its end.
func (cs *Claims) attend(k *keeper, dead <-chan struct{}, stop func()) {
	defer stop()
	select {
	case <-dead:
		cs.mu.Lock()
		k.dead = true // whoever comes now is too late
		cs.mu.Unlock()
		cs.release(cs.kept(k)...)
	case <-k.quit:
	case <-cs.done:
	}
}

func (cs *Claims) kept(k *keeper) []*Claim {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	out := make([]*Claim, 0, len(k.locks))
	for _, cl := range k.locks {
		out = append(out, cl)
	}
	return out
}

// keeps reports whether a claim is one of ofOwner.
func (cs *Claims) keeps(o lockmgr.Owner, cl *Claim) bool {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	k := cs.keepers[o]
	return k != nil && k.locks[cl.no] == cl
}

// ofOwner are the claims that belong to a process and to no conversation.
func (cs *Claims) ofOwner(o lockmgr.Owner) []*Claim {
	cs.mu.Lock()
	k := cs.keepers[o]
	cs.mu.Unlock()
	if k == nil {
		return nil
	}
	return cs.kept(k)
}

// Note remembers that a process has joined a claim: what it does shows that the
// claim is in use.
func (cs *Claims) Note(cl *Claim, o lockmgr.Owner) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if !slices.Contains(cl.heirs, o) {
		alive := slices.DeleteFunc(cl.heirs, func(o lockmgr.Owner) bool { return !cs.procs.Alive(o) })
		cl.heirs = append(alive, o)
	}
}

// JoinedBy are the processes that have joined a claim.
func (cs *Claims) JoinedBy(cl *Claim) []lockmgr.Owner {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	return slices.Clone(cl.heirs)
}

// LockOf is the claim's lock; who waits and has to ask anew gets another one.
func (cs *Claims) LockOf(cl *Claim) *lockmgr.Lock {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	return cl.lock
}

// Fence keeps the descendants of a claim, whose lock h was stolen, from what it was on:
// they believe that it is still theirs. It lasts until the claim is given back.
func (cs *Claims) Fence(cl *Claim, h *lockmgr.Holder) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if cs.all[cl.no] == cl && cs.stolen[cl.no] == nil {
		if t := cl.Txn(); t != nil {
			go t.Rollback("its lock was stolen")
		}
		cs.stolen[cl.no] = cl.fence(h)
		cs.fences.Add(1)
	}
}

// Stolen are the stolen locks of claims that are on one of the keys.
func (cs *Claims) Stolen(keys []lockmgr.Key) []lockmgr.Holder {
	if cs.fences.Load() == 0 {
		return nil
	}
	cs.mu.Lock()
	defer cs.mu.Unlock()
	var out []lockmgr.Holder
	for _, h := range cs.stolen {
		if h.Covers(keys) {
			out = append(out, *h)
		}
	}
	return out
}

// Follow gives the claims, those that wait among them, the paths that moved makes of
// those that they are on, and keeps the fences of stolen ones around them. No path is
// used meanwhile: whoever renames a directory excludes HoldPaths.
func (cs *Claims) Follow(moved func(path string) string) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	for no, cl := range cs.all {
		if !cl.follow(moved) {
			continue
		}
		if h := cs.stolen[no]; h != nil {
			cs.stolen[no] = cl.fence(h)
		}
	}
}

// shrink leaves a claim only rest of what it is on, with the keys in keep. It is false if
// the lock is not held any more, or is about to change.
func (cs *Claims) shrink(cl *Claim, rest lockkey.Target, keep []lockmgr.Key) bool {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	gone := slices.DeleteFunc(cl.lock.Keys(), func(k lockmgr.Key) bool { return slices.Contains(keep, k) })
	if !cs.table.Shrink(cl.lock, gone) {
		return false
	}
	cl.setTarget(rest)
	return true
}
