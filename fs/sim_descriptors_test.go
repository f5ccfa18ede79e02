package fs

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"latchfs/lockmgr/policy"
)

// Programs with several descriptors of one file, and descriptors and locks that a child goes on
// with when the parent is gone.

// drawDescriptors adds commands that have such to a script, as drawLocks does.
func (s *simScript) drawDescriptors(seed uint64, names []string) {
	r := rand.New(rand.NewPCG(seed, 51))
	if r.IntN(5) != 0 {
		return
	}
	for range 1 + r.IntN(2) {
		command := []string{"twice", "twice", "dup", "dup", "reopen", "renew", "bequeath", "heir", "leave", "leave"}[r.IntN(10)]
		p := &s.programs[r.IntN(2)] // not the guest, who may only read
		at := r.IntN(len(p.lines) + 1)
		if command == "leave" || command == "heir" { // which ends its program
			at = len(p.lines)
		}
		if p.isInBlock(at) {
			at = 0
		}
		p.lines = slices.Insert(p.lines, at, command+" "+names[r.IntN(len(names))])
	}
}

func (p *simProc) runDescriptors(command, path string) {
	switch command {
	case "twice":
		p.twice(path)
	case "dup":
		p.dupAndWrite(path)
	case "reopen", "renew":
		p.reopen(path, command == "renew")
	case "leave":
		p.abandon(path)
	case "bequeath", "heir":
		p.bequeath(path, command == "heir")
	case "inherit":
		p.inherit(path)
	}
}

// isOneSession reports whether two open files are of one session.
func isOneSession(f, g *simFile) bool {
	if f.k != g.k || f.k.isDead() {
		return false
	}
	one, two := f.k.d.fs.handles.handleOf(f.fh), f.k.d.fs.handles.handleOf(g.fh)
	return one != nil && two != nil && one.kind == shadowHandle && two.kind == shadowHandle && one.sess == two.sess
}

// twice opens a file twice to write it, and writes a part of the version through one descriptor,
// and the rest through the other.
func (p *simProc) twice(path string) {
	fd, f, e := p.open(path, unix.O_WRONLY|unix.O_CREAT|unix.O_TRUNC)
	if e != 0 {
		return
	}
	f.version = p.w.model.newVersion(p)
	parts := versionText(f.version)
	if p.write(fd, parts[0]) != 0 {
		p.close(fd)
		return
	}
	other, g, e := p.open(path, unix.O_WRONLY)
	if e == 0 && !isOneSession(f, g) { // the path leads elsewhere by now, or the lock was stolen
		g.version = unchanged
		p.close(other)
	}
	if e != 0 || !isOneSession(f, g) {
		for _, part := range parts[1:] {
			if p.write(fd, part) != 0 {
				break
			}
		}
		p.close(fd)
		return
	}
	g.pos, g.version, f.version = f.pos, f.version, unchanged
	for i, part := range parts[1:] {
		if p.write(other, part) != 0 {
			break
		}
		if i == 0 && len(parts) > 2 {
			p.close(fd)
		}
	}
	if p.fds[fd] == f {
		p.close(fd)
	}
	p.close(other)
}

// dup is dup(2).
func (p *simProc) dup(fd int) (other int) {
	p.w.procs.mu.Lock()
	defer p.w.procs.mu.Unlock()
	f := p.fds[fd]
	f.k.mu.Lock()
	f.refs++
	f.k.mu.Unlock()
	for other = 3; p.fds[other] != nil; other++ {
		continue
	}
	p.fds[other] = f
	return other
}

// dupAndWrite writes a file anew through a descriptor, and a copy of that, and closes one of them
// on the way.
func (p *simProc) dupAndWrite(path string) {
	fd, f, e := p.open(path, unix.O_WRONLY|unix.O_CREAT|unix.O_TRUNC)
	if e != 0 {
		return
	}
	f.version = p.w.model.newVersion(p)
	for i, part := range versionText(f.version) {
		if i == 1 {
			other := p.dup(fd)
			p.close(fd)
			fd = other
		}
		if p.write(fd, part) != 0 {
			break
		}
	}
	p.close(fd)
}

// reopen opens a file, reads it, and opens it once more through /proc/self/fd: whatever has the
// name by then, that is the same file. renews: a child saves the file meanwhile.
func (p *simProc) reopen(path string, renews bool) {
	fd, f, e := p.open(path, unix.O_RDONLY)
	if e != 0 {
		return
	}
	text, e := p.readAll(fd)
	p.w.model.read(p, f, text, e)
	if renews && p.txn == nil {
		p.child("save", path)
	}
	link := fmt.Sprintf("/proc/self/fd/%d", fd)
	p.enter(unix.SYS_OPENAT, "open "+link, "cwd", link)
	began := p.w.now()
	g, e2 := f.k.reopen(p, f)
	again := -1
	if e2 == 0 {
		g.began, g.opened, g.by = began, p.w.now(), p
		again = p.install(g)
	} else if !p.isKilled() && !f.k.isDead() && e2 != unix.EBUSY && e2 != unix.EDEADLK && !p.w.model.mayFail(e2, began) {
		p.w.failf("%s: to open %s of %s must not fail with %s", p, link, path, result(e2))
	}
	p.w.logf("%s opens %s of %s: %s", p, link, path, result(e2))
	p.leave()
	if again >= 0 {
		more, e3 := p.readAll(again)
		grows := f.inode.linked.Load() || p.w.opts.script.appends() || p.w.opts.script.links() || p.w.model.hasLive()
		if e == 0 && e3 == 0 && more != text && !grows && p.txn == nil {
			p.w.failf("%s reads %q from %s, and through %s %q", p, text, path, link, more)
		}
		p.close(again)
	}
	p.close(fd)
}

// reopen is open(2) of the link of a descriptor in /proc, to read.
func (k *simKernel) reopen(p *simProc, f *simFile) (g *simFile, e unix.Errno) {
	e = again(func(bool) unix.Errno {
		if e := k.getattr(p, f.inode); e != 0 {
			return e
		}
		g = &simFile{k: k, inode: f.inode, flags: unix.O_RDONLY, refs: 1, path: f.path}
		if e := k.request(p, fmt.Sprintf("OPEN of node %d", f.inode.id), func(h Request, cancel <-chan struct{}) unix.Errno {
			h.Node = f.inode.id
			return k.fs.Open(cancel, &OpenRequest{Request: h}, &g.out)
		}); e != 0 {
			return e
		}
		g, e = k.opened(g)
		return e
	})
	return g, e
}

// abandon leaves a descriptor to a child, which writes, and ends.
func (p *simProc) abandon(path string) {
	_, f, e := p.open(path, unix.O_WRONLY|unix.O_CREAT|unix.O_TRUNC)
	if e != 0 {
		return
	}
	f.version = p.w.model.newVersion(p)
	p.w.logf("%s has a child, which writes, and ends", p)
	p.fork("finish")
	p.w.park(p.String() + " is about to end")
	p.exit()
}

// bequeath locks a file, and leaves the lock to a child, which counts in the file. ends: so does
// the process, or else it closes its descriptor.
func (p *simProc) bequeath(path string, ends bool) {
	fd, _, e := p.open(path, unix.O_RDONLY)
	if e != 0 {
		return
	}
	if !p.lock(fd, simLockKind{alone: true}) {
		p.close(fd)
		return
	}
	p.w.logf("%s has a child, which has the lock", p)
	child := p.fork("inherit " + path)
	if ends {
		p.exit()
	}
	p.close(fd)
	<-child.dead
	p.leaveIfKilled()
}

// inherit counts in a file of which the process has inherited the lock. What its parent has stored
// into a mapping may be committed between its read and its write.
func (p *simProc) inherit(path string) {
	for _, fd := range slices.Sorted(maps.Keys(p.fds)) {
		f := p.fds[fd]
		if f.path != path || f.writes() {
			continue
		}
		had := f.k.has(f, path)
		if v, ok := p.cat(path); ok {
			e := p.echo(path, path, v)
			if e == unix.EBUSY && had && len(p.parent.stored) == 0 && f.k.has(f, path) && !p.isKilled() {
				p.w.failf("%s was refused a write of %s, of which it has inherited the lock", p, path)
			}
		}
	}
	p.drop()
}

// inherited reports whether somebody has a descriptor of an open file, which nobody is about to
// close.
func (w *simWorld) inherited(f *simFile) bool {
	w.procs.mu.Lock()
	defer w.procs.mu.Unlock()
	for _, q := range w.procs.all {
		for _, o := range q.fds {
			if o == f {
				return true
			}
		}
	}
	return false
}

// Reads claim, and a program opens a file once more that it has open, through /proc/self/fd. The
// file was replaced meanwhile, and the link leads to it all the same.
func TestReopenWhereReadsClaim(t *testing.T) {
	script := parseScript("ann: renew a", simHazards{updates: policy.Serialize})
	w := inTurnsOf(t, simOptions{seed: 1, script: script, turns: []string{"ann to the end", "ann-child to the end", "ann to the end"}})
	if !strings.Contains(strings.Join(w.lines, "\n"), "ann[1] opens /proc/self/fd/3 of a: ok") {
		t.Error("ann cannot open it")
	}
}
