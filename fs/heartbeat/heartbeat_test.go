package heartbeat

import (
	"errors"
	"maps"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"latchfs/lockmgr"
	"latchfs/lockmgr/proc"
)

const ttl = 3 * time.Second

// world is a lock table, some processes and an engine, all of the test's making.
type world struct {
	t     *testing.T
	table *lockmgr.Table
	heart *Heart
	done  chan struct{}

	mu      sync.Mutex // guards what follows
	procs   map[int32]*process
	looks   map[int32]int
	timed   bool // the leases have nothing to do with what their holders do
	inForce bool
	used    bool
	others  []lockmgr.Owner
	missed  []int
	stopped func() // what is called when a heartbeat is missed; or nil
}

type process struct {
	pulse    proc.Pulse
	err      error
	children []int32
	works    bool // it uses processor time all the time
}

// inWorld runs a test with virtual time.
func inWorld(t *testing.T, test func(w *world)) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t, table: lockmgr.New(lockmgr.Options{}), done: make(chan struct{}), procs: map[int32]*process{}, looks: map[int32]int{}}
		w.heart = New(Config{Engine: w, Procs: w, Table: w.table, Done: w.done})
		test(w)
		close(w.done)
		time.Sleep(2 * ttl) // the last round
	})
}

func owner(pid int32) lockmgr.Owner { return lockmgr.Owner{PID: pid, Start: uint64(pid)} }

// start makes a process that sleeps.
func (w *world) start(pid int32, children ...int32) *process {
	w.mu.Lock()
	defer w.mu.Unlock()
	p := &process{pulse: proc.Pulse{Start: uint64(pid), Threads: 1, State: 'S'}, children: children}
	w.procs[pid] = p
	return p
}

// change changes a process.
func (w *world) change(do func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	do()
}

// lease gives a process a lock with a lease.
func (w *world) lease(o lockmgr.Owner, class lockmgr.Class, key lockmgr.Key) *lockmgr.Lock {
	w.t.Helper()
	l, err := w.table.Acquire(lockmgr.Request{
		Keys: []lockmgr.Key{key}, Mode: lockmgr.Exclusive, Class: class, Range: lockmgr.Whole,
		Owner: o, NoWait: true, TTL: ttl, Now: time.Now(),
	})
	if err != nil {
		w.t.Fatal(err)
	}
	w.heart.Arm(ttl)
	return l
}

// pass lets so many heartbeats come.
func (w *world) pass(heartbeats int) {
	time.Sleep(time.Duration(heartbeats)*ttl/lockmgr.Heartbeats + time.Millisecond)
	synctest.Wait()
}

// failures are those that the engine was told of.
func (w *world) failures() []int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.missed)
}

func (w *world) want(when string, failures ...int) {
	w.t.Helper()
	if got := w.failures(); !slices.Equal(got, failures) {
		w.t.Errorf("%s: missed %v, want %v", when, got, failures)
	}
}

// Alive implements Procs.
func (w *world) Alive(o lockmgr.Owner) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	p := w.procs[o.PID]
	return p != nil && p.pulse.Start == o.Start
}

// Descendants implements Procs.
func (w *world) Descendants(pid int32) []int32 {
	w.mu.Lock()
	defer w.mu.Unlock()
	if p := w.procs[pid]; p != nil {
		return slices.Clone(p.children)
	}
	return nil
}

// Pulse implements Procs.
func (w *world) Pulse(pid int32) (proc.Pulse, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.looks[pid]++
	p := w.procs[pid]
	if p == nil {
		return proc.Pulse{}, proc.ErrGone
	}
	if p.works {
		p.pulse.CPU++
	}
	return p.pulse, p.err
}

// Timed implements Engine.
func (w *world) Timed(*lockmgr.DueLease) (timed, inForce bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.timed, w.inForce
}

// Used implements Engine.
func (w *world) Used(*lockmgr.DueLease) (bool, []lockmgr.Owner) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.used, slices.Clone(w.others)
}

// Missed implements Engine.
func (w *world) Missed(_ *lockmgr.DueLease, failed int) {
	w.mu.Lock()
	w.missed = append(w.missed, failed)
	then := w.stopped
	w.mu.Unlock()
	if then != nil {
		then()
	}
}

// A process that does nothing is alive at the first look, and not at those that follow.
// When it works again, its lease begins anew.
func TestIdleHolder(t *testing.T) {
	inWorld(t, func(w *world) {
		p := w.start(10)
		w.lease(owner(10), lockmgr.Session, "f")
		w.pass(1)
		w.want("the first look")
		w.pass(2)
		w.want("two looks later", 1, 2)
		w.change(func() { p.works = true })
		w.pass(5)
		w.want("while it works", 1, 2)
		w.change(func() { p.works = false })
		w.pass(4)
		w.want("at rest again", 1, 2, 1, 2, 3, 4)
	})
}

// Whoever is stopped or dead shows no life, at the first look neither.
func TestStoppedHolder(t *testing.T) {
	for name, change := range map[string]func(w *world){
		"stopped":          func(w *world) { w.procs[10].pulse.State = 'T' },
		"a zombie":         func(w *world) { w.procs[10].pulse.State = 'Z' },
		"gone":             func(w *world) { delete(w.procs, 10) },
		"another's number": func(w *world) { w.procs[10].pulse.Start = 11; w.procs[10].works = true },
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				w.start(10)
				w.change(func() { change(w) })
				w.lease(owner(10), lockmgr.Session, "f")
				w.pass(3)
				w.want(name, 1, 2, 3)
			})
		})
	}
}

// A lease that says itself when it ends is good without its holder, and is over though that
// works.
func TestTimedLease(t *testing.T) {
	inWorld(t, func(w *world) {
		p := w.start(10)
		w.change(func() { w.timed, w.inForce = true, true })
		w.lease(owner(10), lockmgr.Session, "f")
		w.pass(5)
		w.want("in force")
		w.change(func() { p.works, w.inForce = true, false })
		w.pass(3)
		w.want("over", 1, 2, 3)
	})
}

// A descendant that works is a sign of life of its ancestor, and so is another process
// that works under the lock.
func TestOthersWork(t *testing.T) {
	inWorld(t, func(w *world) {
		w.start(10, 20)
		child, other := w.start(20), w.start(30)
		w.change(func() { child.works = true })
		w.lease(owner(10), lockmgr.Session, "f")
		w.pass(4)
		w.want("a child works")
		w.change(func() { child.works, other.works, w.others = false, true, []lockmgr.Owner{owner(30)} })
		w.pass(4)
		w.want("another one works")
		w.change(func() { w.others = nil })
		w.pass(2)
		w.want("nobody works", 1, 2)
	})
}

// All of those who work under a lock are looked at each time: what was seen of one long
// ago says nothing.
func TestEachIsLookedAt(t *testing.T) {
	inWorld(t, func(w *world) {
		w.start(10).works = true
		w.start(30)
		w.change(func() { w.others = []lockmgr.Owner{owner(30)} })
		w.lease(owner(10), lockmgr.Session, "f")
		w.pass(3)
		w.change(func() {
			if want := map[int32]int{10: 3, 30: 3}; !maps.Equal(w.looks, want) {
				t.Errorf("looked at %v times, want %v", w.looks, want)
			}
		})
	})
}

// In one round a process is looked at once, however many locks it has.
func TestOneLookForAllLocks(t *testing.T) {
	inWorld(t, func(w *world) {
		w.start(10).works = true
		w.lease(owner(10), lockmgr.Session, "f")
		w.lease(owner(10), lockmgr.Session, "g")
		w.pass(1)
		w.change(func() {
			if w.looks[10] != 1 {
				t.Errorf("looked at %d times", w.looks[10])
			}
		})
		w.want("two locks")
	})
}

// What is done with what the lock stands for is a sign, too; then nobody is looked at.
func TestUse(t *testing.T) {
	inWorld(t, func(w *world) {
		w.change(func() { w.used = true })
		w.lease(lockmgr.Owner{Start: 1}, lockmgr.Session, "f") // of another pid namespace
		w.pass(4)
		w.want("it is used")
		w.change(func() { w.used = false })
		w.pass(3)
		w.want("it is not used", 1, 2, 3)
		w.change(func() {
			if len(w.looks) > 0 {
				t.Errorf("looked at: %v", w.looks)
			}
		})
	})
}

// A process that waits for a lock itself is alive.
func TestHolderWaits(t *testing.T) {
	inWorld(t, func(w *world) {
		w.start(10)
		w.start(20).works = true
		w.lease(owner(20), lockmgr.Session, "g")
		w.lease(owner(10), lockmgr.Session, "f")
		wait, err := w.table.Acquire(lockmgr.Request{Keys: []lockmgr.Key{"g"}, Mode: lockmgr.Exclusive, Owner: owner(10), Now: time.Now()})
		if err != nil {
			t.Fatal(err)
		}
		w.pass(4)
		w.want("it waits")
		w.table.Cancel(wait, errors.New("enough"))
		w.pass(3)
		w.want("it does not wait", 1, 2) // the first look at it
	})
}

// The lock of a descriptor outlives the process that took it.
func TestInheritedDescriptor(t *testing.T) {
	inWorld(t, func(w *world) {
		w.lease(owner(10), lockmgr.Flock, "f")
		w.pass(4)
		w.want("whoever took it is gone")
		w.start(10)
		w.pass(4)
		w.want("it lives, and does nothing", 1, 2, 3)
	})
}

// Inside execve a process shows nothing: what was seen before counts.
func TestExec(t *testing.T) {
	inWorld(t, func(w *world) {
		p := w.start(10)
		w.lease(owner(10), lockmgr.Session, "f")
		w.pass(1)
		w.change(func() { p.err = proc.ErrBusy })
		w.pass(2)
		w.want("in execve", 1, 2)
		w.change(func() { p.err = nil })
		w.pass(1)
		w.want("it has not moved since", 1, 2, 3)
	})
}

// Where no lock has a lease, there is nothing to do: neither is a lock without one looked
// at, nor one that was released.
func TestNoLease(t *testing.T) {
	inWorld(t, func(w *world) {
		w.start(10)
		w.heart.Arm(0)
		if w.heart.timer != nil {
			t.Error("there is a timer")
		}
		l := w.lease(owner(10), lockmgr.Session, "f")
		w.table.Release(l)
		w.pass(4)
		w.want("released")
		w.heart.mu.Lock()
		defer w.heart.mu.Unlock()
		if !w.heart.next.IsZero() {
			t.Error("a round is due")
		}
	})
}

// A lease that begins later, and is shorter, is looked at in its own time.
func TestShorterLease(t *testing.T) {
	inWorld(t, func(w *world) {
		w.start(10).works = true
		w.heart.Arm(time.Hour)
		w.lease(owner(10), lockmgr.Session, "f")
		w.pass(1)
		w.change(func() {
			if w.looks[10] != 1 {
				t.Errorf("looked at %d times", w.looks[10])
			}
		})
	})
}

// The engine may ask for heartbeats while it is told of one: what it does about a theft
// may take a lease.
func TestArmedInARound(t *testing.T) {
	inWorld(t, func(w *world) {
		w.start(10).pulse.State = 'T'
		w.change(func() { w.stopped = func() { w.heart.Arm(ttl) } })
		w.lease(owner(10), lockmgr.Session, "f")
		w.pass(3)
		w.want("armed", 1, 2, 3)
	})
}

// After the end there are no more rounds.
func TestEnd(t *testing.T) {
	inWorld(t, func(w *world) {
		w.start(10).pulse.State = 'T'
		w.lease(owner(10), lockmgr.Session, "f")
		w.pass(1)
		close(w.done)
		w.pass(4)
		w.want("after the end", 1)
		w.done = make(chan struct{})
	})
}

// What is seen of processes is forgotten with them, and after an hour without a question.
func TestForgotten(t *testing.T) {
	inWorld(t, func(w *world) {
		w.start(10).works = true
		w.start(20).works = true
		f, g := w.lease(owner(10), lockmgr.Session, "f"), w.lease(owner(20), lockmgr.Session, "g")
		w.pass(2)
		seen := func() int {
			w.heart.round.Lock()
			defer w.heart.round.Unlock()
			return len(w.heart.seen)
		}
		if n := seen(); n != 2 {
			t.Errorf("%d processes are remembered, want 2", n)
		}
		w.change(func() { delete(w.procs, 20) })
		w.pass(1)
		if n := seen(); n != 1 {
			t.Errorf("%d processes are remembered, want the one that lives", n)
		}
		w.table.Release(f)
		w.table.Release(g)
		w.start(30).works = true
		w.lease(owner(30), lockmgr.Session, "h")
		time.Sleep(keepUnasked + 2*ttl)
		synctest.Wait()
		if n := seen(); n != 1 {
			t.Errorf("%d processes are remembered after an hour, want 1", n)
		}
	})
}
