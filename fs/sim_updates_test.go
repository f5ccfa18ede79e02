package fs

import (
	"fmt"
	"math/rand/v2"
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"latchfs/lockmgr/policy"
)

// What the policy says of lost updates, and what programs may expect of that:
//
//	refuse     no program replaces a version that came after the one that it has read
//	strict     likewise, however often it tries, nor does it remove such a version
//	serialize  as refuse; and who has read the file, and writes it before its claim ends, is
//	           not refused. Two who read two files in opposite order may be told so (EDEADLK)
//	adaptive   as refuse; likewise, but who takes turns depends on what was learned
//	merge      as refuse; but what can be joined is, and then both changes are there: see
//	           sim_sheets_test.go
//	warn, off  a program replaces whatever is there; all else holds

// simWait is how long an operation waits for a lock.
const simWait = 2 * time.Second

// drawPolicy decides what the policy says of lost updates; "" is the default. It comes from
// random numbers of its own, as in drawLocks.
func drawPolicy(seed uint64) policy.LostUpdate {
	if simHarm.updates != "" {
		return simHarm.updates
	}
	r := rand.New(rand.NewPCG(seed, 16))
	if r.IntN(2) == 0 {
		return ""
	}
	return []policy.LostUpdate{
		policy.Serialize, policy.Serialize, policy.Serialize, policy.Merge, policy.Merge, policy.Merge,
		policy.StrictLost, policy.IgnoreLost, policy.WarnLost, policy.Adaptive,
	}[r.IntN(10)]
}

// drawTTL decides how many milliseconds a read claim lasts; 0: as by default.
func drawTTL(seed uint64) int {
	return []int{0, 0, 300}[rand.New(rand.NewPCG(seed, 17)).IntN(3)]
}

// policy is the policy of the daemon, as a file has it below [defaults].
func (h simHazards) policy() (text string) {
	if h.lazy > 0 {
		text += "durability = \"lazy\"\n"
	}
	if h.updates != "" {
		text += fmt.Sprintf("lost-update = %q\n", h.updates)
	}
	if h.lease > 0 {
		text += h.leasePolicy()
	}
	if h.ttl > 0 {
		text += fmt.Sprintf("claim-ttl = \"%dms\"\n", h.ttl)
	}
	return text
}

// claimTTL is how long a read claim lasts.
func (h simHazards) claimTTL() time.Duration {
	if h.ttl > 0 {
		return time.Duration(h.ttl) * time.Millisecond
	}
	return 30 * time.Second
}

// drawUpdates adds commands that read in order to write to the scripts of those whose policy
// is not the default.
func (s *simScript) drawUpdates(seed uint64, names []string) {
	r := rand.New(rand.NewPCG(seed, 18))
	if s.hazards.updates == "" {
		return
	}
	commands := []string{"count", "edit", "via", "insist", "bump", "discard"}
	if s.hazards.updates == policy.Merge {
		commands, names = []string{"note", "note", "notesave", "again"}, sheetNames[r.IntN(len(sheetNames)):]
		names = names[:min(1+r.IntN(2), len(names))]
		for i := range 2 { // at once, so that there is something to join
			p := &s.programs[i]
			p.lines = slices.Insert(p.lines, 0, commands[r.IntN(3)]+" "+names[0])
		}
	}
	for range 2 + r.IntN(5) {
		command, name := commands[r.IntN(len(commands))], names[r.IntN(len(names))]
		if s.hazards.updates == policy.Merge && r.IntN(10) == 0 {
			command = []string{"cat", "rm", "log", "mv a", "mv m", "count", "via", "bump"}[r.IntN(8)]
		}
		if command == "log" && path.Ext(name) != "" { // a record is no JSON
			command = "cat"
		}
		p := &s.programs[r.IntN(len(s.programs))]
		if p.name == simGuest { // who may only read
			p = &s.programs[0]
		}
		p.lines = slices.Insert(p.lines, r.IntN(len(p.lines)+1), command+" "+name)
	}
}

// checksUpdates reports whether the policy asks who has read what.
func (w *simWorld) checksUpdates() bool {
	u := w.opts.script.hazards.updates
	return u != policy.IgnoreLost && u != policy.WarnLost
}

// The commands.

// via has a child read a file, and saves it.
func (p *simProc) via(path string) {
	p.w.logf("%s has a child, which reads", p)
	child := p.fork("cat " + path)
	<-child.dead
	p.leaveIfKilled()
	if child.last.whole && child.signal == 0 {
		p.readOn = child.readOn
		p.seen[path] = child.last
		p.save(path, child.last.version)
	}
}

// insist reads a file and writes it anew, and if it is refused that, once more a second later,
// without reading: the policy may obey then.
func (p *simProc) insist(path string) {
	v, ok := p.cat(path)
	if !ok || p.echo(path, path, v) != unix.EBUSY {
		return
	}
	time.Sleep(1100 * time.Millisecond)
	if p.w.opts.script.hazards.updates != policy.StrictLost {
		v = ""
	}
	p.echo(path, path, v)
}

// discard reads a file and removes it.
func (p *simProc) discard(path string) {
	v, ok := p.cat(path)
	if !ok {
		return
	}
	if v = p.knows(p.w.kernel, v); p.w.opts.script.hazards.updates != policy.StrictLost {
		v = ""
	}
	p.rm(path, v)
}

// What programs may expect of claims.

// simSeen is what a process has read of a path.
type simSeen struct {
	k       *simKernel
	version string
	whole   bool
	all     []string // the versions, the last one first, with those that it has made itself
	since   simCall  // the first time
}

// noteSeen notes what the process has read of a path; whole: of a version.
func (p *simProc) noteSeen(k *simKernel, path string, call simCall, version string, whole bool) {
	s, ok := p.seen[path]
	if !ok || s.k != k {
		s.k, s.since = k, call
	}
	if s.version, s.whole = version, whole; whole {
		s.all = append([]string{version}, s.all...)
	}
	p.seen[path], p.last = s, s
}

// simCall is when a system call has begun.
type simCall struct{ at time.Time }

func (w *simWorld) callBegins() simCall { return simCall{time.Now()} }

// hadTurn is told of a program that has read a path, and was refused to replace it. Where
// reads claim that must not be while the claim lasts, but after a wait.
func (m *simModel) hadTurn(p *simProc, path string, call simCall) {
	h, s := m.w.opts.script.hazards, p.seen[path]
	if h.updates != policy.Serialize || s.k != p.kernel || s.k.isDead() || p.isKilled() {
		return
	}
	if time.Since(call.at) >= simWait || time.Since(s.since.at) >= h.claimTTL() || m.takesAway() {
		return
	}
	m.w.failf("%s has read %s and was refused to write it, although it was its turn", p, path)
}

// takesAway reports whether a program of the script may take a name away, so that a claim of it
// ends, or a merge has nothing to join.
func (m *simModel) takesAway() bool {
	text := m.w.opts.script.String()
	return slices.ContainsFunc([]string{"rm", "discard", "mv", "mvnew", "exchange", "swap", "ln", "bumpln", "txnrm"}, func(c string) bool {
		return strings.Contains(text, c+" ")
	})
}

// isDeadlock reports whether a program may have been refused something because it, and another
// one, have what the other one wants now: what they have read, where reads claim, or what they
// have claimed, locked by the control file or changed in a transaction.
func (m *simModel) isDeadlock(o simOp) bool {
	s := m.w.opts.script
	claims := s.hazards.updates == policy.Serialize || s.hazards.updates == policy.Adaptive || s.claims()
	return o.errno == unix.EDEADLK && (claims || s.locksSeveral() || s.locksByControl())
}

// A program waits for its turn to read a file by one of two names, while the one whose turn it
// is puts another file there. It reads that, and not the file that goes on under the other name:
// what it writes then would undo what was saved.
func TestTurnOfALostName(t *testing.T) {
	script := parseScript("cyn: ln d/a b | bob: edit b | ann: edit b", simHazards{updates: policy.Serialize})
	inTurnsOf(t, simOptions{seed: 1, script: script, turns: []string{"cyn to the end", "bob until call rename", "ann until OPEN b", "ann to the end", "bob to the end", "ann to the end"}})
}
