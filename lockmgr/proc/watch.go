package proc

import (
	"fmt"
	"os"
	"sync"

	"golang.org/x/sys/unix"

	"latchfs/lockmgr"
	"latchfs/lockmgr/proc/internal/procfs"
)

// watches are the processes whose death somebody waits for. All watches of a
// process share one descriptor. The descriptors are polled by the Go runtime,
// which has one epoll set for all of them, so that a watch costs a parked
// goroutine and no thread.
type watches struct {
	mu      sync.Mutex
	running map[lockmgr.Owner]*watch // mu guards it and the watches' users
}

type watch struct {
	pidfd *os.File
	dead  chan struct{}
	end   End // written before dead is closed
	users int
}

// Watch returns a channel that is closed when the process has died (with all its
// threads, and whether or not it has been waited for), at once if it has died
// already. The function ends the watch and may be called more than once; the
// channel then never closes unless it has. The error is ErrForeign for a process
// that cannot be seen, or that of pidfd_open(2) when there are no descriptors
// left.
func (r *Reader) Watch(o lockmgr.Owner) (<-chan struct{}, func(), error) {
	dead, _, stop, err := r.WatchEnd(o)
	return dead, stop, err
}

// WatchEnd is Watch, with a function that tells how the process ended once the
// channel is closed.
func (r *Reader) WatchEnd(o lockmgr.Owner) (<-chan struct{}, func() End, func(), error) {
	if o.PID <= 0 {
		return nil, nil, nil, ErrForeign
	}
	ws := &r.watches
	ws.mu.Lock()
	defer ws.mu.Unlock()
	w := ws.running[o]
	if w == nil {
		pidfd, err := r.pidfd(o)
		if err == ErrGone {
			dead := make(chan struct{})
			close(dead)
			return dead, func() End { return End{} }, func() {}, nil
		}
		if err != nil {
			return nil, nil, nil, fmt.Errorf("watch process %d: %w", o.PID, err)
		}
		w = &watch{pidfd: pidfd, dead: make(chan struct{})}
		if ws.running == nil {
			ws.running = map[lockmgr.Owner]*watch{}
		}
		ws.running[o] = w
		go r.await(o, w)
	}
	w.users++
	return w.dead, func() End { return w.end }, sync.OnceFunc(func() { ws.release(o, w) }), nil
}

// pidfd opens a descriptor of exactly this process.
func (r *Reader) pidfd(o lockmgr.Owner) (*os.File, error) {
	fd, err := unix.PidfdOpen(int(o.PID), unix.PIDFD_NONBLOCK)
	if err != nil {
		return nil, procfs.Gone(err)
	}
	// The descriptor stands for whatever had the pid just now, so the look at
	// the start time has to come second.
	if !r.Alive(o) {
		unix.Close(fd)
		return nil, ErrGone
	}
	return os.NewFile(uintptr(fd), "pidfd"), nil
}

// await closes the channel when the pidfd becomes readable. It ends without
// doing so when the last user has closed the descriptor.
func (r *Reader) await(o lockmgr.Owner, w *watch) {
	ws := &r.watches
	var end End
	conn, err := w.pidfd.SyscallConn()
	if err == nil {
		err = conn.Read(func(fd uintptr) bool {
			if !readable(fd) {
				return false
			}
			end = r.endOf(o, fd)
			return true
		})
	}
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if ws.running[o] == w {
		delete(ws.running, o)
	}
	if err == nil {
		w.end = end
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
func (ws *watches) release(o lockmgr.Owner, w *watch) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if w.users--; w.users > 0 {
		return
	}
	if ws.running[o] == w {
		delete(ws.running, o)
	}
	w.pidfd.Close()
}
