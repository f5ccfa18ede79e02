package proc

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"latchfs/lockmgr/proc/internal/procfs"
)

// forks remembers which process has started which, also when those between the two
// have ended: /proc then names the process that adopts orphans as the parent. The
// kernel tells of each fork, execve and end over its process events connector, before
// the new process or program runs, so that whoever asks about a process that has made a
// request finds its birth, and its program, in the socket.
//
// The socket is emptied when somebody asks, and otherwise some times a second while
// processes are being started, so that a busy machine does not wake the reader for
// each of them.
type forks struct {
	r    *Reader
	fd   int
	wake int // an eventfd that ends run

	mu     sync.Mutex
	born   map[int32]*forked // mu guards it and what is below
	ended  int               // of born, at least so many have ended
	images uint64            // the number of the latest program
	buf    [256]byte
	lost   bool          // events, so that born may be wrong
	reread time.Duration // when /proc was read last
	closed bool
}

// forked is a process that was started. Its parent is nil if that is not known.
type forked struct {
	pid    int32
	parent *forked
	image  uint64 // the number of the program that it runs
	ended  bool   // its first thread has ended, and most likely the process
	gone   bool   // nothing has its pid, or another process has
}

const (
	// forksEvery is how long the events of forks may gather in the socket.
	forksEvery = 25 * time.Millisecond
	// forksBuffer is the size of the socket's buffer, if the kernel allows that: more
	// than any machine forks in forksEvery.
	forksBuffer = 4 << 20
	// sweepAfter is how many ended processes, beside as many as live, are kept.
	sweepAfter = 1024
	// rereadAfter is how long nothing is read anew after events were lost.
	rereadAfter = time.Second
)

// The namespaces of the first processes.
const (
	initPIDNamespace  = "pid:[4026531836]"
	initUserNamespace = "user:[4026531837]"
)

// FollowForks makes the reader remember from now on which process has started which,
// so that Family knows who has started an orphan. It is called once, before any question. An error says why the kernel does not tell: it does not inside a container,
// nor before Linux 6.6 to an ordinary user.
func (r *Reader) FollowForks() error {
	for file, want := range map[string]string{"self/ns/pid": initPIDNamespace, "self/ns/user": initUserNamespace} {
		if ns, err := r.root.Link(file); err != nil || ns != want {
			return errors.New("the kernel tells of new processes only outside of containers")
		}
	}
	f := &forks{r: r, fd: -1, wake: -1, born: map[int32]*forked{}}
	if err := f.open(); err != nil {
		f.free()
		return fmt.Errorf("process events connector: %w", err)
	}
	f.readProc()
	r.forks = f
	r.root.Retain()
	go f.run()
	return nil
}

// UnfollowForks ends that. It may be called more than once.
func (r *Reader) UnfollowForks() {
	if r.forks != nil {
		r.forks.close()
	}
}

func (f *forks) open() error {
	var err error
	if f.wake, err = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK); err != nil {
		return err
	}
	if f.fd, err = unix.Socket(unix.AF_NETLINK, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, unix.NETLINK_CONNECTOR); err != nil {
		return err
	}
	if unix.SetsockoptInt(f.fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, forksBuffer) != nil {
		_ = unix.SetsockoptInt(f.fd, unix.SOL_SOCKET, unix.SO_RCVBUF, forksBuffer) // as much as it may have
	}
	if err := unix.Bind(f.fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK, Groups: cnIdxProc}); err != nil {
		return err
	}
	if err := f.tell(procListen); err != nil {
		return err
	}
	if err := f.acknowledged(); err != nil {
		return err
	}
	return unix.SetsockoptSockFprog(f.fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, processesOnly())
}

// run empties the socket when nobody asks, until close.
func (f *forks) run() {
	defer f.r.root.Release()
	defer f.free()
	fds := []unix.PollFd{{Fd: int32(f.fd), Events: unix.POLLIN}, {Fd: int32(f.wake), Events: unix.POLLIN}}
	for {
		if _, err := unix.Poll(fds, -1); err != nil && err != unix.EINTR {
			return
		}
		f.mu.Lock()
		if f.closed {
			f.mu.Unlock()
			return
		}
		f.drain()
		f.mu.Unlock()
		_, _ = unix.Poll(fds[1:], int(forksEvery.Milliseconds()))
	}
}

// close ends run. What was learned is no longer asked for.
func (f *forks) close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return // and the descriptor may be another's
	}
	f.closed = true
	_, _ = unix.Write(f.wake, binary.NativeEndian.AppendUint64(nil, 1))
}

func (f *forks) free() {
	if f.fd >= 0 {
		_ = f.tell(procIgnore) // before Linux 6.6 a closed socket still counts as a listener
		unix.Close(f.fd)
	}
	if f.wake >= 0 {
		unix.Close(f.wake)
	}
}

// drain takes in what the kernel has told. mu is held.
func (f *forks) drain() {
	for {
		n, from, err := unix.Recvfrom(f.fd, f.buf[:], unix.MSG_DONTWAIT)
		switch {
		case err == unix.EINTR:
			continue
		case err == unix.ENOBUFS:
			f.lost = true
			continue
		case err != nil:
			f.tidy()
			return
		}
		what, data, ok := event(f.buf[:n], from)
		switch {
		case ok && what == eventFork && data[2] == data[3]:
			f.begun(int32(data[3]), int32(data[1]))
		case ok && what == eventExec:
			f.of(int32(data[1])).image = f.newImage()
		case ok && what == eventExit && data[0] == data[1]:
			f.over(int32(data[1]))
		}
	}
}

// tidy forgets what has ended, and all that may be wrong since events were lost. mu is
// held.
func (f *forks) tidy() {
	switch {
	case f.lost && now()-f.reread >= rereadAfter:
		f.readProc()
	case f.lost:
		clear(f.born)
		f.ended = 0
	case f.ended > sweepAfter+len(f.born)/2:
		f.sweep()
	}
}

// begun notes a fork.
func (f *forks) begun(pid, parent int32) {
	f.forget(pid)
	f.born[pid] = &forked{pid: pid, parent: f.of(parent), image: f.newImage()}
}

// of is what is known of a process that exists.
func (f *forks) of(pid int32) *forked {
	b := f.born[pid]
	if b == nil && pid > 0 {
		b = &forked{pid: pid, image: f.newImage()}
		f.born[pid] = b
	}
	return b
}

// newImage numbers a program. The kernel tells of execve(2) before the new program runs,
// so that the number is another one when it sends its first request.
func (f *forks) newImage() uint64 {
	f.images++
	return f.images
}

// image is the number of the program that a process runs: another process has another
// one, and so has the process after execve(2), or after events were lost. It is 0 where
// the kernel does not tell.
func (f *forks) image(pid int32) uint64 {
	if f == nil {
		return 0
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return 0
	}
	f.drain()
	if b := f.born[pid]; b != nil {
		return b.image
	}
	return 0
}

// over notes the end of a process's first thread. The process goes on if it has other
// threads, or if one of them calls execve, so that nothing is forgotten yet.
func (f *forks) over(pid int32) {
	if b := f.born[pid]; b != nil && !b.ended {
		b.ended = true
		f.ended++
	}
}

// forget takes the process that had a pid out of the table.
func (f *forks) forget(pid int32) {
	if b := f.born[pid]; b != nil {
		b.gone = true
		if b.ended {
			f.ended--
		}
		delete(f.born, pid)
	}
}

// sweep forgets the processes that have ended. Their children keep who has started
// them.
func (f *forks) sweep() {
	for pid, b := range f.born {
		if b.ended && unix.Faccessat(f.r.root.Dir(), strconv.Itoa(int(pid)), unix.F_OK, 0) != nil {
			f.forget(pid)
		}
	}
	f.ended = 0 // those that are still there are looked at again next time
	for _, b := range f.born {
		for b.parent != nil && b.parent.gone {
			b.parent = b.parent.parent
		}
		if b.ended {
			f.ended++
		}
	}
}

// readProc begins anew with what /proc says now, at first and after events were lost.
// Who has started an orphan of before is not known.
func (f *forks) readProc() {
	f.lost, f.reread = false, now()
	clear(f.born)
	f.ended = 0
	dir, err := f.r.root.OpenDir(".")
	if err != nil {
		return
	}
	defer unix.Close(dir)
	_ = procfs.Numbers(dir, func(pid int32) error {
		content, err := f.r.root.ReadAll(procfs.PIDPath(pid, "status"))
		if err != nil {
			return nil
		}
		b := f.of(pid)
		text, _ := procfs.Field(content, "PPid")
		if ppid, err := strconv.ParseInt(text, 10, 32); err == nil && ppid > 1 {
			b.parent = f.of(int32(ppid))
		}
		return nil
	})
}

// orphan is the place in a list of a process and its ancestors, as /proc has them, of
// the first that another process has started than the one above it; -1 if there is none.
// It comes with the pids of those who have started it, the nearest first, of whom some
// may have ended.
func (f *forks) orphan(chain []*known) (at int, starters []int32) {
	if f == nil {
		return -1, nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return -1, nil
	}
	f.drain()
	for i, k := range chain {
		b := f.born[k.tid]
		if b == nil || b.parent == nil || i+1 < len(chain) && b.parent.pid == chain[i+1].tid {
			continue
		}
		for up := b.parent; up != nil && len(starters) < maxLineage; up = up.parent {
			if f.born[up.pid] == up {
				starters = append(starters, up.pid)
			}
		}
		return i, starters
	}
	return -1, nil
}
