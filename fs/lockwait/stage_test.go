package lockwait

import (
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"latchfs/fs/denied"
	"latchfs/lockmgr"
	"latchfs/lockmgr/proc"
)

// A stage has requests that wait for locks on a lock table, in virtual time. Its files are
// renamed, and its signals come, when the test says so.
type stage struct {
	t     *testing.T
	table *lockmgr.Table
	stop  chan struct{} // ends all waits
	began time.Time

	mu      sync.Mutex // guards what follows
	moves   chan struct{}
	covers  bool   // a lock is the right one still
	asked   func() // called once when that is asked, if not nil
	pending proc.Pending
	polls   int // how often it was looked at what is pending
	client  uint64
}

func onStage(t *testing.T, test func(s *stage)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		test(&stage{
			t: t, table: lockmgr.New(lockmgr.Options{}), stop: make(chan struct{}), began: time.Now(),
			moves: make(chan struct{}), covers: true,
		})
	})
}

// Moves implements Names.
func (s *stage) Moves() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.moves
}

// Covers implements Names.
func (s *stage) Covers(*lockmgr.Lock) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if do := s.asked; do != nil {
		s.asked = nil
		do()
	}
	return s.covers
}

// move renames a file; covers says whether it was another one.
func (s *stage) move(covers bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.covers = covers
	close(s.moves)
	s.moves = make(chan struct{})
}

// Pending implements Signals.
func (s *stage) Pending(tid uint32) proc.Pending {
	if tid != thread {
		s.t.Errorf("the signals of thread %d were looked at", tid)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.polls++
	return s.pending
}

func (s *stage) setPending(p proc.Pending) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pending = p
}

// thread is the one that waits.
const thread = 7

// lock asks for an exclusive lock on a file, for a process of its own.
func (s *stage) lock(c lockmgr.Class) *lockmgr.Lock {
	s.t.Helper()
	s.client++
	l, err := s.table.Acquire(s.request(c, s.client))
	if err != nil {
		s.t.Fatal(err)
	}
	return l
}

func (s *stage) request(c lockmgr.Class, client uint64) lockmgr.Request {
	r := lockmgr.Request{
		Keys: []lockmgr.Key{"f"}, Mode: lockmgr.Exclusive, Class: c,
		Owner: lockmgr.Owner{PID: int32(client), Start: 1}, Range: lockmgr.Whole,
	}
	if c != lockmgr.Session {
		r.Client = client
	}
	return r
}

// wait is a wait of at most limit for a lock of a class.
func (s *stage) wait(c lockmgr.Class, limit time.Duration) *Wait {
	return &Wait{Table: s.table, Signals: s, Thread: thread, Class: c, Limit: limit, Until: &time.Time{}, Stop: s.stop}
}

// after checks how much time has passed on the stage.
func (s *stage) after(want time.Duration) {
	s.t.Helper()
	if d := time.Since(s.began); d != want {
		s.t.Errorf("it took %v, want %v", d, want)
	}
}

// waiting checks how many wait in the queue.
func (s *stage) waiting(want int) {
	s.t.Helper()
	if _, n := s.table.Len(); n != want {
		s.t.Errorf("%d wait, want %d", n, want)
	}
}

// denies checks that an error says why a lock was not granted, and names one holder.
func denies(t *testing.T, err, cause error) {
	t.Helper()
	if !errors.Is(err, cause) || len(denied.Holders(err)) != 1 {
		t.Errorf("%v names %d holders, want %v", err, len(denied.Holders(err)), cause)
	}
}
