package fs

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"latchfs/fs/control"
)

// The locks that programs ask for on .locks/control, and transactions.

// talk opens the control file.
func (p *simProc) talk() (fd int, ok bool) {
	p.enter(unix.SYS_OPENAT, "open the control file", "cwd", ".locks/control")
	f, e := p.kernel.open(p, ".locks/control", unix.O_RDWR)
	if e == 0 {
		f.version = unchanged
		fd = p.install(f)
	} else if !p.isKilled() && e != unix.ENOTCONN {
		p.w.failf("%s cannot open the control file: %s", p, result(e))
	}
	p.w.logf("%s opens the control file: %s", p, result(e))
	p.leave()
	return fd, e == 0
}

// ask sends a request and waits for the reply.
func (p *simProc) ask(fd int, r control.Request) (reply control.Reply, e unix.Errno) {
	line, err := json.Marshal(r)
	if err != nil {
		panic(err)
	}
	f := p.fds[fd]
	if e := p.write(fd, string(line)+"\n"); e != 0 {
		if p.txn != nil && r.Op == control.Commit {
			p.w.model.decided(p, false, e)
		}
		return reply, e
	}
	p.enter(unix.SYS_READ, "read a reply")
	b, e := f.k.read(p, f, 4096)
	if e == 0 {
		if err := json.Unmarshal(b, &reply); err != nil {
			p.w.failf("%s asks for %s and reads %q: %v", p, r.Op, b, err)
		}
	}
	said := result(e)
	if reply.Refusal != nil {
		said = reply.Error
	}
	p.w.logf("%s asks for %s: %s", p, r.Op, said)
	if p.txn != nil && r.Op == control.Commit {
		p.w.model.decided(p, reply.OK, e)
	}
	p.leave()
	return reply, e
}

// lockTree locks a directory with all that is below, and reads a file in it twice.
func (p *simProc) lockTree(dir, path string) {
	fd, ok := p.talk()
	if !ok {
		return
	}
	wait := control.Duration(2 * time.Second)
	if r, e := p.ask(fd, control.Request{Op: control.Acquire, Trees: []string{dir}, Wait: &wait}); e != 0 || !r.OK {
		p.close(fd)
		return
	}
	k := p.kernel
	v, ok := p.cat(path)
	again, still := p.cat(path)
	if (v != again || ok != still) && !k.isDead() && !p.w.opts.script.links() && !p.isKilled() {
		p.w.failf("%s read %s and then %s from %s, which it has locked with the directory", p, v, again, path)
	}
	p.close(fd)
}

// drawTransactions adds commands that ask for locks on the control file, as in drawLocks.
func (s *simScript) drawTransactions(seed uint64) {
	r := rand.New(rand.NewPCG(seed, 8))
	if r.IntN(4) != 0 && (!s.hazards.harmDaemon() || r.IntN(2) == 0) {
		return
	}
	for range 1 + r.IntN(2) {
		p := &s.programs[r.IntN(2)] // not the guest, who may only read
		line := []string{"txn a b", "txn b a", "txnrm a b", "txnrm b a", "tree d d/a", "tree d d/b"}[r.IntN(6)]
		if s.links() {
			// A change by another name of a file that waits for the transaction which
			// removes a name of it is answered ENOENT, which no plain directory does.
			line = strings.Replace(line, "txnrm", "txn", 1)
		}
		p.lines = slices.Insert(p.lines, r.IntN(len(p.lines)+1), line)
	}
}

// simDirs are the directories that programs make.
var simDirs = []string{"d", "e", "e/f"}

// stagesNames reports whether a program changes names in a transaction.
func (s simScript) stagesNames() bool { return strings.Contains(s.String(), "begin ") }

// locksSeveral reports whether a program locks several files at a time.
func (s simScript) locksSeveral() bool {
	return s.stagesNames() || strings.Contains(s.String(), "txn") || strings.Contains(s.String(), "tree ")
}

// drawStaged adds transactions that change names, and commands of others that come upon them.
func (s *simScript) drawStaged(seed uint64) {
	r := rand.New(rand.NewPCG(seed, 20))
	if r.IntN(3) != 0 || s.links() {
		return
	}
	who := r.IntN(2) // not the guest, who may only read
	p := &s.programs[who]
	block, at := drawBlock(r), r.IntN(len(p.lines)+1)
	p.lines = slices.Insert(p.lines, at, block...)
	q := &s.programs[1-who]
	for range 1 + r.IntN(3) {
		beside := []string{"cat e/a", "stat e", "stat e", "stat e/f", "mkdir e", "echo e/a", "mv d e", "rmdir e", "rmdir d", "echo a", "count a", "mv a b", "rm d/a", "log a"}
		q.lines = slices.Insert(q.lines, r.IntN(len(q.lines)+1), beside[r.IntN(len(beside))])
	}
	if slices.Contains(block, "mkdir e") { // somebody looks again and again whether it is there
		q.lines = slices.Insert(q.lines, min(at, len(q.lines)), slices.Repeat([]string{"stat e"}, r.IntN(12))...)
	}
}

// drawBlock makes up a transaction.
func drawBlock(r *rand.Rand) []string {
	names := append(slices.Clone(simNames), "e/b", "e/f/a")
	name := func() string { return names[r.IntN(len(names))] }
	block := []string{"begin " + name()}
	if r.IntN(2) == 0 {
		known := []string{
			"mkdir e; mv a e/a", "mkdir e; echo e/a", "mkdir e; mkdir e/f; echo e/f/a", "mkdir e; mv d/a e/a; mv e/a b", "mkdir e; echo e/a; rm e/a; rmdir e",
			"rm d/a; rm d/b; rmdir d", "mv d/a a; mv d/b b; rmdir d", "rm d/a; rm d/b; rmdir d; mkdir d; echo d/a",
			"mv a d/t; mv d/a a; mv d/t d/a", "rm a; echo a", "rm a; mv d/a a", "echo a; mv a b; cat b", "mv d/a a; echo d/a",
		}
		block = append(block, strings.Split(known[r.IntN(len(known))], "; ")...)
	}
	for range 1 + r.IntN(4) {
		var line string
		switch command := []string{
			"mv", "mv", "mv", "mvnew", "exchange", "ln", "rm", "rm", "mkdir", "mkdir", "rmdir", "cat", "cat", "stat", "echo", "echo", "save", "edit", "count",
			"chmod", "label", "label", "unlabel", "relabel", "labelonly", "chgrp", "touch", "fchgrp", "futimens", "ask", "ask", "bump", "cut", "twice", "dup", "alloc", "truncate",
		}[r.IntN(37)]; command {
		case "mv", "mvnew", "exchange", "ln":
			line = command + " " + name() + " " + name()
			if command == "mv" && r.IntN(8) == 0 { // as rename(2) cannot, in a transaction
				line = "mv d e"
			}
		case "mkdir":
			line = command + " " + []string{"e", "e", "e/f", "d"}[r.IntN(4)]
		case "rmdir":
			line = command + " " + simDirs[r.IntN(len(simDirs))]
		default:
			line = command + " " + name()
		}
		block = slices.Insert(block, 1+r.IntN(len(block)), line)
	}
	return append(block, []string{"commit", "commit", "commit", "rollback"}[r.IntN(4)])
}

// The daemon dies at each step of a commit, and all of the transaction has happened or
// none.
func TestDaemonDiesInATransaction(t *testing.T) {
	for _, line := range []string{"txn a b", "txnrm a d/b"} {
		for n := range 30 {
			w := inTurns(t, []simProgram{simProgramOf("ann", line)},
				"ann until call open a", "ann until call write .locks/control", fmt.Sprintf("crash at step %d", n+1), "ann to the end")
			if len(w.buried) == 0 {
				if n < 10 {
					t.Fatalf("%s: the daemon has taken only %d steps", line, n)
				}
				break
			}
		}
	}
}

// The disk refuses to make happen what a transaction has decided. Whoever opens one of its
// files next finds that finished, or changes it no more.
func TestDecidedTransactionIsFinished(t *testing.T) {
	script := parseScript("ann: swap e d a; tree d d/a; txn b a", simHazards{faults: 30})
	w := simulate(t, simBase(t), simOptions{seed: 4466, script: script})
	if story := w.transcript(); len(w.failures) > 0 || strings.Count(story, `the disk fails at the step "rename"`) < 4 {
		t.Fatalf("%s\nthe renames are to fail, and nothing else: %q", story, w.failures)
	}
}

// A file of a transaction that has no descriptor any more is stolen. Nobody closes it, so it ends
// with the transaction.
func TestStolenFileEndsWithItsTransaction(t *testing.T) {
	script := parseScript("ann: count d/a | bob: begin d/b; echo d/a; pause; commit; stop a", simHazards{lease: 201})
	stolen := false
	for seed := range uint64(20) {
		w := simulate(t, simBase(t), simOptions{seed: seed, script: script})
		if len(w.failures) > 0 {
			t.Fatalf("seed %d: %s\n%q", seed, w.transcript(), w.failures)
		}
		stolen = stolen || strings.Contains(w.transcript(), "commit: transaction_refused")
	}
	if !stolen {
		t.Error("none was stolen")
	}
}

// A transaction has written a new file into a directory that the kernel has forgotten since, and
// is rolled back.
func TestRollbackInAForgottenDirectory(t *testing.T) {
	inTurns(t, []simProgram{simProgramOf("ann", "txnback d/c b")},
		"ann until call close d/c", "ann until call close b", "ann until call write .locks/control", "the kernel to the end", "forget all", "ann to the end")
}
