package dcache

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

func TestPath(t *testing.T) {
	tree := New[int]()
	for _, path := range []string{"", "a", "a/b", "long name/ü/c"} {
		d := tree.GetAt(path)
		if d.Path() != path || tree.At(path) != d {
			t.Errorf("the dentry at %q has the path %q, and is found: %v", path, d.Path(), tree.At(path) == d)
		}
		want := path + "/x"
		if path == "" {
			want = "x"
		}
		if got := d.Join("x"); got != want {
			t.Errorf("x in %q is %q, want %q", path, got, want)
		}
	}
}

func TestPutFreesWhatNobodyRefersTo(t *testing.T) {
	tree := New[int]()
	a := tree.GetAt("a/b/c")
	b := tree.GetAt("a/b")
	tree.Put(a)
	if tree.At("a/b/c") != nil || tree.At("a/b") != b || tree.Len() != 3 {
		t.Errorf("c is there: %v, b is there: %v, %d dentries, want 3", tree.At("a/b/c"), tree.At("a/b"), tree.Len())
	}
	tree.Put(b)
	if tree.Len() != 1 || tree.Root().children != nil {
		t.Errorf("%d dentries, want the root alone", tree.Len())
	}
}

func TestMoveTakesAlongWhatIsBelow(t *testing.T) {
	tree := New[string]()
	f := tree.GetAt("a/b/f")
	f.State = "f"
	was := tree.GetAt("x/y")
	b, x := tree.At("a/b"), tree.At("x")
	tree.Move(b, x, "y")
	if f.Path() != "x/y/f" || tree.At("x/y/f") != f || tree.At("a/b") != nil {
		t.Errorf("f is at %q, found there: %v", f.Path(), tree.At("x/y/f") == f)
	}
	if tree.At("x/y") == was || was.Path() != "x/y" {
		t.Errorf("what the name had before is found by it, or has the path %q", was.Path())
	}
	tree.Put(was)
	if tree.At("x/y/f") != f {
		t.Error("the end of what the name had before took the new one away")
	}
	tree.Put(f)
	if tree.Len() != 1 {
		t.Errorf("%d dentries are left, want the root alone", tree.Len())
	}
}

func TestMoveBelowItself(t *testing.T) {
	tree := New[int]()
	f := tree.GetAt("a/b/c/f")
	a, c := tree.GetAt("a"), tree.GetAt("a/b/c")
	tree.Move(a, c, "a")
	if got := f.Path(); got != "b/c/f" {
		t.Errorf("f is at %q, want b/c/f", got)
	}
	if got := a.Path(); got != "b/c/a" {
		t.Errorf("a is at %q, want b/c/a", got)
	}
	for _, d := range []*Dentry[int]{f, a, c} {
		tree.Put(d)
	}
	if tree.Len() != 1 {
		t.Errorf("%d dentries are left, want the root alone", tree.Len())
	}
}

func TestExchange(t *testing.T) {
	tree := New[int]()
	f, g := tree.GetAt("a/f"), tree.GetAt("x/y/g")
	tree.Exchange(tree.At("a"), tree.At("x/y"))
	if f.Path() != "x/y/f" || g.Path() != "a/g" || tree.At("a/g") != g || tree.At("x/y/f") != f {
		t.Errorf("f is at %q, g at %q", f.Path(), g.Path())
	}
	tree.Put(f)
	tree.Put(g)
	if tree.Len() != 1 {
		t.Errorf("%d dentries are left, want the root alone", tree.Len())
	}
}

// TestAgainstPaths plays random operations, and compares the tree with a table of paths
// in which each move changes all that are below.
func TestAgainstPaths(t *testing.T) {
	for seed := range uint64(40) {
		m := &model{t: t, seed: seed, tree: New[int](), paths: map[*Dentry[int]]string{}, r: rand.New(rand.NewPCG(seed, 1))}
		for range 200 {
			m.step()
			m.compare()
		}
		for d := range m.paths {
			m.tree.Put(d)
		}
		if n := m.tree.Len(); n != 1 {
			t.Fatalf("seed %d: %d dentries are left, want the root alone", seed, n)
		}
	}
}

type model struct {
	t     *testing.T
	seed  uint64
	tree  *Tree[int]
	paths map[*Dentry[int]]string // of what is referred to once; "!" before what is displaced
	r     *rand.Rand
}

func (m *model) path() string {
	names := make([]string, 1+m.r.IntN(4))
	for i := range names {
		names[i] = string(rune('a' + m.r.IntN(3)))
	}
	return strings.Join(names, "/")
}

func (m *model) step() {
	switch m.r.IntN(4) {
	case 0, 1:
		path := m.path()
		if d := m.tree.GetAt(path); m.paths[d] == "" {
			m.paths[d] = path
		} else {
			m.tree.Put(d)
		}
	case 2:
		for d := range m.paths {
			m.tree.Put(d)
			delete(m.paths, d)
			break
		}
	default:
		m.move(m.path(), m.path())
	}
}

func (m *model) move(from, to string) {
	if from == to || isBelow(to, from) || isBelow(from, to) {
		return
	}
	d := m.tree.At(from)
	if d == nil {
		return
	}
	dir, name := "", to
	if i := strings.LastIndexByte(to, '/'); i >= 0 {
		dir, name = to[:i], to[i+1:]
	}
	exchange := m.r.IntN(2) == 0 && m.tree.At(to) != nil
	if exchange {
		m.tree.Exchange(d, m.tree.At(to))
	} else {
		p := m.tree.GetAt(dir)
		m.tree.Move(d, p, name)
		m.tree.Put(p)
	}
	for d, path := range m.paths {
		switch {
		case path == from || isBelow(path, from):
			m.paths[d] = to + path[len(from):]
		case (path == to || isBelow(path, to)) && exchange:
			m.paths[d] = from + path[len(to):]
		case path == to || isBelow(path, to):
			// It is found by no path, and where it shows itself to be is not compared.
			m.paths[d] = "!"
		}
	}
}

func isBelow(path, dir string) bool { return strings.HasPrefix(path, dir+"/") }

func (m *model) compare() {
	var want, is []string
	for d, path := range m.paths {
		if path != "!" {
			want = append(want, fmt.Sprintf("%d %s", d.ID(), path))
			if m.tree.At(path) != d || d.Path() != path {
				m.t.Fatalf("seed %d: the dentry at %q shows %q", m.seed, path, d.Path())
			}
		}
	}
	m.tree.All(func(d *Dentry[int]) {
		if m.paths[d] != "" {
			is = append(is, fmt.Sprintf("%d %s", d.ID(), d.Path()))
		}
	})
	slices.Sort(want)
	slices.Sort(is)
	if !slices.Equal(is, want) {
		m.t.Fatalf("seed %d: the tree has %q, want %q", m.seed, is, want)
	}
}
