package fs

import (
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"latchfs/fs/dcache"
	"latchfs/lockmgr/knowledge"
	"latchfs/lockmgr/policy"
	"latchfs/lockmgr/proc"
)

// named is a filesystem with nodes alone.
type named struct {
	*FS
	t    *testing.T
	root *inode
	ino  uint64
}

func newNamed(t *testing.T) *named {
	t.Helper()
	f := newFS(Options{Policy: policy.Default()})
	root := f.nodes.newInodeLocked(-1, inoKey{1, 0}, unix.S_IFDIR)
	f.kernel.plantRootLocked(root)
	return &named{FS: f, t: t, root: root}
}

// node makes one that the kernel knows.
func (f *named) node(kind uint32, parent *inode, name string) *inode {
	f.t.Helper()
	f.ino++
	n := f.nodes.newInodeLocked(-1, inoKey{1, f.ino}, kind)
	f.kernel.lookedUpLocked(n)
	f.nodes.setNameLocked(n, parent, name)
	return n
}

func (f *named) dir(parent *inode, name string) *inode { return f.node(unix.S_IFDIR, parent, name) }

func (f *named) file(parent *inode, name string) *inode { return f.node(unix.S_IFREG, parent, name) }

func (f *named) wantPath(n *inode, want string) {
	f.t.Helper()
	if got := f.nodes.nodePath(n); got != want {
		f.t.Errorf("the path is %q, want %q", got, want)
	}
}

// forgetAll lets the kernel forget all nodes, after which no name may be left.
func (f *named) forgetAll() {
	f.t.Helper()
	for id := range f.nodes.kernelNodes {
		if id != rootID {
			f.kernel.Forget(id, 1)
		}
	}
	if len(f.nodes.kernelNodes) != 1 || len(f.nodes.inodes) != 1 || f.nodes.dentries.Len() != 1 || f.root.pins != 0 {
		f.t.Errorf("%d nodes, %d inodes and %d names are left, want the root alone, which has %d pins",
			len(f.nodes.kernelNodes), len(f.nodes.inodes), f.nodes.dentries.Len(), f.root.pins)
	}
}

func TestNamesMoveWithTheirDirectory(t *testing.T) {
	f := newNamed(t)
	d := f.dir(f.root, "d")
	e := f.dir(f.root, "e")
	sub := f.dir(d, "sub")
	x := f.file(sub, "x")
	f.nodes.setLiveNameLocked(sub, "x", liveByUse)
	f.wantPath(x, "d/sub/x")
	f.nodes.setNameLocked(sub, e, "moved")
	f.wantPath(x, "e/moved/x")
	if !f.nodes.isLivePath("e/moved/x") || f.nodes.isLivePath("d/sub/x") {
		t.Error("what is live below the directory has not moved with it")
	}
	if d.pins != 0 || e.pins != 1 {
		t.Errorf("%d pins on the old directory and %d on the new one, want 0 and 1", d.pins, e.pins)
	}
	f.nodes.setLiveNameLocked(sub, "x", notLive)
	f.forgetAll()
}

// TestDirectoryInAnothersPlace replaces a directory, with a file in it that is being
// written, around the mount.
func TestDirectoryInAnothersPlace(t *testing.T) {
	f := newNamed(t)
	was := f.dir(f.root, "d")
	x := f.file(was, "x")
	x.dentry.State.sess = &session{}
	is := f.dir(f.root, "d")
	if f.nodes.nameLocked(was, "x").sess == nil || f.nodes.nameLocked(is, "x").sess != nil {
		t.Error("a name in the new directory is taken for the same one in the old")
	}
	f.wantPath(x, "d/x")
	f.nodes.setNameLocked(was, f.root, "old")
	f.wantPath(x, "old/x")
	x.dentry.State.sess = nil
	f.forgetAll()
}

func TestDirectoryBelowItself(t *testing.T) {
	f := newNamed(t)
	a := f.dir(f.root, "a")
	b := f.dir(a, "b")
	c := f.dir(b, "c")
	x := f.file(c, "x")
	f.nodes.strandLocked(b) // the kernel asks for a in c, which is below what was below a
	f.nodes.setNameLocked(a, c, "a")
	f.wantPath(a, "b/c/a")
	f.wantPath(x, "b/c/x")
	f.nodes.setNameLocked(b, f.root, "b")
	f.wantPath(x, "b/c/x")
	if f.nodes.dentries.At("b/c/x") != x.dentry {
		t.Error("the stranded directory is not found by the name under which it was looked up")
	}
	f.forgetAll()
}

func TestOtherNamesOfAFile(t *testing.T) {
	f := newNamed(t)
	x := f.file(f.root, "x0")
	for i := range dcache.MaxEarlier + 5 {
		f.nodes.setNameLocked(x, f.root, string(rune('a'+i)))
	}
	f.nodes.setNameLocked(x, f.root, "a")
	if len(x.others) != dcache.MaxEarlier || x.others[dcache.MaxEarlier-1].Name() != string(rune('a'+dcache.MaxEarlier+4)) {
		t.Errorf("%d other names are known, the last is %q", len(x.others), x.others[len(x.others)-1].Name())
	}
	for _, d := range x.others {
		if d.Parent().State.dir != f.root {
			t.Errorf("the directory of %q is not found by it", d.Path())
		}
	}
	f.forgetAll()
}

// A directory and a live file change places. The names are set once more when the
// sessions follow, which moves nothing again.
func TestExchangeOfDirectoryAndLiveFile(t *testing.T) {
	f := newNamed(t)
	d := f.dir(f.root, "d")
	y := f.file(d, "y")
	x := f.file(f.root, "x")
	f.nodes.setLiveNameLocked(f.root, "x", liveByUse)
	r := &renaming{entries: f.FS.entries, from: place{f.root, "d", d}, to: place{f.root, "x", x}, flags: unix.RENAME_EXCHANGE}
	r.moveDentriesLocked()
	r.setNamesLocked(recentRename{})
	r.setNamesLocked(recentRename{})
	f.wantPath(x, "d")
	f.wantPath(y, "x/y")
	if !f.nodes.isLivePath("d") || f.nodes.isLivePath("x") {
		t.Error("what is live has not changed its place with the directory")
	}
	f.nodes.setLiveNameLocked(f.root, "d", notLive)
	f.forgetAll()
}

// A request that has begun on a file works on that file, although another request makes
// the node a session's meanwhile, which publishes, and the file's old version is forgotten.
func TestRequestKeepsWhatItIsAbout(t *testing.T) {
	f := newNamed(t)
	open := func(n *inode) {
		fd, err := unix.Open(t.TempDir(), unix.O_PATH|unix.O_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		n.fd = fd
	}
	n := f.file(f.root, "a")
	open(n)
	shadow := f.nodes.newInodeLocked(-1, inoKey{1, 1000}, unix.S_IFREG)
	open(shadow)
	s := &session{nodes: f.FS.nodes, inode: shadow}
	shadow.sess, shadow.pins = s, 1

	k := n.nodeLocked()
	first, second := f.kernel.hold(k.id), f.kernel.hold(k.id)
	fd := f.nodes.fdOf(n)
	if !f.sessions.takeOver(k, s) || f.kernel.inodeOf(k.id) != shadow {
		t.Fatal("the node was not taken over")
	}
	f.nodes.mu.Lock()
	f.kernel.dropFormerLocked(k) // the session has published
	f.nodes.mu.Unlock()
	second.end()
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err != nil {
		t.Errorf("the file is closed before the first request has ended: %v", err)
	}
	first.end()
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err == nil {
		t.Error("the file is open when all requests have ended")
	}
	shadow.sess = nil
	f.nodes.unpin(shadow)
	f.forgetAll()
}

// A node that a session took over stands for its file again when that is over and nothing
// was published: at once, or when the last one closes it.
func TestNodeGivenBack(t *testing.T) {
	for _, opened := range []bool{false, true} {
		f := newNamed(t)
		f.kernel.srv = noKernel{}
		n := f.file(f.root, "a")
		shadow := f.nodes.newInodeLocked(-1, inoKey{1, 1000}, unix.S_IFREG)
		s := &session{nodes: f.FS.nodes, inode: shadow}
		shadow.sess, shadow.pins = s, 1
		k := n.nodeLocked()
		if !f.sessions.takeOver(k, s) || f.kernel.inodeOf(k.id) != shadow {
			t.Fatal("the node was not taken over")
		}
		other := f.kernel.lookedUp(n) // what a lookup finds meanwhile
		var h *handle
		if opened {
			h = f.handles.newHandle(k, shadow, shadowHandle, unix.O_RDWR, ids{})
		}
		f.nodes.mu.Lock()
		shadow.sess, shadow.orphan = nil, true
		f.nodes.mu.Unlock()
		f.names.giveBack(shadow)
		if opened {
			if f.kernel.inodeOf(k.id) != shadow {
				t.Error("a node was given back that somebody has open")
			}
			f.endings.closeHandle(h)
		}
		if f.kernel.inodeOf(k.id) != n || other == k || n.nodeLocked() != other {
			t.Errorf("opened %t: the node does not stand for its file again, beside the one that lookups lead to", opened)
		}
		f.nodes.unpin(shadow)
		if f.nodes.inodes[shadow.key] != nil {
			t.Errorf("opened %t: the shadow is not forgotten", opened)
		}
		f.forgetAll()
	}
}

// A node that is set aside stands for its inode to those who came before. Others are led
// to another one, until a session takes the first over.
func TestNodeSetAside(t *testing.T) {
	f := newNamed(t)
	n := f.file(f.root, "a")
	first := n.nodeLocked()
	h := f.handles.newHandle(first, n, readHandle, unix.O_RDONLY, ids{})
	shadow := f.nodes.newInodeLocked(-1, inoKey{1, 1000}, unix.S_IFREG)
	s := &session{nodes: f.FS.nodes, inode: shadow}
	shadow.sess, shadow.pins = s, 1

	first.aside = true
	if f.sessions.takeOver(first, s) {
		t.Error("a node was taken over that somebody has open")
	}
	second := f.kernel.lookedUp(n)
	if second == first || f.kernel.behind(second) != n || f.kernel.lookedUp(n) != second {
		t.Error("lookups do not lead to one other node of the inode")
	}
	if f.handles.newHandle(first, shadow, plainHandle, unix.O_RDWR, ids{}) != nil {
		t.Error("a handle was made on an inode for which its node does not stand")
	}
	f.endings.closeHandle(h)
	if !f.sessions.takeOver(first, s) || f.kernel.behind(first) != shadow || f.kernel.behind(second) != n {
		t.Error("the node set aside is not the shadow's alone")
	}
	if f.kernel.lookedUp(shadow) != first {
		t.Error("lookups of the shadow do not lead to the node that it took over")
	}
	shadow.sess = nil
	f.nodes.unpin(shadow)
	f.kernel.Forget(first.id, 1)
	f.kernel.Forget(second.id, 1)
	f.forgetAll()
}

// A read of a file to which its program appends keeps the file that it has begun with:
// meanwhile the appender may go on to a newer version, and close this one.
func TestReadKeepsItsFile(t *testing.T) {
	r, _ := unmounted(t, "")
	r.replace("")
	id := r.lookup("f")
	fh, st := r.open(id, unix.O_RDWR|unix.O_APPEND)
	if st != 0 {
		t.Fatal(st)
	}
	r.write(id, fh, 0, "one\n")
	h := r.f.handles.handleOf(fh)
	fd, own, e := r.f.contents.readFile(h)
	if e != 0 || !own {
		t.Fatalf("the read has descriptor %d of its own: %v, errno %v", fd, own, e)
	}
	h.app.Close()
	if _, err := unix.Pread(fd, make([]byte, 1), 0); err != nil {
		t.Errorf("the appender has gone on, and the read says %v", err)
	}
	unix.Close(fd)
	r.close(id, fh)
}

// A name that a file has lost may have been in a directory that is forgotten by now.
func TestLostNameInAForgottenDirectory(t *testing.T) {
	f := newNamed(t)
	f.rules.knowledge = knowledge.New(time.Hour)
	d := f.dir(f.root, "d")
	n := f.file(d, "a")
	lost := n.keyLocked()
	f.astray.noteRenamedLocked(n, lost, recentRename{at: time.Now(), came: map[int32]dkey{7: lost}})
	f.nodes.setNameLocked(n, f.root, "a")
	f.kernel.Forget(d.nodeLocked().id, 1)
	if f.nodes.inodes[d.key] != nil {
		t.Fatal("the directory is not forgotten")
	}
	if f.astray.leadsToLocked("d", &proc.Given{}, lost.knownDir(), f.root) {
		t.Error("a path leads to a directory that nobody knows")
	}
	if dir, _ := f.astray.nameReadLocked(n, 7); dir != nil {
		t.Error("what is read is noted under a name in a directory that nobody knows")
	}
	if len(f.names.formerLocked(lost)) != 0 {
		t.Error("a directory that nobody knows has former files")
	}
	f.forgetAll()
}
