package proc

import (
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"latchfs/lockmgr/proc/internal/procfs"
)

// A question that blocks in the kernel keeps a thread there until it is answered,
// which may be never: a process decides by itself for how long its memory or its exec
// lock is taken, with a filesystem of its own that does not answer. So there are never
// many questions, about one process, about those of one user, and in all. Whoever
// comes when there are too many waits, as it would for the answer.
const (
	maxAsked      = 256 // under way
	maxAskedOf    = 4   // of these, about one process
	maxFilesOf    = 32  // the same about its descriptors: each of its closes asks
	maxHung       = 512 // given up long ago, and not answered
	maxHungOf     = 16  // of these, about processes of one user
	maxHungOfRoot = 128
	// hungAfter is how much later a question is taken for one without an answer that
	// was given up. A processor that is busy may keep a process in execve.
	hungAfter = time.Second
)

// questions are all patient questions of a reader, or all about descriptors.
type questions struct {
	grace time.Duration
	most  int          // about one process
	hung  atomic.Int32 // changed with mu held

	mu     sync.Mutex
	about  map[int32]*questioned
	asked  int
	hungOf map[uint32]int
	free   chan struct{} // closed when a question has ended; nil: nobody waits for that
}

// questioned is a process that is asked about.
type questioned struct {
	pid   int32
	asked int
	hung  int
	dir   int // of the process in /proc, while questions hang: it tells a reused pid
}

// enter makes the question one of those under way about a process. If it has to wait,
// the channel tells for how long.
func (qs *questions) enter(a *asking, pid int32) (free <-chan struct{}, err error) {
	user := uint32(0)
	trouble := qs.hung.Load() > 0
	if trouble {
		user = a.r.root.User(pid)
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

func (qs *questions) tooManyHang(user uint32) bool {
	if user == 0 {
		return qs.hungOf[0] >= maxHungOfRoot
	}
	return qs.hungOf[user] >= maxHungOf || int(qs.hung.Load()) >= maxHung
}

// leave ends a question, at least about the process that it was about.
func (qs *questions) leave(a *asking) {
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
func (qs *questions) hang(a *asking) {
	qs.mu.Lock()
	defer qs.mu.Unlock()
	p := a.on
	if p == nil || a.hung {
		return
	}
	a.hung, a.user = true, a.r.root.User(p.pid) // the question under way keeps the reader open
	p.asked--
	qs.asked--
	qs.hung.Add(1)
	qs.hungOf[a.user]++
	if p.hung++; p.hung == 1 {
		p.dir, _ = procfs.OpenAt(a.r.root.Dir(), procfs.PIDPath(p.pid, ""), unix.O_PATH|unix.O_DIRECTORY)
	}
	qs.announceLocked()
}

func (qs *questions) announceLocked() {
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
		return err != ErrGone
	}
	unix.Close(fd)
	return true
}
