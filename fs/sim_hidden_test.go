package fs

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"latchfs/lockmgr"
)

// Hidden processes: the daemon knows them, and not what they have open or mapped, nor the system
// call that they are in. How they are hidden is the hazard of that name:
//
//	1    some hide themselves (PR_SET_DUMPABLE) from a daemon of their own user, as a program does
//	     that has changed its ids. A hidden process has a file open until it has closed what it has
//	     opened itself: what it was given, and what it has made a second descriptor of, does not
//	     count (package holders). How it ends is seen: the kernel hides no process without memory.
//
//	2    some are of other users than the daemon, which is an ordinary one's. Of these it is in
//	     doubt: the close tells nothing, and the commit is at RELEASE. So it is where a relative is
//	     hidden, who may have the file. How one ends is not seen, so that nobody is killed here: what
//	     a killed one has written of a file may become the file.
//
//	3    some are in another pid namespace, with all that they start. Nothing is known of them, not
//	     even which requests are of one process; so nothing is asked of what they have read, and
//	     the rest is as with 2. They do what such a program may do (unseenLines).
//
// What they are promised is otherwise what all are. Programs for which that is not true are not
// drawn.

// The kinds of hidden processes.
const (
	hideThemselves = 1
	hideFromOthers = 2
	hideAltogether = 3
)

// tells reports whether a close by those who are hidden tells how the commit went.
func (h simHazards) tells() bool { return h.hidden == 0 || h.hidden == hideThemselves }

// hidingLines are the commands that matter to hidden programs. G is a file of the program's own: of
// two relatives that write one file at once each may write over the other.
var hidingLines = []string{"share F", "share F", "part F G", "part F G", "keep F", "keep F", "twice F", "echo F", "count F", "save F", "sync F", "bump F"}

// unseenLines are the commands of programs of which nothing is known.
var unseenLines = []string{
	"share F", "share F", "part F G", "part F G", "keep F", "keep F", "pass F", "pass F", "twice F", "dup F", "echo F", "echo F", "echo F", "save F", "save F", "cat F", "cat F", "stat F", "rm F", "mv F F",
}

// drawHidden lets programs hide, as drawLocks draws. They are not hidden from a daemon with
// passthrough, which is root's.
func (s *simScript) drawHidden(seed uint64, names []string) {
	r := rand.New(rand.NewPCG(seed, 53))
	if s.hazards.passes > 0 || r.IntN(5) != 0 {
		return
	}
	s.hazards.hidden = []int{hideThemselves, hideThemselves, hideFromOthers, hideAltogether}[r.IntN(4)]
	if !s.hazards.tells() {
		s.hazards.kills = 0
	}
	n := 1 + r.IntN(2)
	for i := range 2 { // not the guest, who may only read
		p, lines, more := &s.programs[i], hidingLines, 1+r.IntN(2)
		if i < n && s.hazards.hidden == hideAltogether {
			p.lines, lines, more = nil, unseenLines, more+1
		}
		for range more {
			line := lines[r.IntN(len(lines))]
			for strings.Contains(line, " F") {
				line = strings.Replace(line, " F", " "+names[r.IntN(len(names))], 1)
			}
			line = strings.Replace(line, " G", fmt.Sprintf(" part%d", i), 1)
			at := p.place(r)
			p.lines = slices.Insert(p.lines, at, line)
		}
		if i < n {
			s.hides(p)
		}
	}
}

// hides lets a program hide. One that hides itself has no second descriptor of what it writes
// (dup), and no mapping without one (keepmap): there its first close is taken for the last.
func (s *simScript) hides(p *simProgram) {
	if s.hazards.hidden == hideThemselves {
		promised := strings.NewReplacer("dup ", "twice ", "keepmap ", "map ")
		for i := range p.lines {
			p.lines[i] = promised.Replace(p.lines[i])
		}
	}
	p.lines = slices.Insert(p.lines, 0, "hide")
}

// mayHide reports whether a hidden program may run a command with what it is promised.
func (p *simProc) mayHide(command string) bool {
	command, _, _ = strings.Cut(command, " ")
	switch command {
	case "finish", "inherit": // it writes to what it was given
		return !p.w.opts.script.hazards.tells()
	}
	return true
}

// hide is prctl(PR_SET_DUMPABLE).
func (p *simProc) hide() {
	p.w.procs.mu.Lock()
	defer p.w.procs.mu.Unlock()
	p.hidden = p.w.opts.script.hazards.hidden > 0
}

// isUnseen reports whether nothing is known of a process.
func (p *simProc) isUnseen() bool {
	p.w.procs.mu.Lock()
	defer p.w.procs.mu.Unlock()
	return p.hidden && p.w.opts.script.hazards.hidden == hideAltogether
}

// forgets reports whether the daemon may not know what a process has read: nothing is known of it, or
// it was on its way to a file that has lost the name and has another one. Of others the daemon finds
// out by which name they open it, by the path that they give.
func (p *simProc) forgets() bool {
	return p.isUnseen() || p.w.procs.isHidden(p) && p.w.opts.script.links()
}

// tid is the number by which the daemon knows a process.
func (p *simProc) tid() uint32 {
	if p.isUnseen() {
		return 0
	}
	return uint32(p.pid)
}

// errHidden is what a look at a hidden process fails with.
func errHidden(pid int32) error { return fmt.Errorf("process %d: %w", pid, unix.EACCES) }

// hides reports whether a process is hidden from the daemon.
func (ps simEyes) hides(p *simProc) bool {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	return ps.hidesLocked(p)
}

func (ps simEyes) hidesLocked(p *simProc) bool {
	return p.hidden && (!p.ending || !ps.w.opts.script.hazards.tells())
}

// isGiven reports whether a process that hides itself was given an open file: that keeps nobody
// out.
func (p *simProc) isGiven(f *simFile) bool {
	p.w.procs.mu.Lock()
	defer p.w.procs.mu.Unlock()
	return p.hidden && f.by != p && p.w.opts.script.hazards.hidden == hideThemselves
}

// simLate is an open file whose last close has told nothing.
type simLate struct {
	p    *simProc // who has closed it
	f    *simFile
	sess *session
}

// commitsLate reports whether the last close of a file, by a process, may tell nothing, and notes
// that: somebody hidden may have the file, and it is not committed yet.
func (m *simModel) commitsLate(p *simProc, f *simFile) bool {
	if m.w.opts.script.hazards.tells() || f.k.isDead() || f.txn != nil { // a transaction tells
		return false
	}
	h := f.k.d.fs.handles.handleOf(f.fh)
	if h == nil || h.kind != shadowHandle || h.sess.hasEnded() {
		return false
	}
	if !slices.ContainsFunc(m.w.procs.living(), func(q *simProc) bool { return m.w.procs.isHidden(q) && related(q, f.by) }) {
		return false
	}
	if m.w.opts.script.links() { // who comes for another name of the file does not wait, and may write over it
		m.forgetSynced(f)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.late = append(m.late, simLate{p, f, h.sess})
	m.done["the close does not tell"]++
	return true
}

// isHidden reports whether a process is hidden.
func (ps *simProcs) isHidden(p *simProc) bool {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	return p.hidden
}

func (s *session) hasEnded() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state.HasEnded()
}

// released notes what a RELEASE has ended: the answer is the one that nobody was told.
func (m *simModel) released() {
	for _, l := range m.latest(func(l simLate) bool { return l.sess.hasEnded() }) {
		l.sess.mu.Lock()
		e := l.sess.state.Result()
		l.sess.mu.Unlock()
		if e == unix.ESTALE && errors.Is(l.sess.heldLock().Err(), lockmgr.ErrStolen) {
			e = unix.EBUSY
		}
		m.w.logf("RELEASE of what %s has closed, %s: %s", l.p, l.f.path, result(e))
		m.answered(l.p, l.f, e)
		m.closed(l.p, l.f, e)
	}
}

// abandoned notes that the daemon has died before the RELEASE came.
func (m *simModel) abandoned() {
	for _, l := range m.latest(func(l simLate) bool { return l.f.k.isDead() }) {
		m.closed(l.p, l.f, 0)
	}
}

// latest are those whose last close has told nothing and of which more is known now.
func (m *simModel) latest(known func(simLate) bool) (all []simLate) {
	m.mu.Lock()
	late := m.late
	m.mu.Unlock()
	var rest []simLate
	for _, l := range late {
		if known(l) {
			all = append(all, l)
		} else {
			rest = append(rest, l)
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.late = append(rest, m.late[len(late):]...)
	return all
}

// isLate reports whether a RELEASE is due that commits. It does not take long: who comes for the
// file waits for it.
func (m *simModel) isLate() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.late) > 0
}

// checkLate looks, at the end, whether there is something that was not committed.
func (m *simModel) checkLate() {
	for _, l := range m.latest(func(simLate) bool { return true }) {
		m.w.failf("what %s has closed, %s, was not committed", l.p, l.f.path)
	}
}

// ofAnotherUser lets the daemon be one of another user than the programs. It returns what lets it
// be as it was.
func (s simScript) ofAnotherUser() (restore func()) {
	own := ownIdentity
	if s.hazards.hidden == hideFromOthers {
		ownIdentity.UID++
	}
	return func() { ownIdentity = own }
}

// isChildHidden reports whether a child is hidden: it is what its parent is, unless it changes its ids, or
// runs a program that does not hide.
func (ps *simProcs) isChildHidden(parent *simProc, pid int32, prog simProgram) bool {
	if ps.w.opts.script.hazards.hidden == hideAltogether {
		return parent.hidden
	}
	if ps.w.opts.script.hazards.hidden == 0 || !parent.mayHide(prog.lines[0]) {
		return false
	}
	r := rand.New(rand.NewPCG(ps.w.opts.seed, uint64(pid)))
	return parent.hidden == (r.IntN(4) > 0)
}

// part opens a file to write it anew, and has a child that closes its copy of the descriptor and
// goes on with another file.
func (p *simProc) part(path, other string) {
	p.writeBeside(path, "drop", "echo "+other)
}

// keep opens a file to write it anew, and has a child that has the descriptor for a while.
func (p *simProc) keep(path string) { p.writeBeside(path, "rest", "drop") }

func (p *simProc) writeBeside(path string, lines ...string) {
	fd, f, e := p.open(path, unix.O_WRONLY|unix.O_CREAT|unix.O_TRUNC)
	if e != 0 {
		return
	}
	p.w.logf("%s has a child: %s", p, strings.Join(lines, "; "))
	child := p.w.launch(p, simProgramOf(p.comm+"-child", lines...))
	p.fill(fd, f)
	<-child.dead
	p.leaveIfKilled()
}

// rest does nothing for a moment.
func (p *simProc) rest() {
	p.enter(unix.SYS_NANOSLEEP, "nanosleep")
	time.Sleep(20 * time.Millisecond)
	p.leave()
}

// A child of a hidden program closes its copy of the descriptor, which is not the last close.
func TestChildOfAHiddenWriterCloses(t *testing.T) {
	for _, line := range []string{"share a", "part a b", "keep a"} {
		script := parseScript("ann: hide; "+line+" | bob: cat a; echo a", simHazards{hidden: hideThemselves})
		inTurnsOf(t, simOptions{seed: 1, script: script, turns: []string{"ann until WRITE a at 0", "ann until call write a", "ann-child to the end", "bob to the end", "ann to the end"}})
	}
}
