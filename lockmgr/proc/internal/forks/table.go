package forks

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"latchfs/lockmgr/proc/internal/procfs"
)

// Table is what is known of who has started whom. A nil one knows nothing.
type Table struct {
	root *procfs.Root // retained until run has ended
	fd   int          // the socket
	wake int          // an eventfd that ends run

	mu     sync.Mutex
	born   map[int32]*forked // mu guards it and what is below
	ended  int               // of born, at least so many have ended
	latest uint64            // the number that was given out last
	buf    [256]byte
	lost   bool      // events, so that born may be wrong
	reread time.Time // when /proc was read last
	closed bool
}

// forked is a process that was started. Its parent is nil if that is not known.
type forked struct {
	pid    int32
	parent *forked
	image  uint64 // the number of the program that it runs
	source uint64 // that of the process in which the program was begun: forks of it have the same
	// elsewhere is 0 if no thread but the first has children, and changes when one has started some.
	elsewhere uint64
	ended     bool // its first thread has ended, and most likely the process
	gone      bool // nothing has its pid, or another process has
}

const (
	// gatherFor is how long the events of forks may gather in the socket.
	gatherFor = 25 * time.Millisecond
	// bufferSize is the size of the socket's buffer, if the kernel allows that: more
	// than any machine forks in gatherFor.
	bufferSize = 4 << 20
	// sweepAfter is how many ended processes, beside as many as live, are kept.
	sweepAfter = 1024
	// maxStarters bounds what Orphan answers.
	maxStarters = 256
	// rereadAfter is how long nothing is read anew after events were lost.
	rereadAfter = time.Second
)

// The namespaces of the first processes.
const (
	initPIDNamespace  = "pid:[4026531836]"
	initUserNamespace = "user:[4026531837]"
)

// Follow remembers from now on which process has started which, until Close. An error says
// why the kernel does not tell.
func Follow(root *procfs.Root) (*Table, error) {
	for file, want := range map[string]string{"self/ns/pid": initPIDNamespace, "self/ns/user": initUserNamespace} {
		if ns, err := root.Link(file); err != nil || ns != want {
			return nil, errors.New("the kernel tells of new processes only outside of containers")
		}
	}
	t := &Table{root: root, fd: -1, wake: -1, born: map[int32]*forked{}}
	if err := t.open(); err != nil {
		t.free()
		return nil, fmt.Errorf("process events connector: %w", err)
	}
	t.readProc()
	root.Retain()
	go t.run()
	return t, nil
}

func (t *Table) open() error {
	var err error
	if t.wake, err = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK); err != nil {
		return err
	}
	if t.fd, err = unix.Socket(unix.AF_NETLINK, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, unix.NETLINK_CONNECTOR); err != nil {
		return err
	}
	if unix.SetsockoptInt(t.fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, bufferSize) != nil {
		_ = unix.SetsockoptInt(t.fd, unix.SOL_SOCKET, unix.SO_RCVBUF, bufferSize) // as much as it may have
	}
	if err := unix.Bind(t.fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK, Groups: cnIdxProc}); err != nil {
		return err
	}
	if err := t.tell(procListen); err != nil {
		return err
	}
	if err := t.acknowledged(); err != nil {
		return err
	}
	return unix.SetsockoptSockFprog(t.fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, processesOnly())
}

// run empties the socket when nobody asks, until Close.
func (t *Table) run() {
	defer t.root.Release()
	defer t.free()
	fds := []unix.PollFd{{Fd: int32(t.fd), Events: unix.POLLIN}, {Fd: int32(t.wake), Events: unix.POLLIN}}
	for {
		if _, err := unix.Poll(fds, -1); err != nil && err != unix.EINTR {
			return
		}
		t.mu.Lock()
		if t.closed {
			t.mu.Unlock()
			return
		}
		t.drain()
		t.mu.Unlock()
		_, _ = unix.Poll(fds[1:], int(gatherFor.Milliseconds()))
	}
}

// Close ends it: from then on nothing is known. It may be called more than once.
func (t *Table) Close() {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return // and the descriptor may be another's
	}
	t.closed = true
	_, _ = unix.Write(t.wake, binary.NativeEndian.AppendUint64(nil, 1))
}

func (t *Table) free() {
	if t.fd >= 0 {
		_ = t.tell(procIgnore) // before Linux 6.6 a closed socket still counts as a listener
		unix.Close(t.fd)
	}
	if t.wake >= 0 {
		unix.Close(t.wake)
	}
}

// drain takes in what the kernel has told. mu is held.
func (t *Table) drain() {
	for {
		n, from, err := unix.Recvfrom(t.fd, t.buf[:], unix.MSG_DONTWAIT)
		switch {
		case err == unix.EINTR:
			continue
		case err == unix.ENOBUFS:
			t.lost = true
			continue
		case err != nil:
			t.tidy()
			return
		}
		what, data, ok := event(t.buf[:n], from)
		switch {
		case ok && what == eventFork && data[2] == data[3]:
			t.begun(int32(data[3]), int32(data[1]), int32(data[0]))
		case ok && what == eventExec:
			t.execed(int32(data[1]))
		case ok && what == eventExit && data[0] == data[1]:
			t.over(int32(data[1]))
		}
	}
}

// tidy forgets what has ended, and all that may be wrong since events were lost. mu is
// held.
func (t *Table) tidy() {
	switch {
	case t.lost && time.Since(t.reread) >= rereadAfter:
		t.readProc()
	case t.lost:
		clear(t.born)
		t.ended = 0
	case t.ended > sweepAfter+len(t.born)/2:
		t.sweep()
	}
}

// begun notes a fork by a thread of the parent.
func (t *Table) begun(pid, parent, thread int32) {
	t.forget(pid)
	p := t.of(parent)
	b := &forked{pid: pid, parent: p, image: t.newNumber()}
	if p != nil {
		b.source = p.source
		if thread != parent {
			p.elsewhere = t.newNumber()
		}
	}
	t.born[pid] = b
}

// of is what is known of a process that exists. What it has started before is not known.
func (t *Table) of(pid int32) *forked {
	b := t.born[pid]
	if b == nil && pid > 0 {
		b = &forked{pid: pid, elsewhere: t.newNumber()}
		b.begin(t.newNumber())
		t.born[pid] = b
	}
	return b
}

// execed notes that a process has called execve(2): it has one thread now, the first, whichever
// thread has called.
func (t *Table) execed(pid int32) {
	b := t.of(pid)
	b.begin(t.newNumber())
	b.elsewhere = 0
	if b.ended {
		b.ended = false
		t.ended--
	}
}

// newNumber numbers a program, or what a thread has started. The kernel tells of both before
// what is new runs, so that the number is another one when it sends its first request.
func (t *Table) newNumber() uint64 {
	t.latest++
	return t.latest
}

// Image is the number of the program that a process runs: another process has another
// one, and so has the process after execve(2), or after events were lost. It is 0 where
// the kernel does not tell.
func (t *Table) Image(pid int32) uint64 {
	if t == nil {
		return 0
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return 0
	}
	t.drain()
	if b := t.born[pid]; b != nil {
		return b.image
	}
	return 0
}

// notKnown is the number of what the table does not know.
const notKnown = math.MaxUint64

// Elsewhere is 0 if all children of a process are its first thread's, as long as that has
// not ended. A child is that of the thread which has started it, and when this ends that of the
// first. Any other number says that nobody knows; it is for NoneElsewhere.
func (t *Table) Elsewhere(pid int32) uint64 {
	if t == nil {
		return notKnown
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return notKnown
	}
	t.drain()
	if b := t.born[pid]; b != nil && !b.ended {
		return b.elsewhere
	}
	return notKnown
}

// NoneElsewhere notes that a look at the threads of a process has shown no children but those
// of the first. told is what Elsewhere has answered before the look.
func (t *Table) NoneElsewhere(pid int32, told uint64) {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if b := t.born[pid]; b != nil && b.elsewhere == told {
		b.elsewhere = 0
	}
}

// begin notes that the process has begun to run a program.
func (b *forked) begin(image uint64) { b.image, b.source = image, image }

// RunsAsParent reports whether a process runs the program of its parent: it was forked from
// that, neither has called execve(2) since, and the parent lives. It is false where that
// is not known.
func (t *Table) RunsAsParent(pid int32) bool {
	if t == nil {
		return false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return false
	}
	t.drain()
	b := t.born[pid]
	return b != nil && b.parent != nil && !b.parent.ended && !b.parent.gone && b.source == b.parent.source
}

// over notes the end of a process's first thread. The process goes on if it has other
// threads, or if one of them calls execve, so that nothing is forgotten yet.
func (t *Table) over(pid int32) {
	if b := t.born[pid]; b != nil && !b.ended {
		b.ended = true
		t.ended++
	}
}

// forget takes the process that had a pid out of the table.
func (t *Table) forget(pid int32) {
	if b := t.born[pid]; b != nil {
		b.gone = true
		if b.ended {
			t.ended--
		}
		delete(t.born, pid)
	}
}

// sweep forgets the processes that have ended. Their children keep who has started
// them.
func (t *Table) sweep() {
	for pid, b := range t.born {
		if b.ended && unix.Faccessat(t.root.Dir(), strconv.Itoa(int(pid)), unix.F_OK, 0) != nil {
			t.forget(pid)
		}
	}
	t.ended = 0 // those that are still there are looked at again next time
	for _, b := range t.born {
		for b.parent != nil && b.parent.gone {
			b.parent = b.parent.parent
		}
		if b.ended {
			t.ended++
		}
	}
}

// readProc begins anew with what /proc says now, at first and after events were lost.
// Who has started an orphan of before is not known.
func (t *Table) readProc() {
	t.lost, t.reread = false, time.Now()
	clear(t.born)
	t.ended = 0
	dir, err := t.root.OpenDir(".")
	if err != nil {
		return
	}
	defer unix.Close(dir)
	_ = procfs.Numbers(dir, func(pid int32) error {
		content, err := t.root.ReadAll(procfs.PIDPath(pid, "status"))
		if err != nil {
			return nil
		}
		b := t.of(pid)
		text, _ := procfs.Field(content, "PPid")
		if ppid, err := strconv.ParseInt(text, 10, 32); err == nil && ppid > 1 {
			b.parent = t.of(int32(ppid))
		}
		return nil
	})
}

// Orphan is the place in a list of a process and its ancestors, as /proc has them, of
// the first that another process has started than the one above it; -1 if there is none.
// It comes with the pids of those who have started it, the nearest first and 256 at most,
// of whom some may have ended.
func (t *Table) Orphan(chain []int32) (at int, starters []int32) {
	if t == nil {
		return -1, nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return -1, nil
	}
	t.drain()
	for i, pid := range chain {
		b := t.born[pid]
		if b == nil || b.parent == nil || i+1 < len(chain) && b.parent.pid == chain[i+1] {
			continue
		}
		for up := b.parent; up != nil && len(starters) < maxStarters; up = up.parent {
			if t.born[up.pid] == up {
				starters = append(starters, up.pid)
			}
		}
		return i, starters
	}
	return -1, nil
}
