package fs

import (
	"os"
	"slices"

	"golang.org/x/sys/unix"

	"latchfs/lockmgr"
	"latchfs/lockmgr/proc"
)

// simEyes are what a daemon learns of the processes of a simulation.
type simEyes struct {
	*simProcs
	d *simDaemon
}

// Thread implements Procs.
func (ps simEyes) Thread(tid uint32) (proc.Thread, error) {
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
func (ps simEyes) Opener(tid uint32) (proc.Thread, error) { return ps.Thread(tid) }

// Process implements Procs.
func (ps simEyes) Process(pid int32) (proc.Thread, error) {
	ps.d.perhapsPark("the daemon looks at a process")
	return ps.Thread(uint32(pid))
}

// All implements Procs.
func (ps simEyes) All() (all []lockmgr.Owner) {
	for _, p := range ps.living() {
		if !p.isUnseen() {
			all = append(all, p.owner())
		}
	}
	return all
}

// Now implements Procs.
func (ps simEyes) Now() lockmgr.Birth {
	ps.d.perhapsPark("the daemon asks what time it is")
	ps.mu.Lock()
	defer ps.mu.Unlock()
	return lockmgr.Birth{Tick: ps.tick(), PID: ps.last}
}

// Lineage implements Procs. The daemon asks once for each caller, and others may wait
// for the answer, which the bubble does not see: nobody stops here.
func (ps simEyes) Lineage(pid int32) (up []lockmgr.Ancestor) {
	for p := ps.get(pid); p != nil && p.parent != nil; p = p.parent {
		up = append(up, lockmgr.Ancestor{Owner: p.parent.owner(), Child: p.birth})
	}
	return up
}

// IDs implements Procs. All processes are in one pid namespace.
func (ps simEyes) IDs(pid int32) []int32 { return []int32{pid} }

// Family implements Procs.
func (ps simEyes) Family(o lockmgr.Owner) (f proc.Family) {
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
func (ps simEyes) Descendants(pid int32) (below []int32) {
	ps.d.perhapsPark("the daemon looks for descendants")
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
func (ps simEyes) FollowForks() error { return nil }

// UnfollowForks implements Procs.
func (ps simEyes) UnfollowForks() {}

// Alive implements Procs.
func (ps simEyes) Alive(o lockmgr.Owner) bool {
	p := ps.get(o.PID)
	return p != nil && p.owner() == o
}

// Exit implements Procs.
func (ps simEyes) Exit(tid uint32) (sig int, exiting bool) {
	if tid == 0 {
		return 0, false
	}
	p := ps.get(int32(tid))
	if p == nil {
		return 0, true
	}
	ps.mu.Lock()
	defer ps.mu.Unlock()
	if !p.ending || ps.hidesLocked(p) {
		return 0, p.ending
	}
	return p.signal, true
}

// ExitOf implements Procs.
func (ps simEyes) ExitOf(pid int32) (sig int, exiting bool) { return ps.Exit(uint32(pid)) }

// HasWritten implements Procs.
func (ps simEyes) HasWritten(pid int32) (written, known bool) {
	p := ps.get(pid)
	if p == nil || ps.hides(p) {
		return false, false
	}
	ps.mu.Lock()
	defer ps.mu.Unlock()
	return p.wrote, true
}

// RunsAsParent implements Procs. It is asked of those who are asked to stop, as nobody is here.
func (ps simEyes) RunsAsParent(int32) bool { return false }

// Closer implements Procs.
func (ps simEyes) Closer(tid uint32) (th proc.Thread, sig int, exiting bool, err error) {
	if th, err = ps.Thread(tid); err == nil {
		sig, exiting = ps.Exit(tid)
	}
	return th, sig, exiting, err
}

// Watch implements Procs.
func (ps simEyes) Watch(o lockmgr.Owner) (dead <-chan struct{}, stop func(), err error) {
	dead, _, stop, err = ps.WatchEnd(o)
	return dead, stop, err
}

// WatchEnd implements Procs.
func (ps simEyes) WatchEnd(o lockmgr.Owner) (dead <-chan struct{}, end func() proc.End, stop func(), err error) {
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
	known := ps.w.opts.script.hazards.tells() || !p.hidden
	return p.dead, func() proc.End { return proc.End{Known: known, Status: p.signal} }, func() {}, nil
}

// Pulse implements Procs.
func (ps simEyes) Pulse(pid int32) (proc.Pulse, error) {
	p := ps.get(pid)
	if p == nil {
		return proc.Pulse{}, proc.ErrGone
	}
	ps.mu.Lock()
	defer ps.mu.Unlock()
	used, state := p.stopped.cpu(ps.began)
	return proc.Pulse{Start: p.birth.Tick, CPU: used, Threads: 1, State: state}, nil
}

// Pending implements Procs.
func (ps simEyes) Pending(tid uint32) proc.Pending {
	p := ps.get(int32(tid))
	if p == nil || p.isKilled() {
		return proc.Interrupt
	}
	return proc.Nothing
}

// Syscall implements Procs.
func (ps simEyes) Syscall(tid uint32) (call proc.Call, ok bool) {
	p := ps.get(int32(tid))
	if p == nil || ps.hides(p) {
		return proc.Call{}, false
	}
	ps.mu.Lock()
	defer ps.mu.Unlock()
	return p.call, p.inCall
}

// GivenPath implements Procs.
func (ps simEyes) GivenPath(tid uint32) (g proc.Given, ok bool) {
	p := ps.get(int32(tid))
	if p == nil || ps.hides(p) {
		return proc.Given{}, false
	}
	root := ps.d.fs.kernel.inodeOf(rootID).key.ino
	ps.mu.Lock()
	defer ps.mu.Unlock()
	if !p.inCall || p.call.Nr != unix.SYS_OPENAT {
		return proc.Given{}, false
	}
	for path, at := range ps.pointers {
		if at == p.call.Args[1] {
			return proc.Given{Path: path, Dev: ps.d.fs.disk.mountDev, Ino: root}, true
		}
	}
	return proc.Given{}, false
}

// OpensOfCloser implements Procs.
func (ps simEyes) OpensOfCloser(o lockmgr.Owner, f proc.File) (writable, readable int, err error) {
	return ps.Opens(o.PID, f)
}

// Opens implements Procs.
func (ps simEyes) Opens(pid int32, f proc.File) (writable, readable int, err error) {
	p := ps.get(pid)
	if p == nil {
		return 0, 0, nil
	}
	if ps.hides(p) {
		return 0, 0, errHidden(pid)
	}
	k := ps.d.kernel
	ps.mu.Lock()
	defer ps.mu.Unlock()
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, o := range p.fds {
		if o.k != k { // of an earlier mount
			continue
		}
		ino := o.inode.attr.Ino
		switch {
		case f.Dev != k.fs.f.disk.mountDev || ino != f.Ino && !slices.Contains(f.Also, ino):
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
func (ps simEyes) Descriptors(pid int32) int64 { return 8 }

// AtStart implements Procs.
func (ps simEyes) AtStart(int32, proc.File) bool { return false }

// IsOutput implements Procs.
func (ps simEyes) IsOutput(int32, proc.File) bool { return false }

// MapsWritable implements Procs.
func (ps simEyes) MapsWritable(pid int32, f, _ proc.File) (bool, error) {
	p := ps.get(pid)
	if p == nil {
		return false, nil
	}
	if ps.hides(p) {
		return false, errHidden(pid)
	}
	k := ps.d.kernel
	for _, m := range p.mappings() {
		if m.f.k == k && f.Dev == k.fs.f.disk.mountDev && (m.f.inode.attr.Ino == f.Ino || slices.Contains(f.Also, m.f.inode.attr.Ino)) {
			return true, nil
		}
	}
	return false, nil
}

// Describe implements Procs. As in Lineage, nobody stops here.
func (ps simEyes) Describe(pid int32) proc.Description {
	d := proc.Description{UID: ps.w.uid}
	if p := ps.get(pid); p != nil {
		d.UID, d.Program = p.uid, p.comm
	}
	return d
}

// Program implements Procs.
func (ps simEyes) Program(pid int32) string {
	ps.d.perhapsPark("the daemon asks for a program's name")
	if p := ps.get(pid); p != nil {
		return p.comm
	}
	return ""
}

// Identify implements Procs.
func (ps simEyes) Identify(pid int32) proc.Program { return proc.Program{Comm: ps.Program(pid)} }

// EnvOf implements Procs.
func (ps simEyes) EnvOf(lockmgr.Owner, []string) string { return "" }

// HasCap implements Procs.
func (ps simEyes) HasCap(tid uint32, _ int) bool {
	p := ps.get(int32(tid))
	return p != nil && p.uid == 0
}

// FileLimit implements Procs.
func (ps simEyes) FileLimit(int32) (bytes uint64, limited bool) { return 0, false }

// Groups implements Procs.
func (ps simEyes) Groups(tid uint32) (groups []uint32, known bool) {
	if p := ps.get(int32(tid)); p == nil || p.uid != ps.w.uid {
		return nil, p != nil
	}
	all, err := os.Getgroups()
	for _, g := range all {
		groups = append(groups, uint32(g))
	}
	return groups, err == nil
}
