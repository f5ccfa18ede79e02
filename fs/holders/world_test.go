package holders

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"latchfs/fs/account"
	"latchfs/lockmgr"
	"latchfs/lockmgr/proc"
)

// world is a file and processes that are all of the test's making.
type world struct {
	t     *testing.T
	procs map[int32]*process
	asked []string // what was asked of whom that costs a look
}

// process is one of them. What it is changes as the test says.
type process struct {
	pid      int32
	parent   int32
	birth    uint64 // tells it from an earlier one of its pid
	fds      int    // descriptors to write the file
	mapped   bool
	inExec   bool // it cannot be looked at
	hidden   bool // nor shown to the daemon
	memBusy  bool // its mappings cannot be
	signal   int
	exiting  bool
	nameless bool // nobody can tell who it is
	reaped   bool // it has died since it was last asked who it is
	watched  error
	gone     chan struct{} // closed when it is dead
}

// user is a user who has a limit.
const user = 1000

var (
	asOpen   = proc.File{Dev: 7, Ino: 1, MountID: 3}
	asMapped = proc.File{Dev: 8, Ino: 2}
)

// newWorld makes processes that have nothing open. Each but the first is a child of the one
// before it.
func newWorld(t *testing.T, pids ...int32) *world {
	w := &world{t: t, procs: map[int32]*process{}}
	parent := int32(1)
	for _, pid := range pids {
		w.start(pid, parent)
		parent = pid
	}
	return w
}

func (w *world) start(pid, parent int32) *process {
	p := &process{pid: pid, parent: parent, birth: uint64(pid), gone: make(chan struct{})}
	w.procs[pid] = p
	return p
}

func (w *world) dies(pid int32) { close(w.procs[pid].gone) }

// diesIn lets a process die after a while.
func (w *world) diesIn(d time.Duration, pid int32) {
	gone := w.procs[pid].gone
	time.AfterFunc(d, func() { close(gone) })
}

// living is a process that is not dead, or nil.
func (w *world) living(pid int32) *process {
	p := w.procs[pid]
	if p == nil {
		return nil
	}
	select {
	case <-p.gone:
		return nil
	default:
		return p
	}
}

// opened is the set of a file that a process has opened to write, and maybe to read.
func (w *world) opened(pid int32, reads bool) *Set { return w.openedAs(0, pid, reads) }

func (w *world) openedAs(uid uint32, pid int32, reads bool) *Set {
	looks := account.NewRate(10, 0, func(uid uint32) bool { return uid == 0 })
	s := New(Config{Procs: w, Looks: looks, File: w, UID: uid, Doubts: true})
	s.NoteOpen(owner(pid), reads)
	w.procs[pid].fds++
	return s
}

// closes takes one descriptor from a process, of which the daemon is told then.
func (w *world) closes(s *Set, pid int32) *Closer {
	p := w.procs[pid]
	if p.fds > 0 {
		p.fds--
	}
	by := &Closer{Owner: owner(pid), Program: "sh", Exiting: p.exiting, Killed: p.signal != 0}
	s.NoteClose(by.Owner)
	s.NoteChildren(by)
	return by
}

func owner(pid int32) lockmgr.Owner { return lockmgr.Owner{PID: pid, Start: uint64(pid)} }

// want compares what is found after a close with what should be: whether somebody holds the
// file, which process has it from now on (0: nothing changes), and who is waited for.
func (w *world) want(when string, f Finding, held bool, next int32, dying ...int32) {
	w.t.Helper()
	want := Finding{Held: held}
	if next != 0 {
		want.Next = owner(next)
	}
	for _, pid := range dying {
		want.Dying = append(want.Dying, owner(pid))
	}
	if f.Held != want.Held || f.Next != want.Next || !slices.Equal(f.Dying, want.Dying) {
		w.t.Errorf("%s: found %+v, want %+v", when, f, want)
	}
}

// wantAsked compares what was asked since it was called last.
func (w *world) wantAsked(when string, asked ...string) {
	w.t.Helper()
	if !slices.Equal(w.asked, asked) {
		w.t.Errorf("%s: asked %q, want %q", when, w.asked, asked)
	}
	w.asked = nil
}

func (w *world) ask(what string, pid int32) *process {
	w.asked = append(w.asked, fmt.Sprint(what, " ", pid))
	return w.living(pid)
}

// AsOpen implements File.
func (w *world) AsOpen() proc.File { return asOpen }

// AsMapped implements File.
func (w *world) AsMapped() proc.File { return asMapped }

// Process implements Procs.
func (w *world) Process(pid int32) (proc.Thread, error) {
	p := w.living(pid)
	switch {
	case p == nil:
		return proc.Thread{}, proc.ErrGone
	case p.nameless:
		return proc.Thread{TGID: pid, Owner: lockmgr.Owner{PID: pid}}, proc.ErrBusy // the owner may be anybody
	}
	return proc.Thread{TID: pid, TGID: pid, Owner: lockmgr.Owner{PID: pid, Start: p.birth}}, nil
}

// All implements Procs.
func (w *world) All() (all []lockmgr.Owner) {
	for pid, p := range w.procs {
		if w.living(pid) == nil {
			continue
		}
		all = append(all, lockmgr.Owner{PID: pid, Start: p.birth})
	}
	return all
}

// Descendants implements Procs. The children of the dead are no one's; process 0 has started
// all others.
func (w *world) Descendants(pid int32) (below []int32) {
	for _, p := range w.procs {
		if pid == 0 {
			below = append(below, p.pid)
		}
		for up := w.living(p.parent); up != nil; up = w.living(up.parent) {
			if up.pid == pid && w.living(p.pid) != nil {
				below = append(below, p.pid)
			}
		}
	}
	slices.Sort(below)
	return below
}

// Alive implements Procs.
func (w *world) Alive(o lockmgr.Owner) bool {
	p := w.living(o.PID)
	return p != nil && p.birth == o.Start && !p.reaped
}

// ExitOf implements Procs.
func (w *world) ExitOf(pid int32) (sig int, exiting bool) {
	if p := w.living(pid); p != nil {
		return p.signal, p.exiting
	}
	return 0, true
}

// Watch implements Procs.
func (w *world) Watch(o lockmgr.Owner) (dead <-chan struct{}, stop func(), err error) {
	p := w.procs[o.PID]
	return p.gone, func() {}, p.watched
}

// Opens implements Procs.
func (w *world) Opens(pid int32, f proc.File) (writable, readable int, err error) {
	return w.opens(w.ask("opens", pid), f)
}

// OpensOfCloser implements Procs.
func (w *world) OpensOfCloser(o lockmgr.Owner, f proc.File) (writable, readable int, err error) {
	return w.opens(w.ask("opens of closer", o.PID), f)
}

func (w *world) opens(p *process, f proc.File) (writable, readable int, err error) {
	switch {
	case p == nil:
		return 0, 0, nil
	case p.inExec:
		return 0, 0, fmt.Errorf("descriptors of process %d: %w", p.pid, proc.ErrBusy)
	case p.hidden:
		return 0, 0, fmt.Errorf("descriptors of process %d: %w", p.pid, unix.EACCES)
	case f.Ino != asOpen.Ino:
		return 0, 0, errors.New("another file")
	}
	return p.fds, 1, nil // one to read, which holds nothing
}

// Descriptors implements Procs.
func (w *world) Descriptors(pid int32) int64 {
	w.ask("descriptors", pid)
	return 10
}

// MapsWritable implements Procs.
func (w *world) MapsWritable(pid int32, f, backing proc.File) (bool, error) {
	p := w.ask("maps", pid)
	switch {
	case p == nil || f.Ino != asOpen.Ino || backing.Ino != asMapped.Ino:
		return false, proc.ErrGone
	case p.memBusy:
		return false, fmt.Errorf("mappings of process %d: %w", pid, proc.ErrBusy)
	}
	return p.mapped, nil
}
