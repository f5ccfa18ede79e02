package account

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

const (
	alice = 1
	bob   = 2
)

func newTurns() *Turns {
	return NewTurns(2, 10*time.Millisecond, &Presence{}, func(uid uint32) bool { return uid == 0 })
}

// take makes a request in the background and reports whether its turn came at once.
func take(t *Turns, uid uint32) (now bool, turn func() *Turn) {
	ch := make(chan *Turn, 1)
	go func() { ch <- t.Take(uid) }()
	synctest.Wait()
	return len(ch) == 1, func() *Turn { return <-ch }
}

// Beside another user, a user has two places; the next request begins when one of them
// is free, and in the order in which they came.
func TestTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := newTurns()
		turns.Take(alice).End()
		first, second := turns.Take(bob), turns.Take(bob)
		now, third := take(turns, bob)
		later, fourth := take(turns, bob)
		if now || later {
			t.Fatal("a third request runs")
		}
		if at := time.Now(); turns.Take(alice) == nil || !time.Now().Equal(at) {
			t.Fatal("another user's request waits")
		}
		first.End()
		synctest.Wait()
		r := third()
		if n := len(turns.users[bob].waiting); n != 1 {
			t.Fatalf("%d requests wait", n)
		}
		second.End()
		r.End()
		fourth().End()
		if turns.users[bob] != nil {
			t.Error("what is over is remembered")
		}
	})
}

// Whoever is alone takes what there is, and so does root.
func TestTurnsOfOneUser(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := newTurns()
		turns.Take(alice).End()
		time.Sleep(lately)
		for range 10 {
			if now, _ := take(turns, bob); !now {
				t.Fatal("a request waits for nobody's sake")
			}
		}
		for range 10 {
			if now, _ := take(turns, 0); !now {
				t.Fatal("a request of root waits")
			}
		}
		if now, turn := take(turns, bob); now {
			t.Fatal("a request does not wait beside root's")
		} else {
			turn().End()
		}
	})
}

// A request that takes its time does not count, and nobody waits longer than that.
func TestTurnsDoNotCountWhoWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := newTurns()
		long := []*Turn{turns.Take(bob), turns.Take(bob)}
		turns.Take(alice).End()
		began := time.Now()
		turns.Take(bob).End()
		if d := time.Since(began); d != 10*time.Millisecond {
			t.Errorf("a request waited for %v", d)
		}
		turns.Take(alice).End()
		for range 3 {
			began = time.Now()
			turns.Take(bob).End()
			if d := time.Since(began); d != 0 {
				t.Errorf("a request waited for %v although those before it only wait", d)
			}
		}
		for _, r := range long {
			r.End()
		}
		if len(turns.users) != 0 {
			t.Error("what is over is remembered")
		}
	})
}

// Whatever is asked for at once, all of it ends, and no more than the places are used.
func TestTurnsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := newTurns()
		var wg sync.WaitGroup
		var mu sync.Mutex
		running, most := map[uint32]int{}, 0
		for uid := range uint32(3) {
			turns.Take(1 + uid).End()
		}
		for i := range 300 {
			wg.Go(func() {
				uid := uint32(1 + i%3)
				time.Sleep(time.Duration(i%7) * time.Millisecond)
				turn := turns.Take(uid)
				mu.Lock()
				running[uid]++
				most = max(most, running[uid])
				mu.Unlock()
				time.Sleep(50 * time.Microsecond)
				mu.Lock()
				running[uid]--
				mu.Unlock()
				turn.End()
			})
		}
		wg.Wait()
		if most > 2 || len(turns.users) != 0 {
			t.Errorf("%d requests of one user ran at once; %d users are remembered", most, len(turns.users))
		}
	})
}
