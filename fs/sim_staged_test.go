package fs

import (
	"math"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"latchfs/fs/control"
)

// Programs in transactions, which write files, and make, rename and remove names.

// simTxn is a transaction of a program.
type simTxn struct {
	k      *simKernel // it ends with its daemon; nil: none was begun
	id     string     // its number, for the model
	fd     int        // of the control file
	lock   string
	failed bool  // something in it was refused
	paused bool  // its program was stopped
	sent   int64 // when its commit was asked for; 0: it was not
	moves  []simMove
}

// simMove is what a member does to a name: another name has what had it, or none.
type simMove struct{ from, to simName }

// number is the number of the transaction, "" if there is none.
func (t *simTxn) number() string {
	if t == nil {
		return ""
	}
	return t.id
}

// isInTxn reports whether what the process's system call does is part of a transaction.
func (p *simProc) isInTxn() bool { return p.txn != nil && p.txn.k == p.kernel && p.kernel != nil }

// skips reports whether a command is left out: of a transaction that will not be committed.
func (p *simProc) skips(command string) bool {
	t := p.txn
	return t != nil && command != "commit" && command != "rollback" && (t.failed || t.paused || t.k == nil || t.k.isDead())
}

// begin begins a transaction with files locked.
func (p *simProc) begin(paths ...string) {
	p.txn = &simTxn{}
	fd, ok := p.talk()
	if !ok {
		return
	}
	p.txn = nil // so far it is an ordinary process
	k, wait := p.fds[fd].k, control.Duration(2*time.Second)
	got, e := p.ask(fd, control.Request{Op: control.Acquire, Paths: paths, Txn: true, Wait: &wait})
	if e != 0 || !got.OK {
		p.close(fd)
		p.txn = &simTxn{}
		return
	}
	p.txn = &simTxn{k: k, id: p.w.model.newHandle(), fd: fd, lock: got.Lock}
}

// decide asks for the commit of the transaction, or takes it back.
func (p *simProc) decide(commits bool) {
	t := p.txn
	if t == nil || t.k == nil {
		p.txn = nil
		return
	}
	r := control.Request{Op: control.Commit, Lock: t.lock}
	if t.failed || !commits {
		r = control.Request{Op: control.Rollback, Lock: t.lock, Reason: "something was refused"}
	} else {
		t.sent = p.w.now()
	}
	p.ask(t.fd, r)
	p.txn = nil
	p.close(t.fd)
}

// transact writes one file anew, and writes or removes another one, so that both happens
// or nothing; how is the command.
func (p *simProc) transact(one, other, how string) {
	command, end := "echo ", "commit"
	switch how {
	case "txnrm":
		command = "rm "
	case "txnback":
		end = "rollback"
	}
	for _, line := range []string{"begin " + one + " " + other, "echo " + one, "cat " + one, command + other, "cat " + one, end} {
		p.run(strings.Fields(line))
	}
}

// What programs may expect of them.

// goesInto notes in which transaction an operation was, and that it has failed.
func (m *simModel) goesInto(p *simProc, o *simOp) {
	if o.txn == "" && p.isInTxn() && !slices.Contains([]string{"commit", "write", "append", "read", "readfrom", "attributes"}, o.kind) || p.isInTxn() && o.kind == "read" && o.errno != 0 {
		o.txn = p.txn.id
	}
	if o.txn == "" || o.kind == "commit" || p.txn == nil {
		return
	}
	harmless := []unix.Errno{0, unix.ENOENT, unix.EEXIST, unix.ENOTEMPTY, unix.ENOTDIR, unix.EISDIR, unix.EINVAL, unix.EXDEV, unix.EPERM}
	p.txn.failed = p.txn.failed || !slices.Contains(harmless, o.errno)
}

// isUnstaged reports whether an operation was refused for no transaction can take it back:
// link(2), and a rename of what is no file, or has further names.
func (o simOp) isUnstaged(p *simProc) bool {
	return p.isInTxn() && (o.kind == "link" && o.errno == unix.EPERM || o.kind == "rename" && o.errno == unix.EXDEV)
}

// decided notes what has become of a transaction.
func (m *simModel) decided(p *simProc, committed bool, e unix.Errno) {
	t := p.txn
	o := simOp{kind: "commit", txn: t.id, errno: e}
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
		m.w.mayFollow(t.moves)
		m.note(p, o, sent, math.MaxInt64)
		return
	case e == 0 && !committed:
		o.errno = unix.EBUSY
	default:
		m.w.follow(t.moves)
	}
	m.did(p, o, sent)
}

// follow gives open files the names that a transaction has given them.
func (w *simWorld) follow(moves []simMove) {
	for _, x := range moves {
		if x.to.dir == nil {
			w.filesLose(x.from.dir, x.from.name)
		} else {
			w.filesMove(x.from.dir, x.from.name, x.to.dir, x.to.name, false)
		}
	}
}

// mayFollow notes that nobody knows whether a transaction has given files other names.
func (w *simWorld) mayFollow(moves []simMove) {
	for _, x := range moves {
		w.filesLose(x.from.dir, x.from.name)
		w.filesLose(x.to.dir, x.to.name)
	}
}

// A state of the model has what a transaction has staged beside what all see: "!", the number of
// the transaction and a name hold what the name is to hold, or gone. Marked "<" instead of "/"
// is what it held before, and with ">" the name that its file has got, or gone.

const gone = "-"

func stagedKey(txn, mark, name string) string { return "!" + txn + mark + name }

// marked is what a state has under a mark for a transaction, by name.
func (s simState) marked(txn, mark string) map[string]string {
	all := map[string]string{}
	for k, v := range s {
		if name, ok := strings.CutPrefix(k, stagedKey(txn, mark, "")); ok {
			all[name] = v
		}
	}
	return all
}

// stagedIn is what a transaction has made of names.
func (s simState) stagedIn(txn string) map[string]string { return s.marked(txn, "/") }

// seenIn is the state as the members of a transaction see it.
func (s simState) seenIn(txn string) simState {
	n := simState{}
	for k, v := range s {
		if k[0] != '!' {
			n[k] = v
		}
	}
	for name, v := range s.stagedIn(txn) {
		if n[name] = v; v == gone {
			delete(n, name)
		}
	}
	return n
}

// stage lets a name hold something for the members of a transaction.
func (s simState) stage(txn, name, version string) {
	if before := stagedKey(txn, "<", name); s[before] == "" {
		if s[before] = s[name]; s[name] == "" {
			s[before] = gone
		}
	}
	s[stagedKey(txn, "/", name)] = version
}

// stagesMove notes which files members have given another name, or none: those who have them
// open go with them at the commit. s is the state before.
func (s simState) stagesMove(n simState, txn, from, to string) {
	moved := s.marked(txn, ">")
	fileAt := func(name string) string {
		for was, is := range moved {
			if is == name {
				return was
			}
		}
		if s[name] != "" && moved[name] == "" {
			return name
		}
		return ""
	}
	if f := fileAt(to); f != "" && to != gone {
		n[stagedKey(txn, ">", f)] = gone
	}
	if f := fileAt(from); f != "" {
		n[stagedKey(txn, ">", f)] = to
	}
}

// stepIn is step, of an operation in a transaction on what the members see.
func (s simState) stepIn(o simOp) (bool, simState) {
	if o.txn == "" || o.kind == "commit" {
		return s.step(o)
	}
	is := s.seenIn(o.txn)
	ok, after := is.step(o)
	name, has := is.at(o.path, o.dir)
	to, _ := is.at(o.to, o.dirTo)
	switch {
	case o.loose && !ok:
		before, _ := s.step(o)
		_, found := s.marked(o.txn, "<")[name]
		return before || found, s
	case o.errno == unix.EXDEV:
		return !has || is[name] == "" || strings.HasPrefix(is[name], "=") || isDirValue(is[name]), s
	case o.errno == unix.EEXIST && o.kind != "open":
		at := name
		if o.to != "" {
			at = to
		}
		return is[at] != "" || s[at] != "", s
	case !ok || o.errno != 0:
		return ok, s
	}
	n := simState{}
	for k, v := range s {
		n[k] = v
	}
	for k, v := range after {
		switch {
		case is[k] == v, k[0] == '~':
		case k[0] != '#':
			n.stage(o.txn, k, v)
		case is[k] == "":
			n[k] = v
		}
	}
	for k := range is {
		if after[k] == "" && k[0] != '#' && k[0] != '~' {
			n.stage(o.txn, k, gone)
		}
	}
	switch {
	case o.kind == "rename" && name != to && !isDirValue(is[name]):
		s.stagesMove(n, o.txn, name, to)
	case o.kind == "unlink":
		s.stagesMove(n, o.txn, name, gone)
	}
	return true, n
}

// commit lets n hold what a transaction has made of names, all at once. Nobody has changed
// them since, nor what is in a directory that goes.
func (s simState) commit(n simState, o simOp) bool {
	for name, was := range s.marked(o.txn, "<") {
		if name[0] != '=' && s[name] != was && (s[name] != "" || was != gone) {
			return false
		}
	}
	moved := s.marked(o.txn, ">")
	staged := s.stagedIn(o.txn)
	for name, v := range staged {
		if was := s[name]; v == gone && was != "" {
			n[o.removed(name)] = was
			n.take(name, "-")
		} else if v != gone {
			n[name] = v
		}
	}
	for k, name := range s {
		switch to := moved[name]; {
		case k[0] != '#' || to == "":
		case to != gone:
			n[k] = to
		case strings.HasPrefix(s[name], "=") && n.hasName(s[name]): // written on under its further name
			n[k] = s[name]
		default:
			n[k] = "-" + name
		}
	}
	for k := range s {
		if strings.HasPrefix(k, "!"+o.txn) && strings.ContainsRune("/<>", rune(k[len(o.txn)+1])) {
			delete(n, k)
		}
	}
	for name, v := range staged {
		if v == gone && isDirValue(s[name]) && n.hasBelow(s[name]) || v != gone && name[0] != '=' && !n.hasDir(name) {
			return false
		}
	}
	return true
}

// hasDir reports whether there is the directory that a name is in.
func (s simState) hasDir(name string) bool {
	dir, _, _ := strings.Cut(name, "/")
	for k, v := range s {
		if dir == "0" || v == "dir:"+dir && k[0] != '!' {
			return true
		}
	}
	return false
}
