package fs

import (
	"fmt"
	"maps"
	"runtime"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"latchfs/lockmgr"
	"latchfs/lockmgr/proc"
)

// firstPID is above every pid that Linux gives out (PID_MAX_LIMIT): nobody takes a
// process of the simulation for a real one.
const firstPID = 5_000_000

// simProc is a process of the simulation: one thread, which runs a program of system
// calls. Its fields are guarded by simProcs.mu.
type simProc struct {
	w       *simWorld
	pid     int32
	birth   lockmgr.Birth
	parent  *simProc // nil of those whose parent is the first process
	comm    string
	uid     uint32
	called  int64 // when its system call began
	fds     map[int]*simFile
	maps    []*simMapping
	stored  map[string]bool // versions, into mappings; its own
	steady  bool            // it is not killed at this moment
	hidden  bool            // from the daemon: see sim_hidden_test.go
	bad     bool            // what it writes is what validators refuse; its own
	call    proc.Call
	inCall  bool
	cancel  chan struct{}         // of the request that is under way
	using   map[*simInode]bool    // guarded by simWorld.mu
	kernel  *simKernel            // of the mount on which its system call has begun
	readOn  *simKernel            // the mount on which it has read last
	deaf    map[simName]time.Time // when it was refused a rename away from the name; its own
	seen    map[string]simSeen    // what it has read; its own
	last    simSeen               // likewise, of the path that it has read last
	signal  int
	txn     *simTxn // in which it is; or nil
	stopped simStop
	robbed  int64 // when a lock of it was stolen last
	ending  bool
	wrote   bool // anything
	gone    bool
	dead    chan struct{}
	doing   string
}

func (p *simProc) String() string { return fmt.Sprintf("%s[%d]", p.comm, max(p.pid-firstPID, 0)) }

func (p *simProc) owner() lockmgr.Owner { return lockmgr.Owner{PID: p.pid, Start: p.birth.Tick} }

func (p *simProc) isKilled() bool {
	p.w.procs.mu.Lock()
	defer p.w.procs.mu.Unlock()
	return p.signal != 0
}

func (p *simProc) nameOf(n *simInode) string { return fmt.Sprintf("of node %d", n.id) }

// uses notes that the process's system call uses an inode of the kernel's.
func (p *simProc) uses(n *simInode) {
	p.w.mu.Lock()
	defer p.w.mu.Unlock()
	p.using[n] = true
}

func (p *simProc) usesNothing() {
	p.w.mu.Lock()
	defer p.w.mu.Unlock()
	clear(p.using)
}

// begins and ends enclose a request, which a signal interrupts but for a FLUSH.
func (p *simProc) begins(force bool) <-chan struct{} {
	p.w.procs.mu.Lock()
	defer p.w.procs.mu.Unlock()
	ch := make(chan struct{})
	if !force {
		p.cancel = ch
		if p.signal != 0 {
			close(ch)
		}
	}
	return ch
}

func (p *simProc) ends() {
	p.w.procs.mu.Lock()
	defer p.w.procs.mu.Unlock()
	p.cancel = nil
}

// kill sends SIGKILL. The process ends as soon as it is out of the daemon.
func (p *simProc) kill() {
	p.w.procs.mu.Lock()
	defer p.w.procs.mu.Unlock()
	if p.signal != 0 || p.ending || p.steady {
		return
	}
	p.signal = int(unix.SIGKILL)
	if p.cancel != nil {
		close(p.cancel)
	}
}

// enter begins a system call. One with the same arguments looks the same each time.
func (p *simProc) enter(nr int, what string, args ...string) {
	p.w.park(p.String() + " is about to call " + what)
	p.leaveIfKilled()
	p.kernel = p.w.kernel
	ps := p.w.procs
	ps.mu.Lock()
	defer ps.mu.Unlock()
	p.call, p.inCall, p.doing, p.called = proc.Call{Nr: nr}, true, what, p.w.now()
	for i, a := range args {
		p.call.Args[i] = ps.pointer(a)
	}
}

// leave ends a system call.
func (p *simProc) leave() {
	ps := p.w.procs
	ps.mu.Lock()
	p.inCall, p.doing = false, ""
	ps.mu.Unlock()
	p.usesNothing()
	p.leaveIfKilled()
}

func (p *simProc) leaveIfKilled() {
	if p.isKilled() {
		runtime.Goexit() // end runs as the program's deferred call
	}
}

// exit is exit(2).
func (p *simProc) exit() { runtime.Goexit() }

// end is the end of the process: its descriptors are closed one after the other.
func (p *simProc) end() {
	ps := p.w.procs
	ps.mu.Lock()
	p.ending, p.inCall = true, false
	files, mapped := p.fds, p.maps
	p.fds, p.maps = map[int]*simFile{}, nil // exit_files takes the table away, and then closes each
	ps.mu.Unlock()
	for _, m := range mapped { // exit_mm comes first
		m.f.k.munmap(m)
	}
	for _, fd := range slices.Sorted(maps.Keys(files)) {
		p.w.model.closesLock(files[fd])
		p.flush(files[fd])
	}
	p.usesNothing()
	if p.txn != nil && p.txn.sent != 0 { // and nobody has read the answer
		p.w.model.decided(p, false, unix.EINTR)
	}
	ps.mu.Lock()
	p.gone = true
	signal := p.signal
	ps.mu.Unlock()
	if signal != 0 {
		p.w.logf("%s is dead, killed", p)
	} else {
		p.w.logf("%s has ended", p)
	}
	close(p.dead)
}

// simProcs are the processes of the simulation, as the filesystem learns of them.
type simProcs struct {
	w     *simWorld
	began time.Time

	mu       sync.Mutex
	all      map[int32]*simProc
	last     int32
	pointers map[string]uint64
}

func newSimProcs(w *simWorld) *simProcs {
	return &simProcs{w: w, began: time.Now(), all: map[int32]*simProc{}, last: firstPID, pointers: map[string]uint64{}}
}

// pointer is the address of a string, the same each time. mu is held.
func (ps *simProcs) pointer(s string) uint64 {
	at, ok := ps.pointers[s]
	if !ok {
		at = 0x7ffd00000000 + uint64(len(ps.pointers))*64
		ps.pointers[s] = at
	}
	return at
}

func (ps *simProcs) tick() uint64 { return 1000 + uint64(time.Since(ps.began)/(10*time.Millisecond)) }

// fork makes a process, with the descriptors of its parent if it has one.
func (ps *simProcs) fork(parent *simProc, prog simProgram) *simProc {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	ps.last++
	comm, uid := prog.name, ps.w.uid
	if comm == simGuest {
		uid = guestUID
	}
	p := &simProc{
		w: ps.w, uid: uid, pid: ps.last, birth: lockmgr.Birth{Tick: ps.tick(), PID: ps.last}, parent: parent, comm: comm,
		fds: map[int]*simFile{}, using: map[*simInode]bool{}, dead: make(chan struct{}),
		deaf: map[simName]time.Time{}, stored: map[string]bool{}, seen: map[string]simSeen{},
	}
	if parent != nil {
		p.hidden = ps.isChildHidden(parent, p.pid, prog)
		for fd, f := range parent.fds {
			p.fds[fd] = f
			f.k.mu.Lock()
			f.refs++
			f.k.mu.Unlock()
		}
	}
	ps.all[p.pid] = p
	return p
}

func (ps *simProcs) get(pid int32) *simProc {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	if p := ps.all[pid]; p != nil && !p.gone {
		return p
	}
	return nil
}

func (ps *simProcs) living() []*simProc {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	var out []*simProc
	for _, pid := range slices.Sorted(maps.Keys(ps.all)) {
		if !ps.all[pid].gone {
			out = append(out, ps.all[pid])
		}
	}
	return out
}
