// Package ends watches processes until they die, and tells how they ended.
//
// A process is its pid and its start time, so that another one that gets the pid is not
// taken for it; it is dead when its last thread is. A watch costs a parked goroutine and
// a descriptor (pidfd_open(2)), which all watches of a process share. How often and by
// whom a process is watched makes no difference; what its death means is its watchers'.
//
// Mutex order: Watches.mu is the only mutex. Beginning a watch looks at the process with
// it held, by the function that New was given, which must not watch anything.
package ends

import (
	"fmt"
	"os"
	"sync"

	"golang.org/x/sys/unix"

	"latchfs/lockmgr/proc/internal/patience"
	"latchfs/lockmgr/proc/internal/procfs"
)

// Process is a process: its pid, and its start time in clock ticks since boot.
type Process struct {
	PID   int32
	Start uint64
}

// Watches are the processes whose death somebody waits for. All watches of a
// process share one descriptor. The descriptors are polled by the Go runtime,
// which has one epoll set for all of them, so that a watch costs a parked
// goroutine and no thread.
type Watches struct {
	stat func(pid int32) (procfs.Stat, error)

	mu      sync.Mutex
	running map[Process]*watch // mu guards it and the watches' users
}

// New returns no watches yet. stat reads the stat of any process without blocking for
// long: its error is patience.ErrBusy where it cannot at the moment.
func New(stat func(pid int32) (procfs.Stat, error)) *Watches {
	return &Watches{stat: stat, running: map[Process]*watch{}}
}

type watch struct {
	pidfd  *os.File
	dead   chan struct{}
	status int // written before dead is closed, and so is known
	known  bool
	users  int
}

// Watch returns a channel that is closed when the process has died (with all its threads,
// and whether or not it has been waited for), at once if it has died already; status then
// tells how it ended, as wait(2) has it, and whether that could be seen. stop ends the
// watch and may be called more than once; the channel then never closes unless it has.
// The error is that of pidfd_open(2) when there are no descriptors left.
func (ws *Watches) Watch(p Process) (dead <-chan struct{}, status func() (int, bool), stop func(), err error) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	w := ws.running[p]
	if w == nil {
		pidfd, err := ws.pidfd(p)
		if err == procfs.ErrGone {
			dead := make(chan struct{})
			close(dead)
			return dead, func() (int, bool) { return 0, false }, func() {}, nil
		}
		if err != nil {
			return nil, nil, nil, fmt.Errorf("watch process %d: %w", p.PID, err)
		}
		w = &watch{pidfd: pidfd, dead: make(chan struct{})}
		ws.running[p] = w
		go ws.await(p, w)
	}
	w.users++
	return w.dead, func() (int, bool) { return w.status, w.known }, sync.OnceFunc(func() { ws.release(p, w) }), nil
}

// pidfd opens a descriptor of exactly this process.
func (ws *Watches) pidfd(p Process) (*os.File, error) {
	fd, err := unix.PidfdOpen(int(p.PID), unix.PIDFD_NONBLOCK)
	if err != nil {
		return nil, procfs.Gone(err)
	}
	// The descriptor stands for whatever had the pid just now, so the look at
	// the start time has to come second.
	if !ws.isAlive(p) {
		unix.Close(fd)
		return nil, procfs.ErrGone
	}
	return os.NewFile(uintptr(fd), "pidfd"), nil
}

// isAlive reports whether it is that process, which still runs. One that cannot be
// looked at is in execve, and lives.
func (ws *Watches) isAlive(p Process) bool {
	st, err := ws.stat(p.PID)
	return err == patience.ErrBusy || err == nil && st.Runs(p.Start)
}

// await closes the channel when the pidfd becomes readable. It ends without
// doing so when the last user has closed the descriptor.
func (ws *Watches) await(p Process, w *watch) {
	var status int
	var known bool
	conn, err := w.pidfd.SyscallConn()
	if err == nil {
		err = conn.Read(func(fd uintptr) bool {
			if !readable(fd) {
				return false
			}
			status, known = ws.statusOf(p, fd)
			return true
		})
	}
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if ws.running[p] == w {
		delete(ws.running, p)
	}
	if err == nil {
		w.status, w.known = status, known
		close(w.dead)
		w.pidfd.Close()
	}
}

// readable reports whether a descriptor is ready now.
func readable(fd uintptr) bool {
	fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	for {
		n, err := unix.Poll(fds, 0)
		if err != unix.EINTR {
			return n > 0
		}
	}
}

// release ends one use of a watch, and with the last one the watch.
func (ws *Watches) release(p Process, w *watch) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if w.users--; w.users > 0 {
		return
	}
	if ws.running[p] == w {
		delete(ws.running, p)
	}
	w.pidfd.Close()
}
