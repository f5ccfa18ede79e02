package readclaim

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"latchfs/lockmgr"
	"latchfs/lockmgr/proc"
)

const ttl = 5 * time.Second

// A stage has claims on a lock table with processes that die when the test says so, in
// virtual time.
type stage struct {
	*Claims
	t     *testing.T
	table *lockmgr.Table

	mu    sync.Mutex // guards what follows
	procs map[int32]*process
	deaf  bool // nobody's end can be watched

	ended []string // what came of the claims; guarded by Claims.mu
}

type process struct {
	dead chan struct{}
	end  proc.End
}

// tag is the label of a stage's locks.
type tag struct{ claim *Claim }

func (tg *tag) ReadClaim() *Claim { return tg.claim }

func onStage(t *testing.T, test func(s *stage)) {
	synctest.Test(t, func(t *testing.T) {
		done := make(chan struct{})
		s := &stage{t: t, table: lockmgr.New(lockmgr.Options{}), procs: map[int32]*process{}}
		s.Claims = NewClaims(Config{
			Enabled: true, Table: s.table, Procs: s, Done: done, Logf: t.Logf,
			Ended: func(program string, written bool) { s.ended = append(s.ended, fmt.Sprint(program, " ", written)) },
		})
		test(s)
		close(done)
	})
}

// owner is a process that is 100 times its pid old.
func owner(pid int32) lockmgr.Owner { return lockmgr.Owner{PID: pid, Start: uint64(pid) * 100} }

func owners(pids ...int32) (all []lockmgr.Owner) {
	for _, pid := range pids {
		all = append(all, owner(pid))
	}
	return all
}

func (s *stage) start(pids ...int32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, pid := range pids {
		s.procs[pid] = &process{dead: make(chan struct{})}
	}
}

// end ends a process with a wait status, and lets everybody learn of it.
func (s *stage) end(pid int32, status int) {
	s.kill(pid, status)
	synctest.Wait()
}

func (s *stage) kill(pid int32, status int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.procs[pid]
	delete(s.procs, pid)
	p.end = proc.End{Known: true, Status: status}
	close(p.dead)
}

// Alive implements Procs.
func (s *stage) Alive(o lockmgr.Owner) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.procs[o.PID] != nil
}

// WatchEnd implements Procs.
func (s *stage) WatchEnd(o lockmgr.Owner) (dead <-chan struct{}, end func() proc.End, stop func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.procs[o.PID]
	if p == nil || s.deaf {
		return nil, nil, nil, fmt.Errorf("no process %d", o.PID)
	}
	return p.dead, func() proc.End { return p.end }, func() {}, nil
}

// ask asks for the lock of a claim, or with none for one to write with.
func (s *stage) ask(cl *Claim, pid int32, path string) *lockmgr.Lock {
	s.t.Helper()
	r := lockmgr.Request{
		Keys: []lockmgr.Key{lockmgr.Key(path)}, Mode: lockmgr.Exclusive, Owner: owner(pid), Label: &tag{cl}, Now: time.Now(),
	}
	if cl != nil {
		r.Mode, r.Gate, r.Since = lockmgr.Update, true, SinceEver
	}
	l, err := s.table.Acquire(r)
	if err != nil {
		s.t.Fatal(err)
	}
	return l
}

// read claims a path for a process that has such relatives; nil if it got no claim.
func (s *stage) read(pid int32, path string, relatives ...int32) *Claim {
	s.t.Helper()
	cl := New(s.reader(pid, relatives...))
	l := s.ask(cl, pid, path)
	<-l.Done()
	if l.Err() != nil || !s.Enter(cl, path, l, ttl) {
		return nil
	}
	return cl
}

func (s *stage) reader(pid int32, relatives ...int32) Reader {
	return Reader{Owner: owner(pid), Comm: fmt.Sprint("reader", pid), Relatives: owners(relatives...), Program: fmt.Sprint("program", pid)}
}

// want compares what came of the claims since it was asked last.
func (s *stage) want(when string, ended ...string) {
	s.t.Helper()
	synctest.Wait()
	s.Claims.mu.Lock()
	defer s.Claims.mu.Unlock()
	slices.Sort(s.ended)
	if !slices.Equal(s.ended, ended) {
		s.t.Errorf("%s: ended %q, not %q", when, s.ended, ended)
	}
	s.ended = nil
}

// has reports whether a process has a claim on a path.
func (s *stage) has(pid int32, path string) bool { return s.Of(owner(pid), path) != nil }

// isFree reports whether nobody holds or awaits anything.
func (s *stage) isFree() bool {
	held, waiting := s.table.Len()
	claims, _ := s.Any()
	return held+waiting == 0 && !claims && len(s.families) == 0
}
