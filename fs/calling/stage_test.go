package calling

import (
	"fmt"
	"slices"
	"testing"

	"latchfs/fs/control"
	"latchfs/fs/transaction"
	"latchfs/lockmgr"
	"latchfs/lockmgr/proc"
)

// A stage has a room with processes of its own, and counts what is looked up.
type stage struct {
	room    *Room
	t       *testing.T
	procs   map[uint32]*process // by thread; the first of a process has its id
	running transaction.Running
	serial  uint64
	guards  map[string]Guard
	known   lockmgr.Owner // what KnownOwner knows
	labels  map[int32]string
	asked   []string // what was looked up
	joined  []string
}

// process is a process with one thread. Each is born at ten times its id.
type process struct {
	pid    int32
	up     []int32 // its ancestors, the nearest first
	comm   string
	env    string // what it has in control.SessionEnv
	groups []uint32
	caps   []int
	family proc.Family
	busy   bool // inside execve(2)
}

func onStage(t *testing.T, all ...*process) *stage {
	s := &stage{t: t, procs: map[uint32]*process{}, guards: map[string]Guard{}, labels: map[int32]string{}}
	for _, p := range all {
		s.procs[uint32(p.pid)] = p
	}
	s.room = New(Config{Procs: s, Engine: s, Running: &s.running, Serial: func() uint64 { s.serial++; return s.serial }})
	return s
}

func owner(pid int32) lockmgr.Owner { return lockmgr.Owner{PID: pid, Start: uint64(pid) * 10} }

func born(tick uint64) lockmgr.Birth { return lockmgr.Birth{Tick: tick} }

// sender is the thread of a process, of an ordinary user.
func sender(pid int32) Sender { return Sender{TID: uint32(pid), UID: 1000, GID: 100} }

// begin begins a transaction of a process, of which those are members that are born later.
func (s *stage) begin(pid int32, since uint64, label string) *transaction.Txn {
	t := transaction.New(transaction.Config{Owner: owner(pid), Since: born(since), Label: label, UID: 1000})
	s.running.Enter(t)
	return t
}

// wantAsked compares what was looked up since it was last called.
func (s *stage) wantAsked(want ...string) {
	s.t.Helper()
	if !slices.Equal(s.asked, want) {
		s.t.Errorf("asked for %q\nwant %q", s.asked, want)
	}
	s.asked = nil
}

func (s *stage) ask(what string, of any) { s.asked = append(s.asked, fmt.Sprint(what, " ", of)) }

// see is what a look at a thread shows.
func (s *stage) see(what string, tid uint32) (proc.Thread, error) {
	s.ask(what, tid)
	p := s.procs[tid]
	switch {
	case p == nil:
		return proc.Thread{}, proc.ErrGone
	case p.busy:
		return proc.Thread{TGID: p.pid}, proc.ErrBusy
	}
	return proc.Thread{TID: int32(tid), TGID: p.pid, Start: uint64(tid)*10 + 1, Owner: owner(p.pid), Comm: p.comm}, nil
}

func (s *stage) of(pid int32) *process {
	if p := s.procs[uint32(pid)]; p != nil {
		return p
	}
	return &process{}
}

// Thread implements Procs.
func (s *stage) Thread(tid uint32) (proc.Thread, error) { return s.see("thread", tid) }

// Opener implements Procs.
func (s *stage) Opener(tid uint32) (proc.Thread, error) { return s.see("opener", tid) }

// Closer implements Procs.
func (s *stage) Closer(tid uint32) (th proc.Thread, sig int, exiting bool, err error) {
	th, err = s.see("closer", tid)
	return th, 9, true, err
}

// Syscall implements Procs.
func (s *stage) Syscall(tid uint32) (proc.Call, bool) {
	s.ask("call", tid)
	return proc.Call{Nr: 257}, true
}

// Groups implements Procs.
func (s *stage) Groups(tid uint32) ([]uint32, bool) {
	s.ask("groups", tid)
	return s.of(int32(tid)).groups, true
}

// HasCap implements Procs.
func (s *stage) HasCap(tid uint32, capability int) bool {
	s.ask("capability", tid)
	return slices.Contains(s.of(int32(tid)).caps, capability)
}

// Lineage implements Procs: each ancestor with when its child on the way was born.
func (s *stage) Lineage(pid int32) (up []lockmgr.Ancestor) {
	s.ask("lineage", pid)
	child := pid
	for _, a := range s.of(pid).up {
		up = append(up, lockmgr.Ancestor{Owner: owner(a), Child: born(owner(child).Start)})
		child = a
	}
	return up
}

// Family implements Procs.
func (s *stage) Family(o lockmgr.Owner) proc.Family { return s.of(o.PID).family }

// Describe implements Procs.
func (s *stage) Describe(pid int32) proc.Description {
	s.ask("description", pid)
	return proc.Description{Program: s.of(pid).comm}
}

// Program implements Procs.
func (s *stage) Program(pid int32) string {
	s.ask("program", pid)
	return fmt.Sprint("program ", pid)
}

// EnvOf implements Procs.
func (s *stage) EnvOf(o lockmgr.Owner, names []string) string {
	s.ask("environment", o.PID)
	if !slices.Equal(names, []string{control.SessionEnv}) {
		s.t.Errorf("asked for the variables %q", names)
	}
	return s.of(o.PID).env
}

// Now implements Procs.
func (s *stage) Now() lockmgr.Birth { return born(1000) }

// KnownOwner implements Engine.
func (s *stage) KnownOwner(pid int32) lockmgr.Owner {
	if s.known.PID == pid {
		return s.known
	}
	return lockmgr.Owner{PID: pid}
}

// Label implements Engine.
func (s *stage) Label(c *Caller) string {
	s.ask("label", c.Owner().PID)
	return s.labels[c.Owner().PID]
}

// HasGuards implements Engine.
func (s *stage) HasGuards() bool { return len(s.guards) > 0 }

// Guard implements Engine.
func (s *stage) Guard(id string) (Guard, bool) {
	g, ok := s.guards[id]
	return g, ok
}

// Joined implements Engine.
func (s *stage) Joined(id string, o lockmgr.Owner) {
	s.joined = append(s.joined, fmt.Sprint(o.PID, " joins ", id))
}
