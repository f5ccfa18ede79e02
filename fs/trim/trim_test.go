package trim

import (
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"
)

// stage is a kernel that remembers inodes.
type stage struct {
	t    *testing.T
	trim *Trimmer
	done chan struct{}

	mu         sync.Mutex // guards what follows
	remembered int
	idle       []uint64      // nodes
	pruner     *pruner       // nil: the kernel is an earlier one
	forgets    func()        // what a round makes happen; or nil
	hangs      chan struct{} // a round waits for it; or nil
	limits     []int         // of the rounds
	names      []int         // of the rounds that forgot names
	measured   []int64
	short      []int64
}

// pruner has nodes pruned, until an error.
type pruner struct {
	s     *stage
	calls []int // how many nodes each told of
	err   error
}

// Prune implements Pruner.
func (p *pruner) Prune(nodes []uint64) error {
	p.s.mu.Lock()
	defer p.s.mu.Unlock()
	p.calls = append(p.calls, len(nodes))
	return p.err
}

// Crowd implements Engine.
func (s *stage) Crowd() int { return 100 }

// Remembered implements Engine.
func (s *stage) Remembered() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.remembered
}

// Pruner implements Engine.
func (s *stage) Pruner() Pruner {
	if s.pruner == nil {
		return nil
	}
	return s.pruner
}

// IdleNodes implements Engine.
func (s *stage) IdleNodes(limit int) []uint64 {
	s.round(limit)
	return s.idle
}

// ForgetNames implements Engine.
func (s *stage) ForgetNames(limit int) {
	if s.pruner == nil {
		s.round(limit)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.names = append(s.names, limit)
}

func (s *stage) round(limit int) {
	s.mu.Lock()
	s.limits = append(s.limits, limit)
	hangs, forgets := s.hangs, s.forgets
	s.mu.Unlock()
	if hangs != nil {
		<-hangs
	}
	if forgets != nil {
		forgets()
	}
}

// Measured implements Engine.
func (s *stage) Measured(n int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.measured = append(s.measured, n)
}

// Short implements Engine.
func (s *stage) Short(n int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.short = append(s.short, n)
}

// rounds are the limits of those that there were.
func (s *stage) rounds() []int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.limits)
}

// forget makes the kernel give an inode back.
func (s *stage) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.remembered--
}

func newStage(t *testing.T) *stage {
	s := &stage{t: t, done: make(chan struct{}), remembered: 10}
	s.trim = New(s, s.done)
	return s
}

// running runs a test in virtual time, beside the rounds.
func running(t *testing.T, test func(s *stage)) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		go s.trim.Run()
		test(s)
		s.mu.Lock()
		if s.hangs != nil {
			close(s.hangs)
		}
		s.mu.Unlock()
		close(s.done)
	})
}

// A round tells the kernel of the idle nodes, a few thousand at a time, and stops where it
// fails. A kernel that cannot be told has names forgotten.
func TestRound(t *testing.T) {
	for _, tt := range []struct {
		what  string
		tells bool
		err   error
		idle  int
		calls []int
		names []int
	}{
		{"few", true, nil, 10, []int{10}, nil},
		{"many", true, nil, 2*maxPruned + 1, []int{maxPruned, maxPruned, 1}, nil},
		{"none", true, nil, 0, nil, nil},
		{"it fails", true, unix.ENOENT, 2 * maxPruned, []int{maxPruned}, nil},
		{"it cannot be told after all", true, unix.ENOSYS, 2 * maxPruned, []int{maxPruned}, []int{50}},
		{"it cannot be told", false, nil, 10, nil, []int{50}},
	} {
		s := newStage(t)
		p := &pruner{s: s, err: tt.err}
		if tt.tells {
			s.pruner = p
		}
		s.idle = make([]uint64, tt.idle)
		s.trim.round(50)
		if !slices.Equal(p.calls, tt.calls) || !slices.Equal(s.names, tt.names) || !slices.Equal(s.limits, []int{50}) {
			t.Errorf("%s: pruned %v, names forgotten %v, limits %v", tt.what, p.calls, s.names, s.limits)
		}
	}
}

// Whoever kicks has a round made, of half a crowd; kicks that come meanwhile are one.
func TestKick(t *testing.T) {
	running(t, func(s *stage) {
		synctest.Wait()
		if len(s.rounds()) != 0 {
			t.Error("a round was made that nobody asked for")
		}
		s.trim.Kick()
		synctest.Wait()
		s.trim.Kick()
		s.trim.Kick()
		time.Sleep(10 * rest)
		if got := s.rounds(); !slices.Equal(got, []int{50, 50}) {
			t.Errorf("rounds: %v", got)
		}
	})
}

// A round is over when the kernel has given something back, or after a rest.
func TestRest(t *testing.T) {
	for _, gives := range []bool{false, true} {
		running(t, func(s *stage) {
			want := rest
			if gives {
				want = 10 * restPoll
				s.forgets = func() {
					time.AfterFunc(10*restPoll-restPoll/2, s.forget)
				}
			}
			s.trim.mu.Lock()
			over := s.trim.over
			s.trim.mu.Unlock()
			began := time.Now()
			s.trim.Kick()
			<-over
			if took := time.Since(began); took != want {
				t.Errorf("it gives something back: %v, and the round took %v, want %v", gives, took, want)
			}
		})
	}
}

// Rounds end with the mount, in the midst of a rest too.
func TestDone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		began, ended := time.Now(), make(chan time.Duration, 1)
		go func() {
			s.trim.Run()
			ended <- time.Since(began)
		}()
		s.trim.Kick()
		synctest.Wait()
		close(s.done)
		if took := <-ended; took != 0 {
			t.Errorf("it went on for %v", took)
		}
	})
}

// What needs a descriptor is done again after a round, as often as that may help.
func TestSpare(t *testing.T) {
	for what, tt := range map[string]struct {
		fails  int   // how often it finds no descriptor
		err    error // what comes then
		want   error
		rounds int
	}{
		"there is one":               {0, nil, nil, 0},
		"another error":              {0, unix.ENOENT, unix.ENOENT, 0},
		"after a round":              {1, nil, nil, 1},
		"another error after rounds": {3, unix.EACCES, unix.EACCES, 3},
		"after the last round":       {retries, nil, nil, retries},
		"never":                      {1000, nil, unix.ENFILE, retries},
	} {
		running(t, func(s *stage) {
			s.forgets = s.forget
			tries, began := 0, time.Now()
			err := s.trim.Spare(func() error {
				if tries++; tries <= tt.fails {
					return unix.EMFILE
				}
				return tt.err
			})
			if n := len(s.rounds()); err != tt.want || n != tt.rounds {
				t.Errorf("%s: %v after %d rounds, want %v after %d", what, err, n, tt.want, tt.rounds)
			}
			if took := time.Since(began); took != 0 { // the rounds took no time either
				t.Errorf("%s: after %v", what, took)
			}
			if short := len(s.short); (short == 1) != (tt.want == unix.ENFILE) {
				t.Errorf("%s: told %d times that there are too few", what, short)
			}
			if len(s.measured) != 1+tt.rounds {
				t.Errorf("%s: measured %d times", what, len(s.measured))
			}
		})
	}
}

// Nobody waits for a round that waits for its caller, nor for one when the mount is gone.
func TestSpareBesideARoundThatHangs(t *testing.T) {
	running(t, func(s *stage) {
		s.hangs = make(chan struct{})
		began := time.Now()
		err := s.trim.Spare(func() error { return unix.EMFILE })
		if took := time.Since(began); err != unix.ENFILE || took != retries*rest {
			t.Errorf("%v after %v", err, took)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		close(s.done)
		began := time.Now()
		err := s.trim.Spare(func() error { return unix.EMFILE })
		if took := time.Since(began); err != unix.ENFILE || took != 0 {
			t.Errorf("without a mount: %v after %v", err, took)
		}
	})
}

// That there are too few descriptors is told once a minute.
func TestShort(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		close(s.done)
		s.trim.limit = func() (uint64, error) { return 1024, nil }
		for range 3 {
			for range 2 {
				if err := s.trim.Spare(func() error { return unix.EMFILE }); err != unix.ENFILE {
					t.Error(err)
				}
			}
			time.Sleep(tellPause)
		}
		if !slices.Equal(s.short, []int64{960, 960, 960}) {
			t.Errorf("told %v", s.short)
		}
	})
}

// A part of the descriptors is not for what may fail, but never many.
func TestMeasure(t *testing.T) {
	s := newStage(t)
	for _, tt := range []struct {
		limit uint64
		err   error
		want  int64
	}{{1024, nil, 960}, {1 << 20, nil, 1<<20 - 256}, {64, errors.New("it cannot be seen"), 1<<20 - 256}} {
		s.measured = nil
		s.trim.limit = func() (uint64, error) { return tt.limit, tt.err }
		s.trim.Measure()
		if got := s.trim.ceiling.Load(); got != tt.want || tt.err == nil && !slices.Equal(s.measured, []int64{got}) {
			t.Errorf("of %d: %d, told %v, want %d", tt.limit, got, s.measured, tt.want)
		}
	}
}

// A descriptor that is one of the last is given back.
func TestOpenAt(t *testing.T) {
	s := newStage(t)
	close(s.done) // nobody waits
	before := next(t)
	fd, err := s.trim.OpenAt(unix.AT_FDCWD, ".", unix.O_PATH)
	if err != nil || fd != before {
		t.Fatalf("%d, %v", fd, err)
	}
	if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err != nil || flags&unix.FD_CLOEXEC == 0 {
		t.Errorf("flags %#x, %v", flags, err)
	}
	unix.Close(fd)
	for ceiling, want := range map[int]error{before: unix.ENFILE, before + 1: nil} {
		s.trim.limit = func() (uint64, error) { return uint64(ceiling), errors.New("of the test's making") }
		s.trim.ceiling.Store(int64(ceiling))
		fd, err := s.trim.OpenAt(unix.AT_FDCWD, ".", unix.O_PATH)
		if err != want {
			t.Errorf("up to %d: %v, want %v", ceiling, err, want)
		}
		if err == nil {
			unix.Close(fd)
		}
		if after := next(t); after != before {
			t.Errorf("up to %d: the next descriptor is %d, and was %d", ceiling, after, before)
		}
	}
	if _, err := s.trim.OpenAt(unix.AT_FDCWD, "nowhere", unix.O_PATH); err != unix.ENOENT {
		t.Errorf("of nothing: %v", err)
	}
}

// What can be done without waits for no descriptor, and asks for one.
func TestTryOpenAt(t *testing.T) {
	s := newStage(t)
	before := next(t)
	s.trim.ceiling.Store(int64(before))
	if fd, err := s.trim.TryOpenAt(unix.AT_FDCWD, ".", unix.O_PATH); err != unix.EMFILE {
		t.Errorf("%d, %v", fd, err)
	}
	if len(s.trim.wanted) != 1 {
		t.Error("no round is wanted")
	}
	s.trim.ceiling.Store(int64(before + 1))
	fd, err := s.trim.TryOpenAt(unix.AT_FDCWD, ".", unix.O_PATH)
	if err != nil || fd != before {
		t.Errorf("%d, %v", fd, err)
	}
	unix.Close(fd)
}

// next is the number that the next descriptor gets.
func next(t *testing.T) int {
	t.Helper()
	fd, err := unix.Open(".", unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	unix.Close(fd)
	return fd
}
