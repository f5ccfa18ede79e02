// Package trim keeps descriptors free. Each file and directory that the kernel remembers
// costs one of ours, and memory. So the kernel is made to forget some of those that nobody
// has open:
//
//	kick ──▶ round ──▶ rest ──▶ over        a round makes it forget half a crowd of files,
//	          ▲                  │          and as many directories; the rest is for what it
//	          └─── EMFILE ◀──────┘          then gives back (FORGET)
//
// A round begins when the kernel remembers a crowd (Engine.Crowd), or when something needs a
// descriptor and there is none (Spare), which then waits until the round is over and tries
// again. Where rounds do not suffice it fails with ENFILE: the limit that was met is the
// daemon's, and not the caller's. The last descriptors are for commits and syncs, and for
// looks at processes: what may fail does not take them (OpenAt).
//
// The kernel knows which nodes are in use all the same, a working directory for instance,
// and keeps these (FUSE_NOTIFY_PRUNE, since Linux 6.18). An earlier kernel is told to forget
// the names of files one by one, and directories stay. Which nodes there are, and how the
// kernel is told, is behind Engine.
//
// Mutex order: Trimmer.mu is the only mutex, and nothing is done while it is held. Kick takes
// none.
package trim

import (
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// restPoll is how often the inodes are counted until FORGETs arrive.
	restPoll = time.Millisecond
	// rest is how long they may take. They do not come if what the kernel remembers is in
	// use.
	rest = 100 * time.Millisecond
	// retries is how often a request without a descriptor waits for a round: longer in all
	// than new files keep one until they are on the disk, which is a second.
	retries = 50
	// A part of the descriptors is reserved for what must not fail.
	reservedPart, maxReserved = 16, 256
	// tellPause is how often the engine is told that there are too few descriptors.
	tellPause = time.Minute
	// maxPruned is how many nodes one notification tells of.
	maxPruned = 4096
)

// Pruner is a kernel that can be told which nodes to forget if nobody uses them.
type Pruner interface {
	// Prune tells it. The error is an errno, ENOSYS if the kernel cannot be told after all.
	Prune(nodes []uint64) error
}

// Engine has what the kernel remembers. Its methods are called from several goroutines.
type Engine interface {
	// Crowd is how many inodes the kernel may remember before a round begins.
	Crowd() int
	// Remembered is how many inodes it remembers.
	Remembered() int
	// Pruner is the kernel, nil if it cannot be told which nodes to forget.
	Pruner() Pruner
	// IdleNodes lists the nodes of up to limit files that nobody has open, and behind them
	// those of up to limit such directories. A directory with others below it that the
	// kernel remembers is not idle, and goes in a later round.
	IdleNodes(limit int) []uint64
	// ForgetNames makes the kernel forget the names of up to limit such files.
	ForgetNames(limit int)
	// Measured is told how many descriptors there are for what may fail.
	Measured(n int64)
	// Short is told, once in a while, that programs get ENFILE although there are n of them.
	Short(n int64)
}

// Trimmer makes the kernel forget. Its methods may be called from any goroutine.
type Trimmer struct {
	engine  Engine
	done    <-chan struct{}
	limit   func() (n uint64, err error) // how many descriptors there may be
	wanted  chan struct{}
	ceiling atomic.Int64 // descriptors from this number on are for what must not fail

	mu   sync.Mutex    // guards what follows
	over chan struct{} // closed when the next round is over
	told time.Time     // when the engine was last told that there are too few descriptors
}

// New makes a trimmer that rests until Run; nothing waits for it any more when done is
// closed.
func New(e Engine, done <-chan struct{}) *Trimmer {
	t := &Trimmer{engine: e, done: done, limit: maxFiles, wanted: make(chan struct{}, 1), over: make(chan struct{})}
	t.Measure()
	return t
}

// maxFiles is how many descriptors this process may have.
func maxFiles() (uint64, error) {
	var l unix.Rlimit
	err := unix.Getrlimit(unix.RLIMIT_NOFILE, &l)
	return l.Cur, err
}

// Measure looks how many descriptors there are.
func (t *Trimmer) Measure() {
	if limit, err := t.limit(); err == nil {
		n := int64(limit - min(limit/reservedPart, maxReserved))
		t.ceiling.Store(n)
		t.engine.Measured(n)
	}
}

// Kick asks for a round.
func (t *Trimmer) Kick() {
	select {
	case t.wanted <- struct{}{}:
	default:
	}
}

// Run makes the rounds that are asked for, until it is done.
func (t *Trimmer) Run() {
	for {
		select {
		case <-t.done:
			return
		case <-t.wanted:
		}
		before := t.engine.Remembered()
		t.round(t.engine.Crowd() / 2)
		for left := rest; left > 0 && t.engine.Remembered() >= before; left -= restPoll {
			select {
			case <-t.done:
				return
			case <-time.After(restPoll):
			}
		}
		t.mu.Lock()
		close(t.over)
		t.over = make(chan struct{})
		t.mu.Unlock()
	}
}

// round makes the kernel forget that many files, and that many directories.
func (t *Trimmer) round(limit int) {
	if p := t.engine.Pruner(); p != nil {
		var err error
		for nodes := range slices.Chunk(t.engine.IdleNodes(limit), maxPruned) {
			if err = p.Prune(nodes); err != nil {
				break
			}
		}
		if err != unix.ENOSYS {
			return
		}
	}
	t.engine.ForgetNames(limit)
}

// Spare does what takes a descriptor of ours. If there is none (EMFILE), it waits for a
// round, and tries again; ENFILE if that has not helped.
func (t *Trimmer) Spare(open func() error) error {
	err := open()
	for try := 0; errors.Is(err, unix.EMFILE); try++ {
		if try == retries {
			t.tellShort()
			return unix.ENFILE
		}
		t.Measure()
		t.mu.Lock()
		over := t.over
		t.mu.Unlock()
		t.Kick()
		select {
		case <-over:
		case <-time.After(rest): // an earlier kernel may wait for the directory that the caller has locked
		case <-t.done:
		}
		err = open()
	}
	return err
}

// tellShort tells that programs are refused what they ask for, once in a while.
func (t *Trimmer) tellShort() {
	t.mu.Lock()
	now := time.Now()
	again := now.Sub(t.told) >= tellPause
	if again {
		t.told = now
	}
	t.mu.Unlock()
	if again {
		t.engine.Short(t.ceiling.Load())
	}
}

// OpenAt is openat(2) of what is there, for a descriptor of ours (O_CLOEXEC) that is not
// one of the last. Errors are those of Spare.
func (t *Trimmer) OpenAt(dirfd int, name string, flags int) (fd int, err error) {
	err = t.Spare(func() (err error) {
		fd, err = t.openAt(dirfd, name, flags)
		return err
	})
	return fd, err
}

// TryOpenAt is OpenAt for what can be done without: if there is no descriptor it asks for a
// round, and fails at once with EMFILE.
func (t *Trimmer) TryOpenAt(dirfd int, name string, flags int) (fd int, err error) {
	fd, err = t.openAt(dirfd, name, flags)
	if err == unix.EMFILE {
		t.Kick()
	}
	return fd, err
}

func (t *Trimmer) openAt(dirfd int, name string, flags int) (fd int, err error) {
	fd, err = unix.Openat(dirfd, name, flags|unix.O_CLOEXEC, 0)
	if err == nil && int64(fd) >= t.ceiling.Load() {
		unix.Close(fd)
		return -1, unix.EMFILE
	}
	return fd, err
}
