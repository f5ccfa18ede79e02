package fs

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"latchfs/fs/control"
)

// The locks that programs ask for on .locks/control, and transactions.

// simTxn is a transaction of a program.
type simTxn struct {
	k      *simKernel  // it ends with its daemon
	staged []simStaged // in the order in which they were written
	failed bool        // something in it was refused
	sent   int64       // when its commit was asked for; 0: it was not
}

// simStaged is a name, and the version that it is to hold; "": none.
type simStaged struct{ path, version string }

func (t *simTxn) stage(path, version string) {
	t.staged = slices.DeleteFunc(slices.Clone(t.staged), func(s simStaged) bool { return s.path == path })
	t.staged = append(t.staged, simStaged{path, version})
}

// holds reports whether a name may hold a version in the transaction; known says that the
// transaction has written it. Names of one file hold what was written last.
func (t *simTxn) holds(path, version string, linked bool) (known, ok bool) {
	for _, s := range t.staged {
		known = known || s.path == path && s.version != ""
		ok = ok || s.version == version && (s.path == path || linked)
	}
	return known, ok
}

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

// transact writes one file anew, and writes or removes another one, so that both happens
// or nothing; how is the command.
func (p *simProc) transact(one, other, how string) {
	fd, ok := p.talk()
	if !ok {
		return
	}
	wait := control.Duration(2 * time.Second)
	got, e := p.ask(fd, control.Request{Op: control.Acquire, Paths: []string{one, other}, Txn: true, Wait: &wait})
	if e != 0 || !got.OK {
		p.close(fd)
		return
	}
	p.txn = &simTxn{k: p.fds[fd].k}
	p.echo(one, one, "")
	p.cat(one)
	if how == "txnrm" {
		p.removeStaged(other)
	} else {
		p.echo(other, other, "")
	}
	p.cat(one)
	r := control.Request{Op: control.Commit, Lock: got.Lock}
	if p.txn.failed || how == "txnback" {
		r = control.Request{Op: control.Rollback, Lock: got.Lock, Reason: "something was refused"}
	} else {
		p.txn.sent = p.w.now()
	}
	p.ask(fd, r)
	p.txn = nil
	p.close(fd)
}

// removeStaged is rm in a transaction.
func (p *simProc) removeStaged(path string) {
	p.enter(unix.SYS_UNLINKAT, "unlink "+path, "cwd", path)
	began := p.w.now()
	e := p.kernel.unlink(p, path, false)
	p.w.logf("%s removes %s: %s", p, path, result(e))
	switch {
	case p.kernel != p.txn.k:
		p.w.model.did(p, simOp{kind: "unlink", path: path, errno: e}, began)
	case e == 0:
		p.txn.stage(path, "")
	case e != unix.ENOENT:
		p.txn.failed = true
	}
	p.leave()
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

// What programs may expect of them.

// decided notes what has become of a transaction.
func (m *simModel) decided(p *simProc, committed bool, e unix.Errno) {
	t := p.txn
	o := simOp{kind: "commit", sets: t.staged, errno: e}
	for _, s := range t.staged {
		o.path, o.to = o.to, s.path
	}
	sent := t.sent
	t.sent = 0
	switch {
	case e == unix.ENOTCONN:
		if ended := t.k.until(m.w.now()); sent < ended {
			o.errno = unix.EINTR
			o.killed = true
			m.note(p, o, sent, ended)
		}
		return
	case e == unix.EINTR: // nobody waits for it any more
		o.killed = true
		m.note(p, o, sent, math.MaxInt64)
		return
	case e == 0 && !committed:
		o.errno = unix.EBUSY
	}
	m.did(p, o, sent)
}

// isStaged reports whether an open file is a transaction's, of which the model hears at
// its end, and notes there what a close has written.
func (m *simModel) isStaged(f *simFile, e unix.Errno) bool {
	if f.txn == nil {
		return false
	}
	if e != 0 || f.refused {
		f.txn.failed = true
	} else if f.version != unchanged {
		f.txn.stage(f.path, f.version)
	}
	return true
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

// A transaction has written a new file into a directory that the kernel has forgotten since, and
// is rolled back.
func TestRollbackInAForgottenDirectory(t *testing.T) {
	inTurns(t, []simProgram{simProgramOf("ann", "txnback d/c b")},
		"ann until call close d/c", "ann until call close b", "ann until call write .locks/control", "the kernel to the end", "forget all", "ann to the end")
}
