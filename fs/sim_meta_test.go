package fs

import (
	"fmt"
	"math/rand/v2"
	"path"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// Groups and times, by name and through the descriptor of a writer, and files that are made without
// a name (O_TMPFILE). A group is a file's as a mode is. A time of modification that a program sets
// is the file's until somebody writes that.

const (
	simGroup = "group"
	simTime  = "time"
	// unknownTime is that of an empty file that was cut again: it may be the one before, or another.
	unknownTime = "?"
	// firstTime is the first time that programs set, 2001 years after Christ; no clock of a
	// simulation is so far back.
	firstTime = 1_000_000_000
)

// drawMeta adds commands that set groups and times, and that make files without a name, as
// drawLocks does.
func (s *simScript) drawMeta(seed uint64, names []string) {
	r := rand.New(rand.NewPCG(seed, 42))
	if r.IntN(5) != 0 {
		return
	}
	for range 2 + r.IntN(3) {
		line := []string{"chgrp", "touch", "fchgrp", "futimens", "futimens", "fchmod", "nameless", "nameless", "stat", "stat", "stat"}[r.IntN(11)] + " " + names[r.IntN(len(names))]
		p := &s.programs[r.IntN(2)] // not the guest, who may only read
		at := p.place(r)
		p.lines = slices.Insert(p.lines, at, line)
	}
}

// metaAttrs is what a command sets, and how the model has it.
func (p *simProc) metaAttrs(command string) (in SetAttrRequest, attrs simAttrs) {
	switch command {
	case "chgrp", "fchgrp":
		if p.w.uid != 0 { // may not give it to others
			return SetAttrRequest{Set: SetGID, Group: p.w.gid}, simAttrs{}
		}
		return SetAttrRequest{Set: SetGID, Group: 100}, simAttrs{simGroup: "100"}
	case "fchmod":
		return modeAttr(0o600), simAttrs{simMode: "600"}
	}
	m := &p.w.model
	m.mu.Lock()
	defer m.mu.Unlock()
	m.handles++
	at := firstTime + int64(m.handles)
	return SetAttrRequest{Set: SetMtime | SetAtime, Mtime: unix.Timespec{Sec: at}, Atime: unix.Timespec{Sec: at}}, simAttrs{simTime: fmt.Sprint(at)}
}

// metaSeen is what stat(2) says of them.
func metaSeen(a *Attr, gid uint32) simAttrs {
	attrs := modeSeen(a.Mode)
	attrs[simGroup], attrs[simTime] = "", ""
	if a.GID != gid {
		attrs[simGroup] = fmt.Sprint(a.GID)
	}
	if at := a.Mtime.Sec; at >= firstTime && at < firstTime+1_000_000 {
		attrs[simTime] = fmt.Sprint(at)
	}
	return attrs
}

// setMeta is chgrp(1), or touch -d.
func (p *simProc) setMeta(command, path string) {
	p.enter(unix.SYS_FCHOWNAT, command+" "+path, path)
	in, attrs := p.metaAttrs(command)
	began := p.w.now()
	e := p.kernel.setattrPath(p, path, in)
	p.w.logf("%s gives %s %v: %s", p, path, attrs, result(e))
	p.w.model.did(p, simOp{kind: "attribute", path: path, attrs: attrs, errno: e}, began)
	p.leave()
}

// writeWithMeta writes a file anew, and sets an attribute through the descriptor before it closes
// that, as cp -p does.
func (p *simProc) writeWithMeta(command, path string) {
	fd, f, e := p.open(path, unix.O_WRONLY|unix.O_CREAT|unix.O_TRUNC)
	if e != 0 {
		return
	}
	f.version = p.w.model.newVersion(p)
	if p.writeVersion(fd, f.version) != 0 {
		p.close(fd)
		return
	}
	in, attrs := p.metaAttrs(command)
	p.enter(unix.SYS_FCHOWN, command+" "+path)
	e = f.k.setattr(p, f.inode, nil, in) // fuse_setattr names the open file of none but ftruncate
	if e == 0 {
		f.attrs = attrs
	} else if !p.isKilled() && !f.k.isDead() && !p.w.model.mayFail(e, f.began) && (e != unix.ESTALE || !f.isRobbed()) {
		p.w.failf("%s: %s of an open file must not fail with %s", p, command, result(e))
	}
	p.w.logf("%s gives the open %s %v: %s", p, path, attrs, result(e))
	p.leave()
	p.close(fd)
}

// nameless makes a file without a name, writes it, gives it a name, and renames it over another.
func (p *simProc) nameless(file string) {
	if p.txn != nil { // link(2) is refused there
		return
	}
	p.enter(unix.SYS_OPENAT, "open a file without a name beside "+file, "cwd", path.Dir(file))
	f, e := p.kernel.openNameless(p, file)
	fd := -1
	if e == 0 {
		f.began, f.opened, f.by = p.w.now(), p.w.now(), p
		fd = p.install(f)
		f.gets(simName{}, true)
	}
	p.w.logf("%s opens a file without a name beside %s: %s", p, file, result(e))
	p.leave()
	if e != 0 {
		return
	}
	v := p.w.model.newVersion(p)
	if p.writeVersion(fd, v) != 0 {
		p.close(fd)
		return
	}
	temp := fmt.Sprintf("%s.tmp%d", file, p.pid-firstPID)
	p.enter(unix.SYS_LINKAT, "linkat to "+temp, "fd", temp)
	began := p.w.now()
	if f.k != p.kernel { // the daemon has died: the file is of another filesystem
		p.leave()
		p.close(fd)
		return
	}
	e = again(func(reval bool) unix.Errno { return p.kernel.linkInode(p, f.inode, temp, reval) })
	p.w.logf("%s gives it the name %s: %s", p, temp, result(e))
	p.w.model.did(p, simOp{kind: "appear", path: temp, version: v, errno: e}, began)
	p.leave()
	p.close(fd)
	for f.k.isOpen(f) && !f.k.isDead() && !p.isKilled() {
		time.Sleep(5 * time.Millisecond)
	}
	if e == 0 {
		p.mv(temp, file, "", 0)
	}
}

// isOpen reports whether the file is still open, as far as the daemon knows.
func (k *simKernel) isOpen(f *simFile) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return f.inode.opens > 0
}

// openNameless is open(2) with O_TMPFILE, in the directory of a path.
func (k *simKernel) openNameless(p *simProc, file string) (f *simFile, e unix.Errno) {
	e = again(func(reval bool) unix.Errno {
		dir, _, e := k.walk(p, file, reval)
		if e != 0 {
			return e
		}
		var out Created
		e = k.request(p, "TMPFILE beside "+file, func(h Request, cancel <-chan struct{}) unix.Errno {
			h.Node = dir.id
			return k.fs.Tmpfile(cancel, &CreateRequest{OpenRequest: OpenRequest{Request: h, Flags: unix.O_TMPFILE | unix.O_RDWR}, Mode: unix.S_IFREG | 0o644}, &out)
		})
		if e != 0 {
			return e
		}
		f, e = k.opened(&simFile{k: k, inode: k.inodeOf(p, &out.Entry), flags: unix.O_RDWR, nameless: true, refs: 1, path: file + " without a name", out: out.Opened})
		return e
	})
	return f, e
}
