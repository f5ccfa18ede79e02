package iomode

import (
	"slices"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

// A file notes what it is asked.
type file struct {
	disk
	noStamp bool
	did     []string
}

func newFile() *file { return &file{disk: disk{version: 1, registered: map[int32]bool{}}} }

func (f *file) Register(roots bool) (int32, bool) {
	f.did = append(f.did, map[bool]string{true: "register for root", false: "register"}[roots])
	return f.disk.Register(roots)
}

func (f *file) Unregister(id int32) {
	f.did = append(f.did, "unregister")
	f.disk.Unregister(id)
}

func (f *file) Stamp() (Stamp, bool) {
	f.did = append(f.did, "stamp")
	s, _ := f.disk.Stamp()
	return s, !f.noStamp
}

func (f *file) HasLoneSetgid() bool {
	f.did = append(f.did, "setgid")
	return f.disk.HasLoneSetgid()
}

func (f *file) IsShortOfSpace() bool {
	f.did = append(f.did, "space")
	return f.disk.IsShortOfSpace()
}

// asks fails unless these were the questions since the last call.
func (f *file) asks(t *testing.T, want ...string) {
	t.Helper()
	if !slices.Equal(f.did, want) {
		t.Errorf("the file was asked %q, want %q", f.did, want)
	}
	f.did = nil
}

// start answers one more open.
func start(n *Node, w Wanted, f File) (*Open, Answer) {
	o := &Open{}
	a := n.Start(o, w, f)
	return o, a
}

var (
	reads      = Wanted{Mode: Passthrough}
	rootReads  = Wanted{Mode: Passthrough, Root: true}
	writes     = Wanted{Mode: Passthrough, Writes: true}
	rootWrites = Wanted{Mode: Passthrough, Writes: true, Root: true}
	directly   = Wanted{Mode: Direct, Writes: true}
	watched    = Wanted{Mode: Watched}
)

// What is wanted is answered by the state of the node, and by nothing that need not be asked.
func TestAnswers(t *testing.T) {
	unbuffered := writes
	unbuffered.Unbuffered = true
	readsUnbuffered := reads
	readsUnbuffered.Unbuffered = true
	growing := reads
	growing.Grows = true
	passes := func(w Wanted) func(n *Node, f *file) { return func(n *Node, f *file) { start(n, w, f) } }
	without := func(n *Node, f *file) { f.cannot = true }
	cached := func(n *Node, f *file) { f.cannot = true; start(n, reads, f); f.cannot = false }
	mapped := func(n *Node, f *file) { start(n, watched, f) }
	setgid := func(n *Node, f *file) { f.setgid = true }
	for _, c := range []struct {
		name string
		node func(n *Node, f *file)
		want Wanted
		mode Mode
		asks []string
	}{
		{"a reader", nil, reads, Passthrough, []string{"register"}},
		{"a reader of a setgid file", setgid, reads, Passthrough, []string{"register"}},
		{"a reader with O_DIRECT", nil, readsUnbuffered, Passthrough, []string{"register"}},
		{"root reads", nil, rootReads, Passthrough, []string{"register for root"}},
		{"a writer", nil, writes, Passthrough, []string{"register", "setgid"}},
		{"root writes", nil, rootWrites, Passthrough, []string{"register for root", "setgid"}},
		{"a writer of a setgid file", setgid, writes, Mixed, []string{"register", "setgid"}},
		{"a writer with O_DIRECT", nil, unbuffered, Mixed, []string{"register", "setgid"}},
		{"what goes elsewhere", nil, directly, Mixed, []string{"register"}},
		{"what is watched", nil, watched, Watched, nil},

		{"a reader beside one", passes(reads), reads, Passthrough, nil},
		{"root reads beside a user", passes(reads), rootReads, Passthrough, nil},
		{"a user reads beside root's writer", passes(rootWrites), reads, Passthrough, nil},
		{"a writer beside a reader", passes(reads), writes, Passthrough, []string{"setgid"}},
		{"root writes beside a user", passes(reads), rootWrites, Passthrough, []string{"setgid", "space"}},
		{"root writes beside a user, and space is short", func(n *Node, f *file) { start(n, reads, f); f.short = true }, rootWrites, Mixed, []string{"setgid", "space"}},
		{"a user writes beside root", passes(rootReads), writes, Mixed, []string{"setgid"}},
		{"what goes elsewhere beside a reader", passes(reads), directly, Mixed, nil},
		{"what is watched beside a reader", passes(reads), watched, Mixed, nil},
		{"a reader beside what goes elsewhere", passes(directly), reads, Passthrough, nil},

		{"a reader without passthrough", without, reads, Cached, []string{"register", "stamp"}},
		{"a writer without passthrough", without, writes, Cached, []string{"register", "setgid", "stamp"}},
		{"a writer of a setgid file without passthrough", func(n *Node, f *file) { f.cannot, f.setgid = true, true }, writes, Direct, []string{"register", "setgid"}},
		{"what goes elsewhere without passthrough", without, directly, Direct, []string{"register"}},
		{"what is watched without passthrough", without, watched, Watched, nil},

		{"a reader beside cached pages", cached, reads, Cached, []string{"stamp"}},
		{"a writer beside cached pages", cached, writes, Cached, []string{"setgid", "stamp"}},
		{"a writer with O_DIRECT beside cached pages", cached, unbuffered, Cached, []string{"setgid", "stamp"}},
		{"what goes elsewhere beside cached pages", cached, directly, Direct, nil},
		{"what is watched beside cached pages", cached, watched, Watched, nil},
		{"a reader of what grows", nil, growing, Passthrough, []string{"register"}},
		{"a reader of what grows without passthrough", without, growing, Watched, []string{"register"}},
		{"a reader of what grows beside cached pages", cached, growing, Watched, nil},
		{"a reader of what grows beside one that passes through", passes(reads), growing, Passthrough, nil},
		{"a reader beside a mapping", mapped, reads, Cached, []string{"stamp"}},
		{"what is watched beside a mapping", mapped, watched, Watched, nil},
	} {
		n, f := &Node{}, newFile()
		if c.node != nil {
			c.node(n, f)
		}
		f.did = nil
		o, a := start(n, c.want, f)
		if a.Mode != c.mode || o.Mode() != c.mode {
			t.Errorf("%s: it is answered %v, and remembered as %v; want %v", c.name, a.Mode, o.Mode(), c.mode)
		}
		if (a.Backing != 0) != c.mode.PassesThrough() {
			t.Errorf("%s: it is %v, to backing file %d", c.name, a.Mode, a.Backing)
		}
		if !slices.Equal(f.did, c.asks) {
			t.Errorf("%s: the file was asked %q, want %q", c.name, f.did, c.asks)
		}
	}
}

// The last end leads back to a node in neither state.
func TestEnds(t *testing.T) {
	n, f := &Node{}, newFile()
	first, _ := start(n, reads, f)
	second, _ := start(n, directly, f)
	n.End(first)
	if _, a := start(n, watched, f); a.Mode != Mixed {
		t.Errorf("beside one that passes through, of two, what is watched is %v", a.Mode)
	} else {
		n.End(&Open{a.Mode})
	}
	n.End(second)
	third, a := start(n, watched, f)
	if a.Mode != Watched {
		t.Errorf("when none passes through any more, what is watched is %v", a.Mode)
	}
	n.End(third)
	if _, a := start(n, reads, f); a.Mode != Passthrough {
		t.Errorf("when nothing is watched any more, a reader is %v", a.Mode)
	}
}

// An open ends once, and one that was not answered not at all.
func TestEndsOnce(t *testing.T) {
	n, f := &Node{}, newFile()
	n.End(&Open{})
	first, _ := start(n, reads, f)
	start(n, reads, f)
	n.End(first)
	n.End(first)
	if first.Mode() != None {
		t.Errorf("an open that has ended is %v", first.Mode())
	}
	if _, a := start(n, watched, f); a.Mode != Mixed {
		t.Errorf("beside one that passes through, what is watched is %v", a.Mode)
	}
}

// A backing file outlives its opens, and is registered anew for a writer with other rights if
// it is not in use.
func TestRegistration(t *testing.T) {
	n, f := &Node{}, newFile()
	reader, first := start(n, reads, f)
	f.asks(t, "register")
	n.End(reader)
	reader, again := start(n, rootReads, f)
	f.asks(t)
	if first.Backing != again.Backing || first.Backing == 0 {
		t.Errorf("the backing file was %d, and is %d", first.Backing, again.Backing)
	}
	writer, a := start(n, rootWrites, f)
	f.asks(t, "setgid", "space")
	if a.Mode != Passthrough || a.Backing != first.Backing {
		t.Errorf("beside a reader of backing file %d, root's writer is %+v", first.Backing, a)
	}
	n.End(reader)
	n.End(writer)
	writer, a = start(n, rootWrites, f)
	f.asks(t, "unregister", "register for root", "setgid")
	if a.Mode != Passthrough || a.Backing == first.Backing {
		t.Errorf("with nobody beside it, root's writer is %+v; the file of others was %d", a, first.Backing)
	}
	n.End(writer)
	writer, _ = start(n, rootWrites, f)
	f.asks(t, "setgid")
	n.End(writer)
	f.cannot = true
	if _, a = start(n, writes, f); a.Mode != Cached {
		t.Errorf("where nothing can be registered any more, a writer is %v", a.Mode)
	}
	f.asks(t, "unregister", "register", "setgid", "stamp")
}

// A node that stands for another file has none of the old one's backing file and pages.
func TestForget(t *testing.T) {
	n, f := &Node{}, newFile()
	n.Forget(f)
	f.asks(t)
	o, _ := start(n, reads, f)
	n.End(o)
	f.asks(t, "register")
	n.Pause()
	n.Forget(f)
	n.Resume()
	f.asks(t, "unregister")
	o, _ = start(n, reads, f)
	n.End(o)
	f.asks(t, "register")

	n, f.cannot = &Node{}, true
	start(n, reads, f)
	if _, a := start(n, reads, f); !a.KeepCache {
		t.Error("the pages of a file that is as it was are not kept")
	}
	n.Forget(f)
	if _, a := start(n, reads, f); a.KeepCache {
		t.Error("pages are kept, and they are another file's")
	}
}

// Pages are kept as long as the file has its stamp; a mapping fills none of them.
func TestKeepsPages(t *testing.T) {
	n, f := &Node{}, newFile()
	f.cannot = true
	keeps := func(want bool, when string) {
		t.Helper()
		o, a := start(n, reads, f)
		defer n.End(o)
		if a.Mode != Cached || a.KeepCache != want {
			t.Errorf("%s: %+v, want pages kept: %v", when, a, want)
		}
	}
	o, a := start(n, watched, f)
	if a.KeepCache {
		t.Error("what is watched keeps pages")
	}
	n.End(o)
	keeps(false, "at the first open")
	keeps(true, "at the second")
	f.version++
	keeps(false, "after a change")
	keeps(true, "at the open after that")
	f.noStamp = true
	keeps(false, "where the file does not tell")
	f.noStamp = false
	keeps(true, "where it tells again")
}

// Whatever stat(2) shows of a change makes another stamp.
func TestStampOf(t *testing.T) {
	st := unix.Stat_t{Size: 1, Mtim: unix.Timespec{Sec: 1, Nsec: 1}, Ctim: unix.Timespec{Sec: 1, Nsec: 1}}
	for name, change := range map[string]func(st *unix.Stat_t){
		"size":                      func(st *unix.Stat_t) { st.Size++ },
		"time of the last write":    func(st *unix.Stat_t) { st.Mtim.Nsec++ },
		"time of the last change":   func(st *unix.Stat_t) { st.Ctim.Nsec++ },
		"second of the last write":  func(st *unix.Stat_t) { st.Mtim.Sec++ },
		"second of the last change": func(st *unix.Stat_t) { st.Ctim.Sec++ },
	} {
		other := st
		change(&other)
		if StampOf(&st) == StampOf(&other) {
			t.Errorf("another %s makes no other stamp", name)
		}
	}
	read := st
	read.Atim.Sec++
	if StampOf(&st) != StampOf(&read) {
		t.Error("a read makes another stamp")
	}
	if StampOf(&st) == (Stamp{}) {
		t.Error("a file has the zero stamp")
	}
}

// While a node is paused it is not free for anything else.
func TestPause(t *testing.T) {
	n := &Node{}
	for range 2 {
		if !n.IsFree() {
			t.Fatal("a new node is not free")
		}
	}
	n.Pause()
	if n.IsFree() {
		t.Error("a paused node is free")
	}
	n.Resume()
	if !n.IsFree() {
		t.Error("a node that was paused is not free")
	}
}

// A watchful file looks whether the node that asks it is held.
type watchful struct {
	*file
	t    *testing.T
	node *Node
}

func (w watchful) Register(roots bool) (int32, bool) {
	if w.node.IsFree() {
		w.t.Error("the node registers its file, and is free")
	}
	return w.file.Register(roots)
}

// Opens are answered and end from any goroutine, and no count is lost.
func TestFromManyGoroutines(t *testing.T) {
	n, f := &Node{}, newFile()
	start(n, reads, watchful{f, t, n})
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 2000 {
				o, _ := start(n, reads, f)
				n.End(o)
			}
		})
	}
	all.Wait()
	if n.passed != 1 {
		t.Errorf("one open passes through, the node has counted %d", n.passed)
	}
}

// Each mode says what the kernel is told.
func TestModes(t *testing.T) {
	for m, is := range map[Mode]struct {
		name           string
		direct, passes bool
	}{
		None: {"none", false, false}, Passthrough: {"passthrough", false, true}, Mixed: {"mixed", true, true},
		Cached: {"cached", false, false}, Direct: {"direct", true, false}, Watched: {"watched", true, false},
	} {
		if m.String() != is.name || m.IsDirect() != is.direct || m.PassesThrough() != is.passes {
			t.Errorf("%v: direct %v, passes through %v; want %+v", m, m.IsDirect(), m.PassesThrough(), is)
		}
	}
}
