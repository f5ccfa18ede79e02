package fs

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"path"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// Trees: a program makes a directory that nobody else uses, with directories, symbolic links, pipes
// and files in it, renames directories below which it has files open, and gives all of them
// attributes. It knows at each moment what is there, so that each answer has to be the one that a
// plain directory would give. The model of names leaves trees out.

// simTreePrefix is how the names of trees begin.
const simTreePrefix = "tree-"

// simTree is what a program knows to be in its tree.
type simTree struct {
	p     *simProc
	k     *simKernel
	r     *rand.Rand
	nodes map[string]simNode // by path
	made  int
	lost  bool // an answer did not come, or an error of the disk has: what is there is not known
}

// simNode is one of its nodes.
type simNode struct {
	kind  uint32 // S_IFMT
	holds string // the text of a file, or where a link leads
	mode  uint32 // if a command has set it
	note  string // the extended attribute simNote
}

// drawTrees lets a program make a tree, as drawLocks does.
func (s *simScript) drawTrees(seed uint64) {
	r := rand.New(rand.NewPCG(seed, 62))
	if r.IntN(8) != 0 || s.hazards.cuts > 0 {
		return
	}
	p := &s.programs[r.IntN(2)] // not the guest, who may only read
	at := p.place(r)
	p.lines = slices.Insert(p.lines, at, fmt.Sprintf("plant %s%d", simTreePrefix, r.IntN(10)))
}

// plant makes a tree, and does things to it that the seed decides.
func (p *simProc) plant(root string) {
	t := &simTree{p: p, k: p.w.kernel, r: rand.New(rand.NewPCG(p.w.opts.seed, uint64(p.pid)<<8)), nodes: map[string]simNode{}}
	root = fmt.Sprintf("%s-%d", root, p.pid-firstPID)
	t.mkdir(root)
	t.mkdir(root + "/x")
	for range 12 + t.r.IntN(12) {
		if t.lost {
			return
		}
		t.step(root)
	}
	for _, at := range t.paths() { // all of it is there
		if !t.lost {
			t.look(at)
		}
	}
}

// step is one thing that happens to a tree.
func (t *simTree) step(root string) {
	at := t.some(unix.S_IFDIR)
	name := fmt.Sprintf("%s/n%d", at, t.made)
	t.made++
	switch t.r.IntN(15) {
	case 0:
		t.mkdir(name)
	case 1, 2:
		t.write(name, "")
	case 3:
		t.symlink(name, "n"+strings.Repeat("-", t.r.IntN(40)))
	case 4:
		t.mknod(name, []uint32{unix.S_IFIFO, unix.S_IFREG, unix.S_IFSOCK}[t.r.IntN(3)])
	case 5, 6:
		if at != root {
			t.write(at+"/open", path.Join(root, fmt.Sprintf("d%d", t.made)))
		}
	case 7, 8:
		t.list(at)
	case 9:
		t.label(t.any())
	case 10:
		t.chmod(t.any())
	case 11:
		t.remove(t.any(), root)
	case 12:
		t.rename(t.any(), path.Join(root, fmt.Sprintf("r%d", t.made)), root)
	case 13:
		t.syncDir(at)
	default:
		t.look(t.any())
	}
}

// paths are what is in the tree, those above first.
func (t *simTree) paths() []string { return slices.Sorted(maps.Keys(t.nodes)) }

// some is one of the nodes of a kind.
func (t *simTree) some(kind uint32) string {
	all := slices.DeleteFunc(t.paths(), func(at string) bool { return t.nodes[at].kind != kind })
	return all[t.r.IntN(len(all))]
}

func (t *simTree) any() string {
	all := t.paths()
	return all[t.r.IntN(len(all))]
}

// below are the nodes below a path.
func (t *simTree) below(at string) []string {
	return slices.DeleteFunc(t.paths(), func(x string) bool { return !strings.HasPrefix(x, at+"/") })
}

// call makes a system call, whose answer must be want. It reports whether it was.
func (t *simTree) call(nr int, what string, want unix.Errno, do func(k *simKernel) unix.Errno) bool {
	p := t.p
	if t.lost {
		return false
	}
	p.enter(nr, what, "cwd", what)
	began := p.w.now()
	e := do(p.kernel)
	p.w.logf("%s in its tree: %s: %s", p, what, result(e))
	t.answered(what, e, want, began)
	p.leave()
	return e == want && !t.lost
}

// answered is told of an answer.
func (t *simTree) answered(what string, e, want unix.Errno, began int64) {
	p := t.p
	p.w.model.count("tree " + unix.ErrnoName(e))
	switch {
	case t.k != p.w.kernel, t.k.isDead(), p.isKilled(), p.w.model.mayFail(e, began):
		t.lost = true
	case e != want:
		t.lost = true
		p.w.failf("%s: %s in its own tree must end with %s, not %s", p, what, result(want), result(e))
	}
}

// on makes a request of what a path leads to, which may be a directory or a link.
func (k *simKernel) on(p *simProc, at string, do func(n *simInode) unix.Errno) unix.Errno {
	return again(func(reval bool) unix.Errno {
		dir, name, e := k.walk(p, at, reval)
		if e != 0 {
			return e
		}
		n, e := k.lookup(p, dir, name, reval, false)
		switch {
		case e != 0:
			return e
		case n == nil:
			return unix.ENOENT
		}
		return do(n)
	})
}

func (t *simTree) mkdir(at string) {
	if t.call(unix.SYS_MKDIRAT, "mkdir "+at, 0, func(k *simKernel) unix.Errno { return k.mkdir(t.p, at) }) {
		t.nodes[at] = simNode{kind: unix.S_IFDIR}
	}
}

func (t *simTree) symlink(at, to string) {
	if t.call(unix.SYS_SYMLINKAT, "symlink "+at, 0, func(k *simKernel) unix.Errno {
		return k.makeNode(t.p, at, "SYMLINK", nil, func(h *Request, cancel <-chan struct{}, name string, out *Entry) unix.Errno {
			return k.fs.Symlink(cancel, h, to, name, out)
		})
	}) {
		t.nodes[at] = simNode{kind: unix.S_IFLNK, holds: to}
	}
}

func (t *simTree) mknod(at string, kind uint32) {
	if t.call(unix.SYS_MKNODAT, "mknod "+at, 0, func(k *simKernel) unix.Errno {
		return k.makeNode(t.p, at, "MKNOD", nil, func(h *Request, cancel <-chan struct{}, name string, out *Entry) unix.Errno {
			return k.fs.Mknod(cancel, &MakeRequest{Request: *h, Mode: kind | 0o644}, name, out)
		})
	}) {
		t.nodes[at] = simNode{kind: kind}
	}
}

// write writes a file. to: it renames the directory meanwhile in which that is.
func (t *simTree) write(at, to string) {
	p := t.p
	if t.lost {
		return
	}
	began := p.w.now()
	_, is := t.nodes[at]
	fd, f, e := p.open(at, unix.O_WRONLY|unix.O_CREAT|unix.O_TRUNC)
	if t.answered("open "+at, e, 0, began); e != 0 {
		return
	}
	f.version = p.w.model.newVersion(p)
	parts := versionText(f.version)
	e = p.write(fd, parts[0])
	if from := path.Dir(at); to != "" && e == 0 && !t.lost {
		t.rename(from, to, "")
		at = to + strings.TrimPrefix(at, from)
	}
	for _, part := range parts[1:] {
		e = cmp.Or(e, p.write(fd, part))
	}
	e = cmp.Or(e, p.close(fd))
	if t.answered("write "+at, e, 0, began); t.lost {
		return
	}
	n := simNode{kind: unix.S_IFREG}
	if is {
		n = t.nodes[at]
	}
	n.holds = strings.Join(parts, "")
	t.nodes[at] = n
}

func (t *simTree) rename(from, to, root string) {
	if from == root || from == path.Dir(from) || strings.HasPrefix(to, from+"/") || t.lost {
		return
	}
	began := t.p.w.now()
	if t.answered("rename "+from+" to "+to, t.p.mv(from, to, "", 0), 0, began); t.lost {
		return
	}
	for _, x := range append(t.below(from), from) {
		t.nodes[to+strings.TrimPrefix(x, from)] = t.nodes[x]
		delete(t.nodes, x)
	}
}

func (t *simTree) remove(at, root string) {
	n, dir := t.nodes[at], t.nodes[at].kind == unix.S_IFDIR
	want := unix.Errno(0)
	if dir && len(t.below(at)) > 0 {
		want = unix.ENOTEMPTY
	}
	if at == root && want == 0 || n.kind == 0 {
		return
	}
	if t.call(unix.SYS_UNLINKAT, "remove "+at, want, func(k *simKernel) unix.Errno { return k.unlink(t.p, at, dir) }) && want == 0 {
		delete(t.nodes, at)
	}
}

func (t *simTree) label(at string) {
	n := t.nodes[at]
	if n.kind != unix.S_IFDIR && n.kind != unix.S_IFREG {
		return
	}
	value := t.p.newLabel()
	if t.call(unix.SYS_SETXATTR, "label "+at, 0, func(k *simKernel) unix.Errno {
		return k.on(t.p, at, func(n *simInode) unix.Errno { return k.setxattr(t.p, n, simNote, value) })
	}) {
		n.note = value
		t.nodes[at] = n
	}
}

func (t *simTree) chmod(at string) {
	n := t.nodes[at]
	if n.kind == unix.S_IFLNK {
		return
	}
	mode := []uint32{0o700, 0o711, 0o755, 0o777}[t.r.IntN(4)]
	if t.call(unix.SYS_CHMOD, "chmod "+at, 0, func(k *simKernel) unix.Errno {
		return k.on(t.p, at, func(n *simInode) unix.Errno {
			if e := k.getattr(t.p, n); e != 0 {
				return e
			}
			return k.setattr(t.p, n, nil, modeAttr(mode))
		})
	}) {
		n.mode = mode
		t.nodes[at] = n
	}
}

func (t *simTree) syncDir(at string) {
	var free unix.Statfs_t
	t.call(unix.SYS_FSYNC, "fsync "+at, 0, func(k *simKernel) unix.Errno {
		return k.on(t.p, at, func(n *simInode) unix.Errno {
			return k.inDirectory(t.p, n, at, func(h Request, handle uint64) unix.Errno {
				return cmp.Or(k.fs.StatFs(nil, &h, &free), k.fs.FsyncDir(nil, &FsyncRequest{Request: h, Handle: handle}))
			})
		})
	})
	if !t.lost && free.Bsize == 0 {
		t.p.w.failf("%s: statfs says nothing of %s", t.p, at)
	}
}

// inDirectory does something with an open directory.
func (k *simKernel) inDirectory(p *simProc, n *simInode, at string, do func(h Request, handle uint64) unix.Errno) unix.Errno {
	var out Opened
	e := k.request(p, "OPENDIR "+at, func(h Request, cancel <-chan struct{}) unix.Errno {
		h.Node = n.id
		return k.fs.OpenDir(cancel, &OpenRequest{Request: h}, &out)
	})
	if e != 0 {
		return e
	}
	e = k.request(p, "a request of the open directory "+at, func(h Request, _ <-chan struct{}) unix.Errno {
		h.Node = n.id
		return do(h, out.Handle)
	})
	if !k.isDead() {
		k.fs.ReleaseDir(&ReleaseRequest{Request: Request{Node: n.id}, Handle: out.Handle})
	}
	return e
}

// simPlusListing is what the kernel gets of a directory with READDIRPLUS.
type simPlusListing struct {
	simListing
	entries map[string]Entry
}

// Describe implements Listing.
func (l *simPlusListing) Describe(e *Entry) { l.entries[l.names[len(l.names)-1]] = *e }

// list lists a directory with what its names lead to.
func (t *simTree) list(at string) {
	got := simPlusListing{entries: map[string]Entry{}}
	stop := t.p.looking()
	ok := t.call(unix.SYS_GETDENTS64, "list "+at, 0, func(k *simKernel) unix.Errno {
		return k.on(t.p, at, func(n *simInode) unix.Errno {
			e := k.inDirectory(t.p, n, at, func(h Request, handle uint64) unix.Errno {
				return k.fs.ReadDirPlus(nil, &ReadRequest{Request: h, Handle: handle, Size: 1 << 16}, &got)
			})
			k.plant(t.p, n, got.entries)
			return e
		})
	})
	stop()
	if !ok {
		return
	}
	var want []string
	for x, n := range t.nodes {
		if path.Dir(x) != at {
			continue
		}
		want = append(want, path.Base(x))
		if e, is := got.entries[path.Base(x)]; is && e.Node != 0 && e.Attr.Mode&unix.S_IFMT != n.kind {
			t.p.w.failf("%s lists %s, and finds of %s that its mode is %o", t.p, at, x, e.Attr.Mode)
		}
	}
	slices.Sort(want)
	names := slices.DeleteFunc(got.names, func(n string) bool { return n == "." || n == ".." })
	if slices.Sort(names); !slices.Equal(names, want) {
		t.p.w.failf("%s lists %s, and finds %v, not %v", t.p, at, names, want)
	}
}

// plant is fuse_direntplus_link: the names lead to these nodes.
func (k *simKernel) plant(p *simProc, dir *simInode, entries map[string]Entry) {
	for _, name := range slices.Sorted(maps.Keys(entries)) {
		if e := entries[name]; e.Node != 0 && !k.isDead() {
			n := k.inodeOf(p, &e)
			k.mu.Lock()
			k.putLocked(dir, name, n, e.NameTTL)
			k.mu.Unlock()
		}
	}
}

// look looks whether a node is what it has to be.
func (t *simTree) look(at string) {
	n := t.nodes[at]
	var a Attr
	if !t.call(unix.SYS_NEWFSTATAT, "stat "+at, 0, func(k *simKernel) (e unix.Errno) {
		a, e = k.stat(t.p, at)
		return e
	}) {
		return
	}
	if a.Mode&unix.S_IFMT != n.kind || n.mode != 0 && a.Mode&0o7777 != n.mode || n.kind == unix.S_IFREG && int(a.Size) != len(n.holds) {
		t.p.w.failf("%s finds of %s the mode %o and %d bytes, not %o, %o and %d", t.p, at, a.Mode, a.Size, n.kind, n.mode, len(n.holds))
	}
	switch n.kind {
	case unix.S_IFLNK:
		t.readlink(at, n)
	case unix.S_IFREG:
		if text, _, ok := t.p.readWhole(at); ok && text != n.holds && t.k == t.p.w.kernel && !t.k.isDead() && !t.p.isKilled() {
			t.p.w.failf("%s reads %q from %s, not %q", t.p, text, at, n.holds)
		}
		fallthrough
	case unix.S_IFDIR:
		note := ""
		if t.call(unix.SYS_GETXATTR, "getxattr "+at, 0, func(k *simKernel) unix.Errno {
			return k.on(t.p, at, func(n *simInode) (e unix.Errno) {
				note, e = k.getxattr(t.p, n, simNote)
				return e
			})
		}) && note != n.note {
			t.p.w.failf("%s finds the note %q of %s, not %q", t.p, note, at, n.note)
		}
	}
}

func (t *simTree) readlink(at string, n simNode) {
	var to []byte
	if t.call(unix.SYS_READLINKAT, "readlink "+at, 0, func(k *simKernel) unix.Errno {
		return k.on(t.p, at, func(n *simInode) unix.Errno {
			return k.request(t.p, "READLINK "+at, func(h Request, _ <-chan struct{}) (e unix.Errno) {
				h.Node = n.id
				to, e = k.fs.Readlink(nil, &h)
				return e
			})
		})
	}) && string(to) != n.holds {
		t.p.w.failf("%s finds that %s leads to %q, not to %q", t.p, at, to, n.holds)
	}
}

// Trees without any harm, and with the kernel's forgetting.
func TestTrees(t *testing.T) {
	for seed := range uint64(20) {
		w := simulate(t, simBase(t), simOptions{seed: 7000 + seed, script: parseScript("ann: plant tree-1; plant tree-2 | bob: plant tree-1; list .", simHazards{passes: int(seed % 2)})})
		if len(w.failures) > 0 {
			t.Fatalf("%s\n%s", w.transcript(), w.failures)
		}
	}
}
