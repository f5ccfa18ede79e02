package fs

import (
	"fmt"
	"maps"
	"os"
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
	w      *simWorld
	pid    int32
	birth  lockmgr.Birth
	parent *simProc // nil of those whose parent is the first process
	comm   string
	fds    map[int]*simFile
	call   proc.Call
	inCall bool
	cancel chan struct{} // of the request that is under way
	using  map[*simInode]bool
	signal int
	ending bool
	gone   bool
	dead   chan struct{}
	doing  string
}

func (p *simProc) String() string { return fmt.Sprintf("%s[%d]", p.comm, p.pid-firstPID) }

func (p *simProc) owner() lockmgr.Owner { return lockmgr.Owner{PID: p.pid, Start: p.birth.Tick} }

func (p *simProc) isKilled() bool {
	p.w.procs.mu.Lock()
	defer p.w.procs.mu.Unlock()
	return p.signal != 0
}

func (p *simProc) nameOf(n *simInode) string { return fmt.Sprintf("of node %d", n.id) }

func (p *simProc) uses(n *simInode) { p.w.kernel.use(p, n) }

func (k *simKernel) use(p *simProc, n *simInode) {
	k.mu.Lock()
	defer k.mu.Unlock()
	p.using[n] = true
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
	if p.signal != 0 || p.ending {
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
	ps := p.w.procs
	ps.mu.Lock()
	defer ps.mu.Unlock()
	p.call, p.inCall, p.doing = proc.Call{Nr: nr}, true, what
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
	k := p.w.kernel
	k.mu.Lock()
	clear(p.using)
	k.mu.Unlock()
	p.leaveIfKilled()
}

func (p *simProc) leaveIfKilled() {
	if p.isKilled() {
		runtime.Goexit() // end runs as the program's deferred call
	}
}

// end is the end of the process: its descriptors are closed one after the other.
func (p *simProc) end() {
	ps := p.w.procs
	ps.mu.Lock()
	p.ending, p.inCall = true, false
	files := p.fds
	p.fds = map[int]*simFile{} // exit_files takes the table away, and then closes each
	ps.mu.Unlock()
	for _, fd := range slices.Sorted(maps.Keys(files)) {
		p.flush(files[fd])
	}
	k := p.w.kernel
	k.mu.Lock()
	clear(p.using)
	k.mu.Unlock()
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
func (ps *simProcs) fork(parent *simProc, comm string) *simProc {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	ps.last++
	p := &simProc{
		w: ps.w, pid: ps.last, birth: lockmgr.Birth{Tick: ps.tick(), PID: ps.last}, parent: parent, comm: comm,
		fds: map[int]*simFile{}, using: map[*simInode]bool{}, dead: make(chan struct{}),
	}
	if parent != nil {
		for fd, f := range parent.fds {
			p.fds[fd] = f
			ps.w.kernel.mu.Lock()
			f.refs++
			ps.w.kernel.mu.Unlock()
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

// Thread implements Procs.
func (ps *simProcs) Thread(tid uint32) (proc.Thread, error) {
	if tid == 0 {
		return proc.Thread{}, proc.ErrForeign
	}
	p := ps.get(int32(tid))
	if p == nil {
		return proc.Thread{}, proc.ErrGone
	}
	t := proc.Thread{TID: p.pid, TGID: p.pid, Start: p.birth.Tick, Owner: p.owner(), PPID: 1}
	if p.parent != nil {
		t.PPID = p.parent.pid
	}
	return t, nil
}

// Opener implements Procs.
func (ps *simProcs) Opener(tid uint32) (proc.Thread, error) { return ps.Thread(tid) }

// Process implements Procs.
func (ps *simProcs) Process(pid int32) (proc.Thread, error) {
	ps.w.perhapsPark("the daemon looks at a process")
	return ps.Thread(uint32(pid))
}

// All implements Procs.
func (ps *simProcs) All() (all []lockmgr.Owner) {
	for _, p := range ps.living() {
		all = append(all, p.owner())
	}
	return all
}

// Now implements Procs.
func (ps *simProcs) Now() lockmgr.Birth {
	ps.w.perhapsPark("the daemon asks what time it is")
	ps.mu.Lock()
	defer ps.mu.Unlock()
	return lockmgr.Birth{Tick: ps.tick(), PID: ps.last}
}

// Lineage implements Procs. The daemon asks once for each caller, and others may wait
// for the answer, which the bubble does not see: nobody stops here.
func (ps *simProcs) Lineage(pid int32) (up []lockmgr.Ancestor) {
	for p := ps.get(pid); p != nil && p.parent != nil; p = p.parent {
		up = append(up, lockmgr.Ancestor{Owner: p.parent.owner(), Child: p.birth})
	}
	return up
}

// Family implements Procs.
func (ps *simProcs) Family(o lockmgr.Owner) (f proc.Family) {
	for p := ps.get(o.PID); p != nil && p.parent != nil; p = p.parent {
		if len(f.Relatives) < 3 {
			f.Relatives = append(f.Relatives, p.parent.owner())
		} else {
			f.Above = append(f.Above, p.parent.owner())
		}
	}
	return f
}

// Descendants implements Procs.
func (ps *simProcs) Descendants(pid int32) (below []int32) {
	ps.w.perhapsPark("the daemon looks for descendants")
	for _, p := range ps.living() {
		for up := p.parent; up != nil; up = up.parent {
			if up.pid == pid {
				below = append(below, p.pid)
			}
			if up.gone {
				break // its children are the first process's
			}
		}
	}
	return below
}

// FollowForks implements Procs.
func (ps *simProcs) FollowForks() error { return nil }

// UnfollowForks implements Procs.
func (ps *simProcs) UnfollowForks() {}

// Alive implements Procs.
func (ps *simProcs) Alive(o lockmgr.Owner) bool {
	p := ps.get(o.PID)
	return p != nil && p.owner() == o
}

// Exit implements Procs.
func (ps *simProcs) Exit(tid uint32) (sig int, exiting bool) {
	p := ps.get(int32(tid))
	if p == nil {
		return 0, true
	}
	ps.mu.Lock()
	defer ps.mu.Unlock()
	if !p.ending {
		return 0, false
	}
	return p.signal, true
}

// Watch implements Procs.
func (ps *simProcs) Watch(o lockmgr.Owner) (dead <-chan struct{}, stop func(), err error) {
	dead, _, stop, err = ps.WatchEnd(o)
	return dead, stop, err
}

// WatchEnd implements Procs.
func (ps *simProcs) WatchEnd(o lockmgr.Owner) (dead <-chan struct{}, end func() proc.End, stop func(), err error) {
	if o.PID <= 0 {
		return nil, nil, nil, proc.ErrForeign
	}
	ps.mu.Lock()
	defer ps.mu.Unlock()
	p := ps.all[o.PID]
	if p == nil || p.owner() != o {
		gone := make(chan struct{})
		close(gone)
		return gone, func() proc.End { return proc.End{} }, func() {}, nil
	}
	return p.dead, func() proc.End { return proc.End{Known: true, Status: p.signal} }, func() {}, nil
}

// Pulse implements Procs.
func (ps *simProcs) Pulse(pid int32) (proc.Pulse, error) {
	p := ps.get(pid)
	if p == nil {
		return proc.Pulse{}, proc.ErrGone
	}
	return proc.Pulse{Start: p.birth.Tick, CPU: time.Since(ps.began), Threads: 1, State: 'S'}, nil
}

// Pending implements Procs.
func (ps *simProcs) Pending(tid uint32) proc.Pending {
	p := ps.get(int32(tid))
	if p == nil || p.isKilled() {
		return proc.Interrupt
	}
	return proc.Nothing
}

// Syscall implements Procs.
func (ps *simProcs) Syscall(tid uint32) (call proc.Call, ok bool) {
	p := ps.get(int32(tid))
	if p == nil {
		return proc.Call{}, false
	}
	ps.mu.Lock()
	defer ps.mu.Unlock()
	return p.call, p.inCall
}

// GivenPath implements Procs.
func (ps *simProcs) GivenPath(tid uint32) (g proc.Given, ok bool) {
	p := ps.get(int32(tid))
	if p == nil {
		return proc.Given{}, false
	}
	root := ps.w.fs.inoOf(ps.w.fs.nodeOf(rootID)).ino
	ps.mu.Lock()
	defer ps.mu.Unlock()
	if !p.inCall || p.call.Nr != unix.SYS_OPENAT {
		return proc.Given{}, false
	}
	for path, at := range ps.pointers {
		if at == p.call.Args[1] {
			return proc.Given{Path: path, Dev: ps.w.fs.mountDev, Ino: root}, true
		}
	}
	return proc.Given{}, false
}

// Opens implements Procs.
func (ps *simProcs) Opens(pid int32, f proc.File) (writable, readable int, err error) {
	p := ps.get(pid)
	if p == nil {
		return 0, 0, nil
	}
	k := ps.w.kernel
	ps.mu.Lock()
	defer ps.mu.Unlock()
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, o := range p.fds {
		ino := o.inode.attr.Ino
		switch {
		case f.Dev != k.fs.mountDev || ino != f.Ino && !slices.Contains(f.Also, ino):
		case f.NoAppend && o.flags&unix.O_APPEND != 0:
		case o.writes():
			writable++
		default:
			readable++
		}
	}
	return writable, readable, nil
}

// Descriptors implements Procs.
func (ps *simProcs) Descriptors(pid int32) int64 { return 8 }

// AtStart implements Procs.
func (ps *simProcs) AtStart(int32, proc.File) bool { return false }

// IsOutput implements Procs.
func (ps *simProcs) IsOutput(int32, proc.File) bool { return false }

// MapsWritable implements Procs.
func (ps *simProcs) MapsWritable(int32, proc.File, proc.File) (bool, error) { return false, nil }

// Describe implements Procs. As in Lineage, nobody stops here.
func (ps *simProcs) Describe(pid int32) proc.Description {
	d := proc.Description{UID: ps.w.uid}
	if p := ps.get(pid); p != nil {
		d.Program = p.comm
	}
	return d
}

// Program implements Procs.
func (ps *simProcs) Program(pid int32) string {
	ps.w.perhapsPark("the daemon asks for a program's name")
	if p := ps.get(pid); p != nil {
		return p.comm
	}
	return ""
}

// Identify implements Procs.
func (ps *simProcs) Identify(pid int32) proc.Program { return proc.Program{Comm: ps.Program(pid)} }

// EnvOf implements Procs.
func (ps *simProcs) EnvOf(lockmgr.Owner, []string) string { return "" }

// HasCap implements Procs.
func (ps *simProcs) HasCap(uint32, int) bool { return ps.w.uid == 0 }

// Groups implements Procs.
func (ps *simProcs) Groups(uint32) (groups []uint32, known bool) {
	all, err := os.Getgroups()
	for _, g := range all {
		groups = append(groups, uint32(g))
	}
	return groups, err == nil
}
