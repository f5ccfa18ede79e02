package patience

import (
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"latchfs/lockmgr/proc/internal/procfs"
)

// How many questions there may be; how many about one process, Questions says.
const (
	maxAsked      = 256 // under way
	maxHung       = 512 // given up long ago, and not answered
	maxHungOf     = 16  // of these, about processes of one user
	maxHungOfRoot = 128
	// hungAfter is how much later a question is taken for one without an answer that
	// was given up. A processor that is busy may keep a process in execve.
	hungAfter = time.Second
)

// Questions are all of one kind, counted together. They may be asked by several goroutines
// at once.
type Questions struct {
	// Grace is how much later a question is taken for one without an answer that was
	// given up: a second. It is not changed after the first question.
	Grace time.Duration

	root   *procfs.Root
	inExec func(pid int32) bool
	most   int          // about one process
	hung   atomic.Int32 // changed with mu held

	mu     sync.Mutex
	about  map[int32]*questioned // mu guards it and what is below
	asked  int
	hungOf map[uint32]int
	free   chan struct{} // closed when a question has ended; nil: nobody waits for that
}

// New makes questions, of which so many may be under way about one process. inExec reports
// whether a process is inside execve, without waiting for it.
func New(root *procfs.Root, inExec func(pid int32) bool, perProcess int) *Questions {
	return &Questions{Grace: hungAfter, root: root, inExec: inExec, most: perProcess}
}

// Hung is how many questions hang: they were given up long ago, and are not answered.
func (qs *Questions) Hung() int { return int(qs.hung.Load()) }

// questioned is a process that is asked about.
type questioned struct {
	pid   int32
	asked int
	hung  int
	dir   int // of the process in /proc, while questions hang: it tells a reused pid
}

// enter makes the question one of those under way about a process. If it has to wait,
// the channel tells for how long.
func (qs *Questions) enter(a *Question, pid int32) (free <-chan struct{}, err error) {
	user := uint32(0)
	trouble := qs.hung.Load() > 0
	if trouble {
		user = qs.root.User(pid)
	}
	qs.mu.Lock()
	defer qs.mu.Unlock()
	p := qs.about[pid]
	if p != nil && p.hung > 0 {
		if isThere(p.dir) {
			return nil, ErrBusy
		}
		p = nil
	}
	if trouble && qs.tooManyHang(user) {
		return nil, ErrBusy
	}
	if qs.asked >= maxAsked || p != nil && p.asked >= qs.most {
		if qs.free == nil {
			qs.free = make(chan struct{})
		}
		return qs.free, nil
	}
	if p == nil {
		p = &questioned{pid: pid, dir: -1}
		if qs.about == nil {
			qs.about, qs.hungOf = map[int32]*questioned{}, map[uint32]int{}
		}
		qs.about[pid] = p
	}
	p.asked++
	qs.asked++
	a.on = p
	return nil, nil
}

func (qs *Questions) tooManyHang(user uint32) bool {
	if user == 0 {
		return qs.hungOf[0] >= maxHungOfRoot
	}
	return qs.hungOf[user] >= maxHungOf || int(qs.hung.Load()) >= maxHung
}

// leave ends a question, at least about the process that it was about.
func (qs *Questions) leave(a *Question) {
	qs.mu.Lock()
	defer qs.mu.Unlock()
	p := a.on
	if p == nil {
		return
	}
	a.on = nil
	if a.hung {
		a.hung = false
		qs.hung.Add(-1)
		if qs.hungOf[a.user]--; qs.hungOf[a.user] == 0 {
			delete(qs.hungOf, a.user)
		}
		if p.hung--; p.hung == 0 && p.dir >= 0 {
			unix.Close(p.dir)
			p.dir = -1
		}
	} else {
		p.asked--
		qs.asked--
	}
	if p.asked+p.hung == 0 && qs.about[p.pid] == p {
		delete(qs.about, p.pid)
	}
	qs.announceLocked()
}

// hang notes that a question which was given up has still no answer: no further one is
// asked about that process until it has.
func (qs *Questions) hang(a *Question) {
	qs.mu.Lock()
	defer qs.mu.Unlock()
	p := a.on
	if p == nil || a.hung {
		return
	}
	a.hung, a.user = true, qs.root.User(p.pid) // the question under way keeps the procfs open
	p.asked--
	qs.asked--
	qs.hung.Add(1)
	qs.hungOf[a.user]++
	if p.hung++; p.hung == 1 {
		p.dir, _ = procfs.OpenAt(qs.root.Dir(), procfs.PIDPath(p.pid, ""), unix.O_PATH|unix.O_DIRECTORY)
	}
	qs.announceLocked()
}

func (qs *Questions) announceLocked() {
	if qs.free != nil {
		close(qs.free)
		qs.free = nil
	}
}

// isThere reports whether the process of a directory of /proc exists.
func isThere(dir int) bool {
	if dir < 0 {
		return true
	}
	fd, err := procfs.OpenAt(dir, "comm", unix.O_RDONLY)
	if err != nil {
		return err != procfs.ErrGone
	}
	unix.Close(fd)
	return true
}
