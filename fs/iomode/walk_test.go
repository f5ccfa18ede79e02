package iomode

import (
	"fmt"
	"slices"
	"testing"
)

// linux is what Linux keeps of an inode in fs/fuse/iomode.c, and its rules.
type linux struct {
	backing        int32 // the file through which it passes, while anything does
	passed, cached int   // opens of each kind
}

// open is fuse_file_io_open, and for a Watched open the mmap that follows at once.
func (k *linux) open(a Answer) error {
	passes, direct := a.Mode.PassesThrough(), a.Mode.IsDirect()
	switch {
	case k.passed > 0 && !passes:
		return fmt.Errorf("EIO: a %v open beside %d that pass through", a.Mode, k.passed)
	case passes && k.cached > 0:
		return fmt.Errorf("EIO: a %v open beside %d that are cached", a.Mode, k.cached)
	case k.passed > 0 && a.Backing != k.backing:
		return fmt.Errorf("EIO: a %v open to file %d beside those to file %d", a.Mode, a.Backing, k.backing)
	case passes:
		k.passed++
		k.backing = a.Backing
	case !direct || a.Mode == Watched:
		k.cached++
	}
	return nil
}

func (k *linux) close(m Mode) {
	switch {
	case m.PassesThrough():
		k.passed--
	case m == Cached || m == Watched:
		k.cached--
	}
}

// world is a node, the kernel and the file, and who has it open.
type world struct {
	node  Node
	linux linux
	opens [3]anOpen
	disk
	stamped int // the version at the last Cached open; 0: none since the node stands for the file
}

// anOpen is one open on its way: it is answered, the answer arrives at the kernel, the kernel
// closes it, and at last the daemon is told. No answer overtakes a Direct one.
type anOpen struct {
	open   Open
	answer Answer
	at     stage
}

type stage int

const (
	gone stage = iota
	answered
	arrived
	closed
)

// disk is the file as the node asks for it, and which of its registrations are in force.
type disk struct {
	version    int
	registered map[int32]bool // with root's rights?
	nextID     int32
	cannot     bool // register
	setgid     bool
	short      bool
}

func (d *disk) Register(roots bool) (int32, bool) {
	if d.cannot {
		return 0, false
	}
	d.nextID++
	d.registered[d.nextID] = roots
	return d.nextID, true
}

func (d *disk) Unregister(id int32) {
	if _, ok := d.registered[id]; !ok {
		panic(fmt.Sprintf("there is no backing file %d", id))
	}
	delete(d.registered, id)
}

func (d *disk) Stamp() (Stamp, bool) { return Stamp{size: int64(d.version)}, true }
func (d *disk) HasLoneSetgid() bool  { return d.setgid }
func (d *disk) IsShortOfSpace() bool { return d.short }

// step is what may happen next: to one of the opens, or to the file.
type step struct {
	what   string
	of     int // which open
	wanted Wanted
	cannot bool // the file cannot be registered
	setgid bool
	short  bool
}

func (s step) String() string {
	if s.what != "answer" {
		return fmt.Sprintf("%s %d", s.what, s.of)
	}
	return fmt.Sprintf("answer %d: %+v cannot=%v setgid=%v short=%v", s.of, s.wanted, s.cannot, s.setgid, s.short)
}

// asked are all questions: what is wanted by whom, and what the file is like.
func asked() []step {
	var all []step
	for bits := range 1 << 6 {
		bit := func(n int) bool { return bits>>n&1 == 1 }
		for _, m := range []Mode{Passthrough, Direct, Watched} {
			s := step{what: "answer", cannot: bit(0), setgid: bit(3), short: bit(4)}
			s.wanted = Wanted{Mode: m, Writes: bit(2), Unbuffered: bit(5), Root: bit(1)}
			if m == Passthrough && s.wanted.Writes || !s.setgid && !s.short && !s.wanted.Unbuffered {
				all = append(all, s)
			}
		}
	}
	return all
}

// steps are those that are possible now.
func (w *world) steps(asked []step) []step {
	var next []step
	for i, o := range w.opens {
		switch o.at {
		case gone:
			if !slices.ContainsFunc(w.opens[:i], func(o anOpen) bool { return o.at == gone }) {
				for _, s := range asked {
					s.of = i
					next = append(next, s)
				}
			}
		case answered:
			next = append(next, step{what: "arrive", of: i})
		case arrived:
			next = append(next, step{what: "close", of: i})
		case closed:
			next = append(next, step{what: "end", of: i})
		}
	}
	if !slices.ContainsFunc(w.opens[:], func(o anOpen) bool { return o.at != gone }) {
		next = append(next, step{what: "forget"})
	}
	return append(next, step{what: "change"})
}

func (w *world) take(s step) error {
	o := &w.opens[s.of]
	switch s.what {
	case "answer":
		return w.answer(o, s)
	case "arrive":
		o.at = arrived
		return w.linux.open(o.answer)
	case "close":
		o.at = closed
		w.linux.close(o.answer.Mode)
	case "end":
		o.at = gone
		w.node.End(&o.open)
	case "forget":
		w.node.Pause()
		w.node.Forget(&w.disk)
		w.node.Resume()
		w.stamped = 0
		if len(w.registered) > 0 {
			return fmt.Errorf("the node stands for another file, and %v is registered", w.registered)
		}
		w.version++ // that of the other file
	case "change":
		w.version++
	}
	return nil
}

// answer has an open answered, and looks at the answer.
func (w *world) answer(o *anOpen, s step) error {
	w.cannot, w.setgid, w.short = s.cannot, s.setgid, s.short
	a := w.node.Start(&o.open, s.wanted, &w.disk)
	o.answer, o.at = a, answered
	if a.Mode == Direct { // not counted: see the package comment
		o.at = arrived
		return w.linux.open(a)
	}
	roots, registered := w.registered[a.Backing]
	want := s.wanted
	writes := want.Mode == Passthrough && want.Writes
	switch {
	case a.Mode != o.open.Mode():
		return fmt.Errorf("it is answered %v, and remembered as %v", a.Mode, o.open.Mode())
	case a.Mode.PassesThrough() != registered:
		return fmt.Errorf("a %v open has backing file %d of %v", a.Mode, a.Backing, w.registered)
	case a.Mode == Passthrough && want.Mode != Passthrough:
		return fmt.Errorf("what wanted %v is passed through", want.Mode)
	case a.Mode == Passthrough && writes && (s.setgid || want.Unbuffered || roots && !want.Root || !roots && want.Root && s.short):
		return fmt.Errorf("%v is passed through to a file registered for root: %v", s, roots)
	case a.Mode == Cached && a.KeepCache != (w.stamped == w.version):
		return fmt.Errorf("at version %d, after one of %d, pages kept: %v", w.version, w.stamped, a.KeepCache)
	case a.Mode != Cached && a.KeepCache:
		return fmt.Errorf("a %v open keeps pages", a.Mode)
	case a.Mode == None || a.Mode == Cached && want.Mode != Passthrough:
		return fmt.Errorf("what wanted %v is %v", want.Mode, a.Mode)
	}
	if a.Mode == Cached {
		w.stamped = w.version
	}
	return nil
}

// key is what of the world matters for what comes, whichever way led to it.
func (w *world) key() string {
	k := fmt.Sprint(w.node.id != 0, w.node.id != 0 && w.node.roots, w.node.passed, w.node.cached, w.stamped == w.version, w.stamped == 0,
		w.linux.passed, w.linux.cached, w.linux.passed > 0 && w.linux.backing == w.node.id, len(w.registered))
	states := make([]string, 0, len(w.opens))
	for _, o := range w.opens {
		states = append(states, fmt.Sprint(o.at, o.answer.Mode, o.answer.KeepCache, o.answer.Backing == w.node.id))
		if o.at == gone {
			states[len(states)-1] = "-"
		}
	}
	slices.Sort(states)
	return fmt.Sprint(k, states)
}

// at is the world after some steps, none of which was wrong.
func at(path []step) *world {
	w := &world{disk: disk{version: 1, registered: map[int32]bool{}}}
	for _, s := range path {
		if err := w.take(s); err != nil {
			panic(err)
		}
	}
	return w
}

// Up to three opens are answered, arrive, are closed and end in all orders, whatever they want
// and whatever the file is like; and the file changes, and the node gets another file. The kernel
// never refuses an answer, each backing file is registered until the kernel has it, and pages are
// kept if the file is as it was at the last answer that let the kernel cache some.
func TestAllOrders(t *testing.T) {
	asked, seen := asked(), map[string]bool{}
	queue := [][]step{nil}
	seen[at(nil).key()] = true
	modes := map[Mode]int{}
	for len(queue) > 0 {
		path := queue[0]
		queue = queue[1:]
		for _, s := range at(path).steps(asked) {
			w := at(path)
			next := append(slices.Clone(path), s)
			if err := w.take(s); err != nil {
				t.Fatalf("%v\nafter:%s", err, story(next))
			}
			if err := w.check(); err != nil {
				t.Fatalf("%v\nafter:%s", err, story(next))
			}
			modes[w.opens[s.of].answer.Mode]++
			if k := w.key(); !seen[k] {
				seen[k] = true
				queue = append(queue, next)
			}
		}
	}
	for m := Passthrough; m <= Watched; m++ {
		if modes[m] == 0 {
			t.Errorf("nothing was answered %v", m)
		}
	}
	if len(seen) < 1000 {
		t.Errorf("only %d states were seen", len(seen))
	}
	t.Logf("%d states", len(seen))
}

// check looks at the world between two steps.
func (w *world) check() error {
	passed, cached := 0, 0
	for _, o := range w.opens {
		if o.at == gone {
			continue
		}
		if o.answer.Mode.PassesThrough() {
			passed++
			if _, ok := w.registered[o.answer.Backing]; !ok && o.at == answered {
				return fmt.Errorf("backing file %d is not registered any more, and the answer with it is on its way", o.answer.Backing)
			}
		}
		if o.answer.Mode == Cached || o.answer.Mode == Watched {
			cached++
		}
	}
	switch {
	case passed > 0 && cached > 0:
		return fmt.Errorf("%d opens pass through beside %d cached ones", passed, cached)
	case passed != w.node.passed || cached != w.node.cached:
		return fmt.Errorf("%d opens pass through and %d are cached, the node has counted %d and %d", passed, cached, w.node.passed, w.node.cached)
	case len(w.registered) > 1:
		return fmt.Errorf("the backing files %v are registered for one node", w.registered)
	}
	return nil
}

func story(path []step) string {
	s := ""
	for _, st := range path {
		s += "\n\t" + st.String()
	}
	return s
}
