package fs

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// The system calls of the simulated kernel that change names.

func sortedNames(m map[string]*simDentry) []string { return slices.Sorted(maps.Keys(m)) }

func (f *FS) lastNode() uint64 {
	f.nodes.mu.Lock()
	defer f.nodes.mu.Unlock()
	return f.kernel.nextID
}

// unlink is unlink(2), or rmdir(2).
func (k *simKernel) unlink(p *simProc, path string, directory bool) unix.Errno {
	return again(func(reval bool) unix.Errno {
		dir, name, e := k.walk(p, path, reval)
		if e != 0 {
			return e
		}
		dir.lock.lock(true)
		defer dir.lock.unlock(true)
		n, e := k.lookup(p, dir, name, reval, true)
		switch {
		case e != 0:
			return e
		case n == nil:
			return unix.ENOENT
		case n.isDir && !directory:
			return unix.EISDIR
		case !n.isDir && directory:
			return unix.ENOTDIR
		}
		if e := k.getattr(p, dir); e != 0 {
			return e
		}
		n.lock.lock(true)
		defer n.lock.unlock(true)
		what, do := "UNLINK ", k.fs.Unlink
		if directory {
			what, do = "RMDIR ", k.fs.Rmdir
		}
		e = k.request(p, what+name, func(h Request, cancel <-chan struct{}) unix.Errno {
			h.Node = dir.id
			return do(cancel, &h, name)
		})
		if e == 0 || e == unix.EINTR {
			k.unnamed(dir, name)
		}
		if e == 0 {
			k.died(n)
			k.w.removed(p, dir, name)
		}
		return e
	})
}

// died notes that a directory was removed, if it is one.
func (k *simKernel) died(n *simInode) {
	k.mu.Lock()
	defer k.mu.Unlock()
	n.dead = n.isDir
}

// unnamed forgets a name that was taken away, and what is known of its directory.
func (k *simKernel) unnamed(dir *simInode, name string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	dir.until = time.Time{}
	if d := dir.children[name]; d != nil {
		if d.inode != nil {
			d.inode.until = time.Time{}
		}
		k.dropLocked(d)
	}
}

// forgetName makes the kernel forget a name in each directory that has it.
func (k *simKernel) forgetName(name string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, n := range k.inodes {
		if d := n.children[name]; d != nil {
			k.dropLocked(d)
		}
	}
}

// forgetNames makes the kernel forget all names, and every inode that nobody uses then.
func (k *simKernel) forgetNames() {
	k.mu.Lock()
	for _, n := range k.inodes {
		for _, d := range n.children {
			k.dropLocked(d)
		}
	}
	k.mu.Unlock()
	k.forgetUnused()
}

func (k *simKernel) mkdir(p *simProc, path string) unix.Errno {
	return k.makeNode(p, path, "MKDIR", k.getattr, func(h *Request, cancel <-chan struct{}, name string, out *Entry) unix.Errno {
		return k.fs.Mkdir(cancel, &MakeRequest{Request: *h, Mode: 0o755}, name, out)
	})
}

// makeNode makes something that has no descriptor, under the directory's lock. first, if not nil, is
// asked of the directory before.
func (k *simKernel) makeNode(p *simProc, at, what string, first func(p *simProc, dir *simInode) unix.Errno, do func(h *Request, cancel <-chan struct{}, name string, out *Entry) unix.Errno) unix.Errno {
	return again(func(reval bool) unix.Errno {
		dir, name, e := k.walk(p, at, reval)
		if e != 0 {
			return e
		}
		dir.lock.lock(true)
		defer dir.lock.unlock(true)
		n, e := k.lookup(p, dir, name, true, true)
		switch {
		case e != 0:
			return e
		case n != nil:
			return unix.EEXIST
		case first != nil:
			if e := first(p, dir); e != 0 {
				return e
			}
		}
		var out Entry
		e = k.request(p, what+" "+name, func(h Request, cancel <-chan struct{}) unix.Errno {
			h.Node = dir.id
			return do(&h, cancel, name, &out)
		})
		if e != 0 {
			return e
		}
		made := k.inodeOf(p, &out)
		k.mu.Lock()
		defer k.mu.Unlock()
		k.putLocked(dir, name, made, out.NameTTL)
		dir.until = seen(-1)
		return 0
	})
}

func (k *simKernel) stat(p *simProc, path string) (a Attr, e unix.Errno) {
	e = again(func(reval bool) unix.Errno {
		dir, name, e := k.walk(p, path, reval)
		if e != 0 {
			return e
		}
		n, e := k.lookup(p, dir, name, reval, false)
		if e == 0 && n == nil {
			e = unix.ENOENT
		}
		if e == 0 {
			e = k.getattr(p, n)
		}
		if e == 0 {
			k.mu.Lock()
			a = n.attr
			k.mu.Unlock()
		}
		return e
	})
	return a, e
}

func (k *simKernel) rename(p *simProc, from, to string, flags uint32) unix.Errno {
	return again(func(reval bool) unix.Errno { return k.renameOnce(p, from, to, flags, reval) })
}

func (k *simKernel) renameOnce(p *simProc, from, to string, flags uint32, reval bool) unix.Errno {
	a, old, e := k.walk(p, from, reval)
	if e != 0 {
		return e
	}
	b, name, e := k.walk(p, to, reval)
	if e != 0 {
		return e
	}
	defer k.lockTwo(a, b)()
	n, e := k.lookup(p, a, old, reval, true)
	if e != 0 {
		return e
	}
	if n == nil {
		return unix.ENOENT
	}
	target, e := k.lookup(p, b, name, true, true)
	switch {
	case e != 0:
		return e
	case n == b || target == a && target != nil:
		return unix.EINVAL
	case target != nil && flags&unix.RENAME_NOREPLACE != 0:
		return unix.EEXIST
	case target == nil && flags&unix.RENAME_EXCHANGE != 0:
		return unix.ENOENT
	case target == n:
		return 0
	case target != nil && target.isDir && !n.isDir:
		return unix.EISDIR
	case target != nil && !target.isDir && n.isDir:
		return unix.ENOTDIR
	}
	for _, dir := range []*simInode{a, b} {
		if e := k.getattr(p, dir); e != 0 {
			return e
		}
	}
	defer lockInodes(n, target)()
	e = k.request(p, fmt.Sprintf("RENAME %s %s", old, name), func(h Request, cancel <-chan struct{}) unix.Errno {
		h.Node = a.id
		return k.fs.Rename(cancel, &RenameRequest{Request: h, NewDir: b.id, Flags: flags}, old, name)
	})
	if e != 0 && e != unix.EINTR {
		return e
	}
	if flags&unix.RENAME_EXCHANGE != 0 && e == 0 {
		k.exchanged(a, b, old, name)
		k.w.moved(p, a, old, b, name, true)
		return e
	}
	k.unnamed(b, name) // after EINTR the kernel does not know, and forgets both names
	if target != nil && e == 0 {
		k.died(target)
	}
	k.renamed(n, a, old, b, name, e == 0)
	if e == 0 {
		k.w.moved(p, a, old, b, name, false)
	}
	return e
}

// renamed takes an inode's old name away, and gives it the new one if the rename has happened.
func (k *simKernel) renamed(n, a *simInode, old string, b *simInode, name string, happened bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	a.until = time.Time{}
	n.until = time.Time{}
	if d := a.children[old]; d != nil && d.inode == n { // it was not forgotten meanwhile
		until := d.until
		k.dropLocked(d)
		if happened {
			k.putLocked(b, name, n, time.Until(until))
		}
	}
}

// exchanged lets two names change places.
func (k *simKernel) exchanged(a, b *simInode, old, name string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	a.until, b.until = time.Time{}, time.Time{}
	x, y := a.children[old], b.children[name]
	if x == nil || y == nil || x.inode == nil || y.inode == nil {
		for _, d := range []*simDentry{x, y} { // the other name was forgotten meanwhile
			if d != nil {
				k.dropLocked(d)
			}
		}
		return
	}
	x.inode.until, y.inode.until = time.Time{}, time.Time{}
	x.inode, y.inode = y.inode, x.inode
	x.until, y.until = y.until, x.until
}

// filesMove gives open files the names that they have after a rename.
func (w *simWorld) filesMove(a *simInode, old string, b *simInode, name string, exchanged bool) {
	for _, p := range w.procs.living() {
		for _, f := range p.files() {
			switch at := f.named(); {
			case at == simName{a, old}:
				f.gets(simName{b, name}, true)
			case at == simName{b, name} && exchanged:
				f.gets(simName{a, old}, true)
			case at == simName{b, name}:
				f.gets(simName{}, true)
			}
		}
	}
}

// filesLose takes a name from open files.
func (w *simWorld) filesLose(dir *simInode, name string) {
	for _, q := range w.procs.living() {
		for _, f := range q.files() {
			if (f.named() == simName{dir, name}) {
				f.gets(simName{}, true)
			}
		}
	}
}

// lockTwo is lock_rename: two directories one after the other, under the lock of the
// filesystem's renames.
func (k *simKernel) lockTwo(a, b *simInode) (unlock func()) {
	if a == b {
		a.lock.lock(true)
		return func() { a.lock.unlock(true) }
	}
	k.renames.lock(true)
	if a.id > b.id { // a directory is known before those below it
		a, b = b, a
	}
	a.lock.lock(true)
	b.lock.lock(true)
	return func() {
		b.lock.unlock(true)
		a.lock.unlock(true)
		k.renames.unlock(true)
	}
}

// lockInodes is lock_two_nondirectories, and the lock of a directory that is replaced.
func lockInodes(n, target *simInode) (unlock func()) {
	var all []*simInode
	for _, x := range []*simInode{n, target} {
		if x != nil && (!x.isDir || x == target) {
			all = append(all, x)
		}
	}
	slices.SortFunc(all, func(a, b *simInode) int { return int(a.id) - int(b.id) })
	for _, x := range all {
		x.lock.lock(true)
	}
	return func() {
		for _, x := range all {
			x.lock.unlock(true)
		}
	}
}

// simLock is a fair lock for one who excludes all others, or for many who share it.
// Whoever waits for it waits for a channel, so that the simulation sees it.
type simLock struct {
	mu      sync.Mutex
	alone   bool
	sharers int
	queue   []simWaiter
}

type simWaiter struct {
	alone bool
	go_   chan struct{}
}

func (l *simLock) lock(alone bool) {
	l.mu.Lock()
	if len(l.queue) == 0 && !l.alone && (!alone || l.sharers == 0) {
		l.grantLocked(alone)
		l.mu.Unlock()
		return
	}
	w := simWaiter{alone, make(chan struct{})}
	l.queue = append(l.queue, w)
	l.mu.Unlock()
	<-w.go_
}

func (l *simLock) grantLocked(alone bool) {
	if alone {
		l.alone = true
	} else {
		l.sharers++
	}
}

func (l *simLock) unlock(alone bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if alone {
		l.alone = false
	} else {
		l.sharers--
	}
	for len(l.queue) > 0 && !l.alone && (!l.queue[0].alone || l.sharers == 0) {
		w := l.queue[0]
		l.queue = l.queue[1:]
		l.grantLocked(w.alone)
		close(w.go_)
	}
}

// A program is on its way to a file by one of two names, which is removed, and the file is known
// by the other. What the program reads is not what the name holds that somebody makes anew, and
// it does not replace that.
func TestRemovedBeforeAReaderOpens(t *testing.T) {
	inTurns(t, []simProgram{simProgramOf("cyn", "ln a b", "rm a"), simProgramOf("ann", "edit a"), simProgramOf("bob", "echo a")},
		"cyn until UNLINK a", "ann until OPEN a", "cyn to the end", "ann until call rename", "bob to the end", "ann to the end")
}
