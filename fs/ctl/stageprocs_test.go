package ctl

import (
	"slices"
	"sync/atomic"

	"latchfs/lockmgr"
	"latchfs/lockmgr/proc"
)

// process is a program with its user. All times are ticks of the stage.
type process struct {
	s       *stage
	name    string
	owner   lockmgr.Owner
	born    lockmgr.Birth
	parent  *process
	uid     uint32
	foreign bool
	inner   int32 // its id in a pid namespace below ours; 0: it is in none
	env     map[string]string
	dead    chan struct{}
	exiting bool
	pending atomic.Int64 // a proc.Pending
}

// start makes a process.
func (s *stage) start(name string, pid int32, uid uint32, parent *process) *process {
	tick := s.next()
	p := &process{
		s: s, name: name, owner: lockmgr.Owner{PID: pid, Start: tick}, born: lockmgr.Birth{Tick: tick, PID: pid},
		parent: parent, uid: uid, env: map[string]string{}, dead: make(chan struct{}),
	}
	p.pending.Store(int64(proc.Nothing))
	s.procs[name] = p
	return p
}

func (s *stage) byPID(pid int32) *process {
	for _, p := range s.procs {
		if p.owner.PID == pid {
			return p
		}
	}
	return nil
}

// TID implements Caller.
func (p *process) TID() uint32 { return uint32(p.owner.PID) }

// UID implements Caller.
func (p *process) UID() uint32 { return p.uid }

// GID implements Caller.
func (p *process) GID() uint32 { return p.uid }

// Owner implements Caller.
func (p *process) Owner() lockmgr.Owner {
	if p.foreign {
		return lockmgr.Owner{Start: p.owner.Start}
	}
	return p.owner
}

// Foreign implements Caller.
func (p *process) Foreign() bool { return p.foreign }

// Ancestors implements Caller.
func (p *process) Ancestors() []lockmgr.Ancestor {
	var up []lockmgr.Ancestor
	for ; p.parent != nil; p = p.parent {
		up = append(up, lockmgr.Ancestor{Owner: p.parent.owner, Child: p.born})
	}
	return up
}

func (p *process) descendsFrom(h *lockmgr.Holder) bool {
	if p.owner == h.Owner {
		return true
	}
	return slices.ContainsFunc(p.Ancestors(), func(a lockmgr.Ancestor) bool { return a.Owner == h.Owner && a.Child.After(h.Since) })
}

// stageProcs are the processes as the server sees them.
type stageProcs struct{ s *stage }

func (ps stageProcs) of(o lockmgr.Owner) *process {
	if p := ps.s.byPID(o.PID); p != nil && p.owner == o {
		return p
	}
	return nil
}

func (ps stageProcs) Process(pid int32) (proc.Thread, error) {
	if p := ps.s.byPID(pid); p != nil {
		return proc.Thread{TID: pid, TGID: pid, Owner: p.owner}, nil
	}
	return proc.Thread{}, proc.ErrGone
}

func (ps stageProcs) All() (all []lockmgr.Owner) {
	for _, p := range ps.s.procs {
		all = append(all, p.owner)
	}
	return all
}

func (ps stageProcs) Lineage(pid int32) []lockmgr.Ancestor { return ps.s.byPID(pid).Ancestors() }

func (ps stageProcs) IDs(pid int32) []int32 {
	if p := ps.s.byPID(pid); p != nil && p.inner != 0 {
		return []int32{pid, p.inner}
	}
	return []int32{pid}
}

// Family has all ancestors above.
func (ps stageProcs) Family(o lockmgr.Owner) (f proc.Family) {
	for _, a := range ps.of(o).Ancestors() {
		f.Above = append(f.Above, a.Owner)
	}
	return f
}

func (ps stageProcs) Descendants(pid int32) (pids []int32) {
	for _, p := range ps.s.procs {
		if slices.ContainsFunc(p.Ancestors(), func(a lockmgr.Ancestor) bool { return a.Owner.PID == pid }) {
			pids = append(pids, p.owner.PID)
		}
	}
	slices.Sort(pids)
	return pids
}

func (ps stageProcs) Alive(o lockmgr.Owner) bool { return ps.of(o) != nil }

func (ps stageProcs) Exit(tid uint32) (sig int, exiting bool) {
	p := ps.s.byPID(int32(tid))
	return 0, p == nil || p.exiting
}

func (ps stageProcs) Watch(o lockmgr.Owner) (dead <-chan struct{}, stop func(), err error) {
	p := ps.of(o)
	if p == nil || p.isDead() {
		return nil, nil, proc.ErrGone
	}
	return p.dead, func() {}, nil
}

func (ps stageProcs) Pending(tid uint32) proc.Pending {
	return proc.Pending(ps.s.byPID(int32(tid)).pending.Load())
}

// Opens takes the inode of the control file for the number of the conversation.
func (ps stageProcs) Opens(pid int32, f proc.File) (writable, readable int, err error) {
	for cv, by := range ps.s.given {
		if cv.file.Ino == f.Ino {
			return by[pid], 0, nil
		}
	}
	return 0, 0, nil
}

func (ps stageProcs) Describe(pid int32) proc.Description {
	p := ps.s.byPID(pid)
	return proc.Description{Program: p.name, UID: p.uid}
}

func (ps stageProcs) EnvOf(o lockmgr.Owner, names []string) string {
	if p := ps.of(o); p != nil {
		return p.env[names[0]]
	}
	return ""
}
