package rewalk

import (
	"sync"
	"sync/atomic"
	"time"

	"latchfs/lockmgr/proc"
)

// The operations that are promises of a kind. Of any other name the promise is for the
// request that was answered, and comes with that.
const (
	Stale = "stale" // any: it was merely told to walk again
	Wait  = "wait"  // a place in a queue that a signal has interrupted
)

const (
	// KeptFor bounds how long what was prepared for a repeated call survives when the
	// call is not repeated, and so how long a thread may be on its way.
	KeptFor = 5 * time.Second
	// staleFor is how long a caller who was merely told to walk again is expected, if its
	// system call cannot be seen.
	staleFor = 200 * time.Millisecond
	// waitFor is how long the place of an interrupted call is kept.
	waitFor = time.Second
	// missingFor is how long a name that is gone stays reserved for a thread that has just
	// found that out: if it creates the file, it does so at once.
	missingFor = 200 * time.Millisecond
	// sweepPeriod is how often threads with a promise are looked at.
	sweepPeriod = 25 * time.Millisecond
)

// Thread is the caller of a request.
type Thread interface {
	// Thread is its id, 0 for one of another pid namespace, and when it started, in clock
	// ticks since the boot.
	Thread() (tid int32, start uint64)
	// Syscall is the system call that sent the request, false if it cannot be seen.
	Syscall() (proc.Call, bool)
}

// Promise is what every entry of a Table begins with. P is a name.
type Promise[P comparable] struct {
	Op string
	At [2]P // the names of the operation; most have one
	// Unparked: the thread has what it needs, and is not parked on its way.
	Unparked bool

	tid   int32
	start uint64
	call  proc.Call // the system call, if it is known
	since time.Time

	// Guarded by Table.mu.
	until  time.Time
	busy   bool // a request of the thread works on it
	parked bool // the thread was parked for it
	looked bool // the first name was looked up since
}

// Promised is the promise itself, for Entry.
func (p *Promise[P]) Promised() *Promise[P] { return p }

// Since is when it was made.
func (p *Promise[P]) Since() time.Time { return p.since }

// Looked reports whether the first name was looked up since. The entry was removed.
func (p *Promise[P]) Looked() bool { return p.looked }

// IsBusy reports whether a request of the thread works on it, for Table.All.
func (p *Promise[P]) IsBusy() bool { return p.busy }

// isOver reports whether a thread that is in the system call now has left the one for
// which the promise was made.
func (p *Promise[P]) isOver(now proc.Call, known bool) bool {
	return known && p.call != (proc.Call{}) && p.call != now
}

// Entry is what a Table holds: a pointer to something that has a Promise.
type Entry[P comparable] interface {
	comparable
	Promised() *Promise[P]
}

// Engine is what a Table stands on.
type Engine[W any] interface {
	// Entered is told of every entry, and Left when it is in the table no more.
	Entered(w W)
	Left(w W)
	// Abandon gives back what is reserved for a thread that does not come for it.
	Abandon(w W)
	// Thread and Syscall tell of a thread, whatever it does: see Process and Syscall of *proc.Reader.
	Thread(tid uint32) (proc.Thread, error)
	Syscall(tid uint32) (proc.Call, bool)
}

// Table has the promises of all threads. The zero value of W is no entry.
type Table[P comparable, W Entry[P]] struct {
	engine Engine[W]
	n      atomic.Int32
	wake   chan struct{} // starts the sweeper

	mu   sync.Mutex // guards m and late, and the entries
	m    map[int32]W
	late map[int32]lateThread[P] // by their ids
	lags atomic.Int32            // how many are late
}

// New makes an empty Table.
func New[P comparable, W Entry[P]](e Engine[W]) *Table[P, W] {
	return &Table[P, W]{engine: e, m: map[int32]W{}, late: map[int32]lateThread[P]{}, wake: make(chan struct{}, 1)}
}

// Len is how many entries there are.
func (t *Table[P, W]) Len() int { return int(t.n.Load()) }

// Any reports cheaply whether there is an entry at all.
func (t *Table[P, W]) Any() bool { return t.n.Load() > 0 }

// Put enters w for the caller's system call, in the place of what the thread may have left
// behind.
func (t *Table[P, W]) Put(c Thread, w W) {
	p := w.Promised()
	p.tid, p.start = c.Thread()
	p.call, _ = c.Syscall()
	p.since = time.Now()
	switch {
	case p.Op == Wait:
		p.until = p.since.Add(waitFor)
	case p.Op == Stale && p.call == (proc.Call{}):
		p.until = p.since.Add(staleFor) // otherwise the sweeper sees that the call is over
	default:
		p.until = p.since.Add(KeptFor)
	}
	t.mu.Lock()
	old, had := t.m[p.tid]
	t.m[p.tid] = w
	if !had {
		t.n.Add(1)
	}
	t.forgetLateLocked(p.tid)
	t.mu.Unlock()
	t.engine.Entered(w)
	if had {
		t.engine.Left(old)
		t.engine.Abandon(old)
	}
	select {
	case t.wake <- struct{}{}:
	default:
	}
}

// Get is the entry of the calling thread, the zero value if there is none. An entry of an
// earlier thread with the same id, or of an earlier system call, is abandoned.
func (t *Table[P, W]) Get(c Thread) (w W) {
	var none W
	tid, start := c.Thread()
	if tid == 0 || !t.Any() {
		return none
	}
	if w = t.Of(tid); w == none {
		return none
	}
	p := w.Promised()
	if p.start != start || p.Op != Wait && p.isOver(c.Syscall()) {
		t.Drop(w)
		return none
	}
	return w
}

// Of is the entry of a thread id, whosever that is by now.
func (t *Table[P, W]) Of(tid int32) W {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.m[tid]
}

// Take removes and returns the caller's entry for an operation on the names. One for
// something else is of an abandoned call.
func (t *Table[P, W]) Take(c Thread, op string, at [2]P) (w W) {
	var none W
	if w = t.Get(c); w == none {
		return none
	}
	if p := w.Promised(); p.Op != op || p.At != at {
		t.Drop(w)
		return none
	}
	if !t.Remove(w) {
		return none
	}
	return w
}

// Repeated reports whether the caller's system call was told to walk again already, as far
// as that can be seen before its names are compared: they may lead elsewhere the second
// time. Whoever was merely told to walk again was so once, and whoever is late until it is
// answered.
func (t *Table[P, W]) Repeated(c Thread) bool {
	var none W
	w, repeated := t.repeated(c)
	if w != none && w.Promised().Op == Stale && !t.Remove(w) {
		return false
	}
	return repeated
}

// IsRepeated is Repeated before the last time that a request asks: the answer is the same then.
func (t *Table[P, W]) IsRepeated(c Thread) bool {
	_, repeated := t.repeated(c)
	return repeated
}

// repeated is Repeated with the caller's entry, which stays.
func (t *Table[P, W]) repeated(c Thread) (w W, repeated bool) {
	var none W
	if w = t.Get(c); w == none {
		return none, t.IsLate(c)
	}
	p := w.Promised()
	if p.Op == Wait {
		return w, false // that one was ended, not repeated
	}
	if _, known := c.Syscall(); known && p.call != (proc.Call{}) {
		return w, true
	}
	return w, time.Since(p.since) < staleFor // the kernel repeats it at once
}

// PlaceOf removes and returns the place in a queue that the caller left because of a
// signal, if it is for these names.
func (t *Table[P, W]) PlaceOf(c Thread, at [2]P) (w W) {
	var none W
	if w = t.Get(c); w == none {
		return none
	}
	if p := w.Promised(); p.Op != Wait || p.At != at || !t.Remove(w) {
		return none
	}
	return w
}

// Has reports whether the caller's entry is for an operation on the names, or the caller is
// late: its system call is being repeated.
func (t *Table[P, W]) Has(c Thread, op string, at [2]P) bool {
	var none W
	w := t.Get(c)
	if w == none {
		return t.IsLate(c)
	}
	return w.Promised().Op == op && w.Promised().At == at
}

// Remove takes w out of the table; false if somebody else did. What is reserved for it is
// the caller's.
func (t *Table[P, W]) Remove(w W) bool { return t.removeIf(w, func() bool { return true }) }

// Drop removes w and abandons it.
func (t *Table[P, W]) Drop(w W) {
	if t.Remove(w) {
		t.engine.Abandon(w)
	}
}

// removeIf removes w if it is in the table still, and something is so under the mutex.
func (t *Table[P, W]) removeIf(w W, is func() bool) bool {
	tid := w.Promised().tid
	t.mu.Lock()
	if t.m[tid] != w || !is() {
		t.mu.Unlock()
		return false
	}
	delete(t.m, tid)
	t.n.Add(-1)
	t.mu.Unlock()
	t.engine.Left(w)
	return true
}

// LookedUp notes that a thread has looked a name up, whatever that led to: whoever then
// opens a file that has just lost this name did not come by a descriptor.
func (t *Table[P, W]) LookedUp(tid uint32, name P) {
	if !t.Any() {
		return
	}
	var none W
	t.mu.Lock()
	defer t.mu.Unlock()
	if w := t.m[int32(tid)]; w != none && w.Promised().At[0] == name {
		w.Promised().looked = true
	}
}

// Hasten says that the thread of an entry has found its name to be gone: it comes at once, or
// not at all. Where the call can be seen, the sweeper sees when it is over, however long that
// takes. Nothing changes unless is, called with the mutex held, says so.
func (t *Table[P, W]) Hasten(c Thread, w W, is func() bool) {
	p := w.Promised()
	if call, known := c.Syscall(); known && p.call == call {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if soon := time.Now().Add(missingFor); is() && soon.Before(p.until) {
		p.until = soon
	}
}

// Update changes what an entry holds beside its promise.
func (t *Table[P, W]) Update(w W, change func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	change()
}

// Arrive notes that the walk has come to its name, if is, which may look at the entry, says
// that it leads on.
func (t *Table[P, W]) Arrive(w W, is func() bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if is() {
		w.Promised().looked = true
	}
}

// All are the entries of which is, called with the mutex held, is true.
func (t *Table[P, W]) All(is func(W) bool) []W {
	t.mu.Lock()
	defer t.mu.Unlock()
	var out []W
	for _, w := range t.m {
		if is(w) {
			out = append(out, w)
		}
	}
	return out
}
