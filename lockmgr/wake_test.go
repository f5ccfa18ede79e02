package lockmgr

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// ask makes a request of a process that is nobody's kin.
func ask(pid int32, m Mode, keys ...Key) Request {
	return Request{Keys: keys, Mode: m, Owner: Owner{PID: pid, Start: 1}, TTL: time.Hour, Label: fmt.Sprint(pid)}
}

// must acquires a lock that is granted or queued.
func must(t testing.TB, tab *Table, r Request) *Lock {
	t.Helper()
	l, err := tab.Acquire(r)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// sound fails the test when an invariant of the table is broken.
func sound(t testing.TB, tab *Table) {
	t.Helper()
	if err := tab.CheckInvariants(); err != nil {
		t.Fatal(err)
	}
}

// empty fails the test when anything is left in the table.
func empty(t testing.TB, tab *Table) {
	t.Helper()
	sound(t, tab)
	if h, w := tab.Len(); h+w+tab.ground.Len()-2+tab.owners.Len() != 0 {
		t.Fatalf("%d held, %d waiting, %d keys, %d owners left", h, w, tab.ground.Len()-2, tab.owners.Len())
	}
}

// Two hundred waiters are woken one by one, in order, each by the release
// before it.
func TestWakeInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 200
		tab := New(Options{})
		first := must(t, tab, ask(1, Exclusive, "f"))
		var woken []int32
		for i := range int32(n) {
			l := must(t, tab, ask(i+2, Exclusive, "f"))
			go func() {
				<-l.Done()
				woken = append(woken, i) // guarded by the lock itself
				tab.Release(l)
			}()
		}
		synctest.Wait()
		if len(woken) != 0 {
			t.Fatalf("%d were woken while the first one held", len(woken))
		}
		tab.Release(first)
		synctest.Wait()
		for i, w := range woken {
			if w != int32(i) {
				t.Fatalf("waiter %d was woken as number %d", w, i)
			}
		}
		if len(woken) != n {
			t.Fatalf("%d of %d woken", len(woken), n)
		}
		empty(t, tab)
	})
}

// A wait with a deadline leaves the queue before Wait returns, and whoever
// stood behind goes on.
func TestWaitUntilDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tab := New(Options{})
		must(t, tab, ask(1, Shared, "f"))
		writer := must(t, tab, ask(2, Exclusive, "f"))
		reader := must(t, tab, ask(3, Shared, "f"))
		start := time.Now()
		late := errors.New("too late")
		ctx, cancel := context.WithTimeoutCause(t.Context(), 30*time.Second, late)
		defer cancel()
		if err := writer.Wait(ctx); err != late || time.Since(start) != 30*time.Second {
			t.Fatalf("%v after %v", err, time.Since(start))
		}
		if !reader.Held() {
			t.Fatal("the reader behind waits on")
		}
		if _, waiting := tab.Len(); waiting != 0 {
			t.Fatalf("%d still wait", waiting)
		}
	})
}

// A grant that comes at the moment of the deadline counts.
func TestGrantBeatsDeadline(t *testing.T) {
	tab := New(Options{})
	l := must(t, tab, ask(1, Exclusive, "f"))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := l.Wait(ctx); err != nil || !l.Held() {
		t.Fatalf("%v, held %v", err, l.Held())
	}
}

// Whatever ends a wait closes Done, also for those who asked for Done before.
func TestDoneIsClosed(t *testing.T) {
	cause := errors.New("cause")
	for _, c := range []struct {
		name string
		end  func(*Table, *Lock, *Lock)
		err  error
	}{
		{"grant", func(tab *Table, holder, _ *Lock) { tab.Release(holder) }, nil},
		{"steal", func(tab *Table, holder, _ *Lock) { robOf(tab, holder) }, nil},
		{"cancel", func(tab *Table, _, waiter *Lock) { tab.Cancel(waiter, cause) }, cause},
		{"cancel without a cause", func(tab *Table, _, waiter *Lock) { tab.Cancel(waiter, nil) }, ErrCancelled},
		{"release", func(tab *Table, _, waiter *Lock) { tab.Release(waiter) }, ErrReleased},
	} {
		t.Run(c.name, func(t *testing.T) {
			tab := New(Options{})
			holder, waiter := must(t, tab, ask(1, Exclusive, "f")), must(t, tab, ask(2, Exclusive, "f"))
			done := waiter.Done()
			select {
			case <-done:
				t.Fatal("done while it waits")
			default:
			}
			c.end(tab, holder, waiter)
			<-done
			<-waiter.Done()
			if err := waiter.Err(); err != c.err || waiter.Held() != (c.err == nil) {
				t.Fatalf("%v, held %v", err, waiter.Held())
			}
		})
	}
}

// crew is what the goroutines of TestManyAtOnce share: for each key, who is
// inside. The plain fields are guarded by the lock under test, and by nothing
// else, so that the race detector sees two holders that should exclude each
// other.
type crew struct {
	*Table
	inside map[Key]*visitor
}

// visitor is the last writer at a key.
type visitor struct {
	writes int
	token  uint64
}

// Many goroutines take one, two or three keys, shared or exclusive, give up,
// steal and try without waiting. Nobody is inside with somebody who
// excludes him, tokens rise at every key, every wait ends, and nothing is left.
func TestManyAtOnce(t *testing.T) {
	c := crew{New(Options{}), make(map[Key]*visitor)}
	names := []Key{"a", "a/b", "a/b/c", "d", "e"}
	for _, k := range names {
		c.inside[k] = new(visitor)
	}
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(uint64(g), 1))
			for range 300 {
				c.turn(t, r, int32(g+1), names)
			}
		})
	}
	wg.Wait()
	empty(t, c.Table)
}

// turn is one use of some keys.
func (c *crew) turn(t *testing.T, r *rand.Rand, pid int32, names []Key) {
	req := ask(pid, []Mode{Shared, Update, Exclusive}[r.IntN(3)])
	for range 1 + r.IntN(3) {
		req.Keys = append(req.Keys, names[r.IntN(len(names))])
	}
	req.NoWait = r.IntN(8) == 0
	l, err := c.Acquire(req)
	if errors.Is(err, ErrWouldBlock) {
		return
	}
	if err != nil {
		t.Errorf("%v", err) // holding nothing, nobody deadlocks
		return
	}
	if r.IntN(8) == 0 {
		runtime.Gosched()
		c.Cancel(l, nil)
	}
	if l.Wait(t.Context()) != nil {
		return
	}
	c.work(t, l)
	if r.IntN(8) == 0 {
		robOf(c.Table, l)
	}
	c.Release(l)
}

func (c *crew) work(t *testing.T, l *Lock) {
	req, token := l.Request(), l.Token()
	for _, k := range req.Keys {
		in := c.inside[k]
		if in.token > token {
			t.Errorf("at %s token %d comes after %d", k, token, in.token)
		}
		if req.Mode == Exclusive {
			in.writes++
			in.token = token
		}
	}
	runtime.Gosched()
}

// Holders that wait for each other's keys are never all stuck: somebody is
// refused, lets go, and everybody gets done.
func TestNobodyHangs(t *testing.T) {
	tab := New(Options{})
	names := []Key{"a", "b", "c", "d"}
	var wg sync.WaitGroup
	for g := range int32(6) {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(uint64(g), 2))
			for n := 0; n < 100; {
				var mine []*Lock
				for _, i := range r.Perm(len(names))[:2] {
					l, err := tab.Acquire(ask(g+1, Exclusive, names[i]))
					if err == nil {
						err = l.Wait(t.Context())
					}
					if errors.Is(err, ErrDeadlock) {
						break
					}
					if err != nil {
						t.Error(err)
						return
					}
					mine = append(mine, l)
					runtime.Gosched()
				}
				if len(mine) == 2 {
					n++
				}
				for _, l := range mine {
					tab.Release(l)
				}
			}
		})
	}
	wg.Wait()
	empty(t, tab)
}

// The order of a stream of readers and one writer: the writer gets in as soon
// as those who were there before it have left.
func TestWriterIsNotStarved(t *testing.T) {
	tab := New(Options{})
	readers := []*Lock{must(t, tab, ask(1, Shared, "f"))}
	writer := must(t, tab, ask(2, Exclusive, "f"))
	for i := range int32(100) {
		readers = append(readers, must(t, tab, ask(i+3, Shared, "f")))
	}
	tab.Release(readers[0])
	if !writer.Held() {
		t.Fatal("the writer still waits")
	}
	tab.Release(writer)
	for _, r := range readers[1:] {
		if !r.Held() {
			t.Fatal("a reader still waits")
		}
	}
	sound(t, tab)
}

// Whoever waits for a weak lock is passed by those who do not, also when it comes to
// wait for one while it waits, and at a key where that lock is not.
func TestWeakIsPassedElsewhere(t *testing.T) {
	gate := func(pid int32, m Mode, keys ...Key) Request {
		r := ask(pid, m, keys...)
		r.Gate = true
		return r
	}
	weak := func(r Request) Request {
		r.Weak = true
		return r
	}
	heir := func(r Request) Request {
		r.Lineage = []Ancestor{{Owner: ask(1, Shared).Owner, Child: Birth{Tick: 1}}}
		return r
	}
	for _, c := range []struct {
		name    string
		held    []Request
		waiter  Request // stands at e before passes
		passes  Request // asks for e
		happens func(*Table, []*Lock)
	}{
		{
			"a weak lock is renamed to where it waits", []Request{ask(1, Exclusive, "d"), weak(gate(2, Exclusive, "b"))},
			gate(8, Exclusive, "d", "e"), ask(9, Shared, "e"),
			func(tab *Table, held []*Lock) { tab.RenameTrees(Rename{From: "b", To: "d"}) },
		},
		{
			"a weak lock becomes a stranger's", []Request{weak(gate(1, Exclusive, "d")), ask(2, Exclusive, "d")},
			heir(gate(8, Exclusive, "d", "e")), ask(9, Shared, "e"),
			func(tab *Table, held []*Lock) { tab.SetOwner(held[0], Owner{PID: 5, Start: 5}, Birth{}) },
		},
		{
			"it is sheltered from a weak lock no longer", []Request{ask(1, Exclusive, "d"), heir(weak(gate(2, Exclusive, "d"))), ask(3, Exclusive, "f")},
			heir(gate(8, Exclusive, "d", "e", "f")), ask(9, Shared, "e"),
			func(tab *Table, held []*Lock) { tab.Release(held[0]) },
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			tab := New(Options{})
			var held []*Lock
			for _, r := range c.held {
				held = append(held, must(t, tab, r))
			}
			waiter, l := must(t, tab, c.waiter), must(t, tab, c.passes)
			if waiter.Held() || l.Held() {
				t.Errorf("to begin with, the one waits: %v, the other waits: %v", !waiter.Held(), !l.Held())
			}
			c.happens(tab, held)
			if waiter.Held() || !l.Held() {
				t.Errorf("the one waits: %v, the other has passed: %v", !waiter.Held(), l.Held())
			}
			sound(t, tab)
		})
	}
}

// A weak lock that is refused because it would have to wait lets nobody past in that
// moment: it is let ahead of who waits at d, as kin of a holder, but has to stand behind
// who waits at d/a.
func TestRefusedWeakLetsNobodyPast(t *testing.T) {
	parent := Owner{PID: 2, Start: 1}
	child := func(pid int32, born uint64, keys []Key, trees ...Key) Request {
		r := ask(pid, Exclusive, keys...)
		r.Trees, r.Lineage = trees, []Ancestor{{Owner: parent, Child: Birth{Tick: born}}}
		return r
	}
	client := func(c Class, r Request) Request {
		r.Class, r.Client, r.Range = c, uint64(r.Owner.PID), Whole
		return r
	}
	tab := New(Options{})
	must(t, tab, client(Posix, ask(parent.PID, Exclusive, "d")))
	held := client(Flock, ask(parent.PID, Exclusive, "d/a"))
	held.Since = Birth{Tick: 50} // the older child is no heir
	must(t, tab, held)
	tree := ask(3, Exclusive)
	tree.Trees = []Key{"d"}
	must(t, tab, tree)
	must(t, tab, child(4, 30, nil, "d/a"))
	last := must(t, tab, client(Flock, ask(5, Exclusive, "d")))
	before := fmt.Sprint(labels(tab.Snapshot().Waiting))
	r := child(6, 40, nil, "d")
	r.Weak, r.NoWait = true, true
	if _, err := tab.Acquire(r); !errors.Is(err, ErrWouldBlock) {
		t.Errorf("not refused: %v", err)
	}
	if after := fmt.Sprint(labels(tab.Snapshot().Waiting)); last.Held() || before != after {
		t.Errorf("there wait %s, and before it was %s", after, before)
	}
	sound(t, tab)
}

// An inbox tells of the waits that are over, in the order in which they ended, and once
// each; of nobody who did not wait. A lock that was used again meanwhile takes no other
// along.
func TestInbox(t *testing.T) {
	tab, in := New(Options{}), NewInbox()
	r := func(pid int32) Request {
		r := ask(pid, Exclusive, "f")
		r.Inbox = in
		return r
	}
	collect := func(want ...*Lock) {
		t.Helper()
		if got := tab.Collect(in); !slices.Equal(got, want) || tab.Collect(in) != nil {
			t.Errorf("%v are over, not %v", got, want)
		}
	}
	ready := func() bool {
		select {
		case <-in.Ready():
			return true
		default:
			return false
		}
	}
	holder := must(t, tab, r(1))
	second, third, fourth := must(t, tab, r(2)), must(t, tab, r(3)), must(t, tab, r(4))
	if ready() {
		t.Error("who did not wait is in the inbox")
	}
	collect()
	tab.Cancel(third, nil)
	tab.Release(holder)
	if !ready() || ready() {
		t.Error("two waits are not told by one value")
	}
	collect(third, second)
	tab.Cancel(fourth, nil)
	fifth := must(t, tab, r(5))
	tab.Cancel(fifth, nil)
	collect(fourth, fifth)
	tab.Release(second)
	empty(t, tab)
}

// robOf steals a lock, after its lease has expired.
func robOf(t *Table, l *Lock) {
	for range Heartbeats {
		t.Heartbeat(l, time.Unix(9, 0), false)
	}
	_ = t.Steal(l)
}
