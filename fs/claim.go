package fs

import (
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"latchfs/fs/lockkey"
	"latchfs/lockmgr"
	"latchfs/lockmgr/proc"
)

// claim is a lock that was taken through the control file. It belongs to the
// conversation in which it was taken, or to a process.
type claim struct {
	label  label
	whole  atomic.Pointer[lockkey.Target] // nil: the label's path or name, as most are
	cv     *conversation                  // nil: it belongs to keeper
	keeper *keeper
	lock   *lockmgr.Lock // guarded by controls.mu
	since  time.Duration // of the mount's life, when it was granted
	// joined is the owner of an earlier lock that the requester has joined: so
	// have those whose environment names this one.
	joined *lockmgr.Ancestor
	staged bool                // it is to be a transaction
	cost   int64               // charged to the one who asked; see account
	txn    atomic.Pointer[txn] // the transaction that it is
	heirs  []lockmgr.Owner     // who has joined this one; guarded by controls.mu
}

// target is what the claim is on: a directory above may get another name at any time
// at which FS.ns is not held.
func (cl *claim) target() lockkey.Target {
	switch {
	case cl.whole.Load() != nil:
		return *cl.whole.Load()
	case cl.label.name != "":
		return lockkey.Target{Names: []string{cl.label.name}}
	}
	return lockkey.Target{Paths: []string{cl.label.path}}
}

// setTarget says what the claim is on, whose label is made already.
func (cl *claim) setTarget(t lockkey.Target) {
	one := len(t.Paths) == 1 && t.Paths[0] == cl.label.path || len(t.Names) == 1 && t.Names[0] == cl.label.name
	if t.Len() == 1 && one {
		cl.whole.Store(nil)
	} else {
		cl.whole.Store(&t)
	}
}

// keeper holds the locks that belong to a process and not to a descriptor.
type keeper struct {
	owner lockmgr.Owner
	locks map[uint64]*claim
	quit  chan struct{} // closed when the last lock is gone
	dead  bool
}

// controls are all locks taken through the control file.
type controls struct {
	f      *FS
	serial atomic.Uint64
	n      atomic.Int32 // claims
	fences atomic.Int32

	mu      sync.Mutex // guards what follows
	claims  map[uint64]*claim
	keepers map[lockmgr.Owner]*keeper
	stolen  map[uint64]*lockmgr.Holder // claims whose lock was stolen
}

func newControls(f *FS) *controls {
	return &controls{
		f: f, claims: map[uint64]*claim{}, keepers: map[lockmgr.Owner]*keeper{}, stolen: map[uint64]*lockmgr.Holder{},
	}
}

// lockID is by what a claim is known to programs.
func (f *FS) lockID(no uint64) string { return f.epoch + claimMark + strconv.FormatUint(no, 10) }

// claimMark tells the ids of claims from those of sessions.
const claimMark = "-c"

// enter notes the lock of a claim, which is held or waits. FS.ns is held, so that the
// claim is known when a directory above next gets another name.
func (cs *controls) enter(cl *claim, l *lockmgr.Lock) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	cl.lock = l
	if cs.claims[cl.label.control] == nil {
		cs.claims[cl.label.control] = cl
		cs.n.Add(1)
	}
}

// forget drops a claim without a lock.
func (cs *controls) forget(cl *claim) {
	cs.mu.Lock()
	no := cl.label.control
	_, known := cs.claims[no]
	delete(cs.claims, no)
	if k := cl.keeper; k != nil {
		delete(k.locks, no)
		if len(k.locks) == 0 && cs.keepers[k.owner] == k {
			delete(cs.keepers, k.owner)
			close(k.quit)
		}
	}
	if cs.stolen[no] != nil {
		delete(cs.stolen, no)
		cs.fences.Add(-1)
	}
	cost := cl.cost
	cl.cost = 0
	cs.mu.Unlock()
	cs.f.book.Give(cl.label.c.uid, cost)
	if known {
		cs.n.Add(-1)
	}
}

// release gives the locks of claims back, and notes it when all are free: with
// many of them the notes take longer, and somebody may wait for the last.
func (cs *controls) release(claims ...*claim) (released int) {
	ended := claims[:0:0]
	owners := make([]lockmgr.Owner, 0, len(claims))
	for _, cl := range claims {
		if t := cl.txn.Load(); t != nil {
			t.rollback("its lock was given back without a decision")
			t.forget()
		}
		l := cs.lockOf(cl)
		held, owner := l.Held(), l.Owner()
		cs.f.table.Release(l)
		cs.forget(cl)
		if held {
			ended, owners = append(ended, cl), append(owners, owner)
		}
	}
	now := time.Since(cs.f.source.started)
	for i, cl := range ended {
		cs.f.leaseEvent("lock_released", &cl.label, owners[i], map[string]any{
			"request_id": cl.label.id(), "held_duration_seconds": (now - cl.since).Round(time.Millisecond).Seconds(),
			"result": "success",
		})
	}
	return len(ended)
}

// replace gives a claim another lock in place of its own. It is false if the claim
// is gone.
func (cs *controls) replace(cl *claim, l *lockmgr.Lock) bool {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if cs.claims[cl.label.control] != cl {
		return false
	}
	cl.lock = l
	return true
}

// drop releases a claim before its conversation ends. It is false if the claim had
// lost its lock.
func (cs *controls) drop(cl *claim) bool {
	if cl.cv != nil {
		cl.cv.mu.Lock()
		delete(cl.cv.locks, cl.label.control)
		cl.cv.mu.Unlock()
	}
	return cs.release(cl) > 0
}

// byID finds a claim by what programs call it.
func (cs *controls) byID(id string) *claim {
	no, ok := strings.CutPrefix(id, cs.f.epoch+claimMark)
	if !ok {
		return nil
	}
	n, err := strconv.ParseUint(no, 10, 64)
	if err != nil {
		return nil
	}
	return cs.get(n)
}

func (cs *controls) get(no uint64) *claim {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	return cs.claims[no]
}

// keep makes a claim a process's: it ends with a release or with the process.
func (cs *controls) keep(cl *claim, o lockmgr.Owner) error {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	k := cs.keepers[o]
	if k != nil && k.dead {
		return proc.ErrGone
	}
	if k == nil {
		dead, stop, err := cs.f.proc.Watch(o)
		if err != nil {
			return err
		}
		k = &keeper{owner: o, locks: map[uint64]*claim{}, quit: make(chan struct{})}
		cs.keepers[o] = k
		go cs.attend(k, dead, stop)
	}
	cl.keeper = k
	k.locks[cl.label.control] = cl
	return nil
}

// attend releases a process's locks at its end.
func (cs *controls) attend(k *keeper, dead <-chan struct{}, stop func()) {
	defer stop()
	select {
	case <-dead:
		cs.mu.Lock()
		k.dead = true // whoever comes now is too late
		cs.mu.Unlock()
		cs.release(cs.kept(k)...)
	case <-k.quit:
	case <-cs.f.done:
	}
}

func (cs *controls) kept(k *keeper) []*claim {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	out := make([]*claim, 0, len(k.locks))
	for _, cl := range k.locks {
		out = append(out, cl)
	}
	return out
}

// keeps reports whether a claim is one of ofOwner.
func (cs *controls) keeps(o lockmgr.Owner, cl *claim) bool {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	k := cs.keepers[o]
	return k != nil && k.locks[cl.label.control] == cl
}

// ofOwner are the claims that belong to a process and to no conversation.
func (cs *controls) ofOwner(o lockmgr.Owner) []*claim {
	cs.mu.Lock()
	k := cs.keepers[o]
	cs.mu.Unlock()
	if k == nil {
		return nil
	}
	return cs.kept(k)
}

// note remembers that a process has joined a claim: what it does shows that the
// claim is in use.
func (cs *controls) note(cl *claim, o lockmgr.Owner) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if !slices.Contains(cl.heirs, o) {
		alive := slices.DeleteFunc(cl.heirs, func(o lockmgr.Owner) bool { return !cs.f.proc.Alive(o) })
		cl.heirs = append(alive, o)
	}
}

// joinedBy are the processes that have joined a claim.
func (cs *controls) joinedBy(no uint64) []lockmgr.Owner {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if cl := cs.claims[no]; cl != nil {
		return slices.Clone(cl.heirs)
	}
	return nil
}

// lockOf is the claim's lock; a change of its mode puts another in its place.
func (cs *controls) lockOf(cl *claim) *lockmgr.Lock {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	return cl.lock
}
