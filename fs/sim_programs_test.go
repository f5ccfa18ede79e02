package fs

import (
	"fmt"
	"path"
	"strings"

	"golang.org/x/sys/unix"

	"latchfs/fs/reach"
)

// launch starts a process that runs a program.
func (w *simWorld) launch(parent *simProc, prog simProgram) *simProc {
	p := w.procs.fork(parent, prog)
	w.mu.Lock()
	w.running++
	w.mu.Unlock()
	go func() {
		defer func() {
			p.end()
			w.mu.Lock()
			w.running--
			w.mu.Unlock()
		}()
		for _, line := range prog.lines {
			p.run(strings.Fields(line))
		}
	}()
	return p
}

func (p *simProc) run(f []string) {
	if p.skips(f[0]) {
		return
	}
	switch f[0] {
	case "begin":
		p.begin(f[1:]...)
	case "bad":
		p.bad = true
		p.run(f[1:])
		p.bad = false
	case "commit", "rollback":
		p.decide(f[0] == "commit")
	case "cat":
		p.cat(f[1])
		if p.comm == simMender {
			p.mend(f[1])
		}
	case "echo":
		p.echo(f[1], f[1], "")
	case "count":
		if v, ok := p.cat(f[1]); ok {
			p.echo(f[1], f[1], v)
		}
	case "edit":
		if v, ok := p.cat(f[1]); ok {
			p.save(f[1], v)
		}
	case "save":
		p.save(f[1], "")
	case "mv":
		p.mv(f[1], f[2], "", 0)
	case "mvnew":
		p.mv(f[1], f[2], "", unix.RENAME_NOREPLACE)
	case "exchange":
		p.mv(f[1], f[2], "", unix.RENAME_EXCHANGE)
	case "ln":
		p.ln(f[1], f[2])
	case "chmod":
		p.chmod(f[1])
	case "label":
		p.label(f[1], simNote, p.newLabel())
	case "unlabel":
		p.label(f[1], simNote, "")
	case "grant":
		p.label(f[1], reach.ACLAttr, p.newGrant())
	case "relabel", "labelonly":
		p.relabel(f[1], f[0] == "relabel")
	case "ask":
		p.askAttributes(f[1])
	case "copy":
		p.copyTo(f[1], f[2])
	case "alloc":
		p.alloc(f[1])
	case "statx":
		p.statx(f[1])
	case "truncate":
		p.truncate(f[1])
	case "cut":
		p.cut(f[1])
	case "bump":
		p.bump(f[1], "")
	case "bumpln":
		p.bump(f[1], f[2])
	case "log", "parts":
		p.log(f[1], f[0] == "parts")
	case "swap":
		if v, ok := p.cat(f[1] + "/" + f[3]); ok && p.mv(f[1], f[2], "", 0) == 0 {
			p.echo(f[2]+"/"+f[3], "", v)
		}
	case "rm":
		p.rm(f[1], "")
	case "mkdir":
		p.mkdir(f[1])
	case "rmdir":
		p.rmdir(f[1])
	case "sync":
		p.sync(f[1])
	case "lock", "trylock":
		p.lockAndCount(f[1], f[0] == "trylock")
	case "hold":
		p.lockAndRead(f[1], simLockKind{})
	case "rdlock":
		p.lockAndRead(f[1], simLockKind{posix: true})
	case "asklock":
		p.askLock(f[1])
	case "txn", "txnrm", "txnback":
		p.transact(f[1], f[2], f[0])
	case "tree":
		p.lockTree(f[1], f[2])
	case "stat":
		p.stat(f[1])
	case "pass":
		p.pass(f[1])
	case "map", "keepmap":
		p.storeMapped(f[1], f[0] == "keepmap")
	case "share":
		p.share(f[1])
	case "via":
		p.via(f[1])
	case "claim", "claimon":
		p.claim(f[1], f[0] == "claimon")
	case "discard":
		p.discard(f[1])
	case "insist":
		p.insist(f[1])
	case "note", "notesave", "again":
		p.note(f[1], f[0])
	case "look":
		p.look(f[1])
	case "list":
		p.ls(f[1])
	case "aside":
		p.aside()
	case "watch":
		p.watch(f[1])
	case "restore":
		p.restore(f[1])
	case "steal":
		p.steal(f[1])
	case "pause":
		p.stops()
	case "stop", "stopguard", "stoplock", "stoptree":
		p.runStopped(f[0], f[1])
	case "twice", "dup", "reopen", "renew", "leave", "bequeath", "heir", "inherit":
		p.runDescriptors(f[0], f[1])
	case "guard", "consult", "await", "shrink", "named", "hasty", "impatient", "both", "acquire", "acquiring", "release", "releasing",
		"yield", "unlock", "inquire", "wrest", "pin", "forget":
		p.runControl(f)
	case "drop":
		p.drop()
	case "hide":
		p.hide()
	case "keep":
		p.keep(f[1])
	case "part":
		p.part(f[1], f[2])
	case "rest":
		p.rest()
	case "slow":
		p.slow(f[1])
	case "tally":
		p.tally(f[1])
	case "tidy":
		p.tidy(f[1])
	case "chgrp", "touch":
		p.setMeta(f[0], f[1])
	case "fchgrp", "futimens", "fchmod":
		p.writeWithMeta(f[0], f[1])
	case "nameless":
		p.nameless(f[1])
	case "db":
		p.countInDatabase(f[1])
	case "dbstat":
		p.lookAtDatabase(f[1])
	case "dbcheck":
		p.checkDatabase(f[1])
	case "plant":
		p.plant(f[1])
	case "emptylog":
		p.emptyLog(f[1])
	case "php":
		p.php(f[1])
	case "early", "earlier":
		p.saveEarly(f[1], f[0] == "earlier")
	case "finish":
		p.finish()
	default:
		panic("unknown command " + f[0])
	}
}

// The system calls of programs. Each is a line of the transcript when it returns.

func (p *simProc) open(path string, flags uint32) (int, *simFile, unix.Errno) {
	what := fmt.Sprintf("open %s %s", path, flagsText(flags))
	p.enter(unix.SYS_OPENAT, what, "cwd", path)
	p.w.procs.mu.Lock()
	p.call.Args[2] = uint64(flags)
	p.w.procs.mu.Unlock()
	began := p.w.now()
	f, e := p.kernel.open(p, path, flags)
	fd := -1
	if e == 0 {
		f.began, f.opened, f.by = began, p.w.now(), p
		if p.txn != nil && p.txn.k == f.k {
			f.txn = p.txn
		}
		fd = p.install(f)
	}
	p.w.logf("%s opens %s %s: %s", p, path, flagsText(flags), result(e))
	p.w.model.opened(p, f, path, flags, e, began)
	p.leave()
	return fd, f, e
}

func (p *simProc) install(f *simFile) (fd int) {
	k := f.k
	k.mu.Lock()
	f.gets(simName{}, true) // it has lost its name since it was found, or the kernel has forgotten that
	for _, n := range k.inodes {
		for _, d := range n.children {
			if d.inode == f.inode {
				f.gets(simName{n, d.name}, d.name != path.Base(f.path) || (n.id == rootID) != (path.Dir(f.path) == "."))
			}
		}
	}
	k.mu.Unlock()
	p.w.procs.mu.Lock()
	defer p.w.procs.mu.Unlock()
	for fd = 3; p.fds[fd] != nil; fd++ {
		continue
	}
	p.fds[fd] = f
	return fd
}

// close closes a descriptor and returns what close(2) returns.
func (p *simProc) close(fd int) unix.Errno {
	p.enter(unix.SYS_CLOSE, "close "+p.fds[fd].path)
	e := p.closing(fd)
	p.leave()
	return e
}

func (p *simProc) closing(fd int) unix.Errno {
	p.w.procs.mu.Lock()
	f := p.fds[fd]
	delete(p.fds, fd)
	p.w.procs.mu.Unlock()
	return p.flush(f)
}

// flush ends the use of a file of which the process has no descriptor any more.
func (p *simProc) flush(f *simFile) unix.Errno {
	p.w.model.closes(p, f)
	e := f.k.flush(p, f)
	p.w.model.answered(p, f, f.refusedAs(e))
	last := f.k.drop(f)
	p.w.logf("%s closes %s: %s", p, f.path, result(e))
	if last && !p.w.model.commitsLate(p, f) {
		p.w.model.closed(p, f, f.refusedAs(e))
	}
	return e
}

func (p *simProc) readAll(fd int) (string, unix.Errno) {
	var all []byte
	for {
		f := p.fds[fd]
		p.enter(unix.SYS_READ, "read "+f.path)
		b, e := f.k.read(p, f, 8)
		p.leave()
		if e != 0 || len(b) == 0 {
			p.w.logf("%s reads %s: %q, %s", p, f.path, all, result(e))
			return string(all), e
		}
		all = append(all, b...)
	}
}

func (p *simProc) write(fd int, b string) unix.Errno {
	f := p.fds[fd]
	p.enter(unix.SYS_WRITE, "write "+f.path)
	p.w.procs.mu.Lock()
	p.wrote = true
	p.w.procs.mu.Unlock()
	e := f.k.write(p, f, []byte(b))
	p.w.logf("%s writes %q to %s: %s", p, b, f.path, result(e))
	p.leave()
	return e
}

// cat returns which version it read, and whether it read one.
func (p *simProc) cat(path string) (version string, ok bool) {
	call := p.w.callBegins()
	fd, f, e := p.open(path, unix.O_RDONLY)
	if e != 0 {
		p.noteSeen(p.kernel, path, call, "", false)
		return "", false
	}
	text, e := p.readAll(fd)
	p.w.model.read(p, f, text, e)
	p.close(fd)
	p.readOn = f.k
	v, whole := versionOf(text)
	p.noteSeen(f.k, path, call, v, e == 0 && whole)
	return v, e == 0 && whole
}

// knows is the version that a daemon knows that the process has read. What was read
// before a daemon's death, its successor may not know; and a policy may not ask for it.
func (p *simProc) knows(k *simKernel, version string) string {
	if p.readOn != k || !p.w.checksUpdates() || p.forgets() {
		return ""
	}
	return version
}

// echo writes a new version. It must replace the version known, if that is not "".
func (p *simProc) echo(path, _, known string) unix.Errno { return p.echoAs(path, known, "") }

// echoAs is echo of a version that may be given.
func (p *simProc) echoAs(path, known, version string) unix.Errno {
	call := p.w.callBegins()
	fd, f, e := p.open(path, unix.O_WRONLY|unix.O_CREAT|unix.O_TRUNC)
	if e == unix.EBUSY && known != "" {
		p.w.model.hadTurn(p, path, call)
	}
	if e != 0 {
		return e
	}
	f.known, f.bases = p.knows(f.k, known), p.bases(path, known)
	if f.version = version; version == "" {
		f.version = p.w.model.newVersion(p)
	}
	return p.fillWith(fd, f)
}

// fill writes a version in three writes and closes the file.
func (p *simProc) fill(fd int, f *simFile) unix.Errno {
	f.version = p.w.model.newVersion(p)
	return p.fillWith(fd, f)
}

func (p *simProc) fillWith(fd int, f *simFile) unix.Errno {
	_ = p.writeVersion(fd, f.version)
	return p.close(fd)
}

// writeVersion writes a version in three writes, as far as they succeed.
func (p *simProc) writeVersion(fd int, version string) unix.Errno {
	for _, part := range versionText(version) {
		if e := p.write(fd, part); e != 0 {
			return e
		}
	}
	return 0
}

func (p *simProc) save(path, known string) { p.saveAs(path, known, "") }

// saveAs is save of a version that may be given.
func (p *simProc) saveAs(path, known, version string) unix.Errno {
	temp := fmt.Sprintf("%s.tmp%d", path, p.pid-firstPID)
	fd, f, e := p.open(temp, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL)
	if e != 0 {
		return e
	}
	if f.version = version; version == "" {
		f.version = p.w.model.newVersion(p)
	}
	if e := p.fillWith(fd, f); e != 0 {
		return e
	}
	return p.mv(temp, path, known, 0)
}

func (p *simProc) mv(from, to, known string, flags uint32) unix.Errno {
	p.enter(unix.SYS_RENAMEAT2, fmt.Sprintf("rename %s to %s", from, to), from, to)
	call := p.w.callBegins()
	began, bases, read := p.w.now(), p.bases(to, known), known != ""
	known = p.knows(p.kernel, known)
	e := p.kernel.rename(p, from, to, flags)
	if e == unix.EBUSY && read {
		p.w.model.hadTurn(p, to, call)
	}
	if e == unix.EBUSY && flags&unix.RENAME_EXCHANGE == 0 {
		p.wasRefused(from)
	}
	how := map[uint32]string{unix.RENAME_NOREPLACE: ", if there is none,", unix.RENAME_EXCHANGE: ", and that the other way,"}[flags]
	p.w.logf("%s renames %s to %s%s: %s", p, from, to, how, result(e))
	p.w.model.did(p, simOp{kind: "rename", path: from, to: to, known: known, bases: bases, flags: flags, errno: e}, began)
	p.leave()
	return e
}

func (p *simProc) rm(path, known string) {
	p.enter(unix.SYS_UNLINKAT, "unlink "+path, "cwd", path)
	began := p.w.now()
	e := p.kernel.unlink(p, path, false)
	p.w.logf("%s removes %s: %s", p, path, result(e))
	p.w.model.did(p, simOp{kind: "unlink", path: path, known: known, errno: e}, began)
	p.leave()
}

func (p *simProc) mkdir(path string) {
	p.enter(unix.SYS_MKDIRAT, "mkdir "+path, "cwd", path)
	began := p.w.now()
	e := p.kernel.mkdir(p, path)
	p.w.logf("%s makes the directory %s: %s", p, path, result(e))
	p.w.model.did(p, simOp{kind: "mkdir", path: path, handle: p.w.model.newHandle(), errno: e}, began)
	p.leave()
}

func (p *simProc) rmdir(path string) {
	p.enter(unix.SYS_UNLINKAT, "rmdir "+path, "cwd", path, "dir")
	began := p.w.now()
	e := p.kernel.unlink(p, path, true)
	p.w.logf("%s removes the directory %s: %s", p, path, result(e))
	p.w.model.did(p, simOp{kind: "rmdir", path: path, errno: e}, began)
	p.leave()
}

func (p *simProc) stat(path string) {
	p.enter(unix.SYS_NEWFSTATAT, "stat "+path, "cwd", path)
	began := p.w.now()
	a, e := p.kernel.stat(p, path)
	p.w.logf("%s asks for the attributes of %s: %s, %d bytes, %v", p, path, result(e), a.Size, metaSeen(&a, p.w.gid))
	o := simOp{kind: "stat", path: path, errno: e}
	if e == 0 && a.Mode&unix.S_IFMT == unix.S_IFREG {
		o.attrs = metaSeen(&a, p.w.gid)
	}
	p.w.model.did(p, o, began)
	p.leave()
}
