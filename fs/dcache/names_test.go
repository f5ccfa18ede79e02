package dcache

import (
	"strings"
	"testing"
)

// names are the paths of a list.
func names(e Earlier[string]) string {
	var all []string
	for _, d := range e {
		all = append(all, d.Path())
	}
	return strings.Join(all, " ")
}

// Each name is in the list once, the latest at the end, and is referred to once.
func TestEarlier(t *testing.T) {
	tree := New[string]()
	var e Earlier[string]
	for _, path := range []string{"a", "b", "c", "a", "c"} {
		e.Note(tree, tree.GetAt(path))
	}
	if got := names(e); got != "b a c" {
		t.Error(got)
	}
	for _, d := range e {
		if d.refs != 1 {
			t.Errorf("%s has %d references", d.Path(), d.refs)
		}
	}
	e.Drop(tree)
	if len(e) != 0 || tree.Len() != 1 {
		t.Errorf("%d names, %d dentries", len(e), tree.Len())
	}
}

// No file has us remember names without end.
func TestEarlierForgets(t *testing.T) {
	tree := New[string]()
	var e Earlier[string]
	for i := range MaxEarlier + 3 {
		e.Note(tree, tree.GetAt(string(rune('a'+i))))
	}
	if len(e) != MaxEarlier || e[0].Name() != "d" || tree.Len() != MaxEarlier+1 {
		t.Errorf("%s, %d dentries", names(e), tree.Len())
	}
	e.Note(tree, tree.GetAt("f"))
	if len(e) != MaxEarlier || e[0].Name() != "d" || e[MaxEarlier-1].Name() != "f" {
		t.Errorf("a name that is known has another one forgotten: %s", names(e))
	}
	e.Drop(tree)
}

func TestGetUnless(t *testing.T) {
	tree := New[string]()
	taken := func(s *string) bool { return *s == "taken" }
	d := tree.GetUnless(tree.Root(), "a", taken)
	if again := tree.GetUnless(tree.Root(), "a", taken); again != d || d.refs != 2 {
		t.Errorf("the name has another dentry: %v, %d references", again != d, d.refs)
	}
	tree.Put(d)
	d.State = "taken"
	other := tree.GetUnless(tree.Root(), "a", taken)
	if other == d || tree.At("a") != other || other.refs != 1 || d.refs != 1 || d.Path() != "a" {
		t.Errorf("the same dentry: %v; the old one has %d references and the path %q", other == d, d.refs, d.Path())
	}
	tree.Put(d)
	tree.Put(other)
	if tree.Len() != 1 {
		t.Errorf("%d dentries are left", tree.Len())
	}
}

func TestRename(t *testing.T) {
	tree := New[string]()
	x, y := tree.GetAt("x"), tree.GetAt("y")
	f, g := tree.GetAt("x/d/f"), tree.GetAt("y/e/g")
	tree.Rename(x, "d", y, "e", true)
	if f.Path() != "y/e/f" || g.Path() != "x/d/g" {
		t.Errorf("exchanged: f is at %q, g at %q", f.Path(), g.Path())
	}
	tree.Rename(y, "e", x, "n", false)
	if f.Path() != "x/n/f" || g.Path() != "x/d/g" || tree.At("y/e") != nil {
		t.Errorf("moved: f is at %q, g at %q", f.Path(), g.Path())
	}
	for _, d := range []*Dentry[string]{f, g, x, y} {
		tree.Put(d)
	}
	if tree.Len() != 1 {
		t.Errorf("%d dentries are left", tree.Len())
	}
}
