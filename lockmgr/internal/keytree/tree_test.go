package keytree

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// file is a node that is in use while it has users.
type file struct {
	Node[file]
	users int
}

func (f *file) Idle() bool { return f.users == 0 }

// listed are the keys that a walk meets, sorted.
func listed(t *Tree[file, *file]) []Key {
	var keys []Key
	t.WalkAll(func(n *file) { keys = append(keys, n.Key()) })
	slices.Sort(keys)
	return keys
}

func TestKeys(t *testing.T) {
	for k, want := range map[Key]Key{
		"": "", "f": "", "d/f": "d", "d/e/f": "d/e", "/abs": "", "/": "", "d/": "d",
		"//": "//", "//x": "//", "//x/y": "//x", "///": "//", "//x//y": "//x/",
	} {
		if got := k.Parent(); got != want {
			t.Errorf("the parent of %q is %q, not %q", k, got, want)
		}
	}
	for _, c := range []struct {
		k, top    Key
		below, in bool
	}{
		{"d/f", "d", true, true},
		{"d", "d", false, false},
		{"da", "d", false, false},
		{"d", "d/f", false, false},
		{"d/e/f", "d", true, true},
		{"f", "", false, true},
		{"/abs", "", true, true},
		{"", "", false, false},
		{"//x", "", true, false}, // below by its spelling, but apart
		{"//x", "/", true, false},
		{"//", "", true, false},
		{"//", "//", false, false},
		{"//x", "//", false, true},
		{"//x/y", "//", false, true},
		{"//x/y", "//x", true, true},
	} {
		if c.k.Below(c.top) != c.below || c.k.In(c.top) != c.in {
			t.Errorf("%q in %q: below %v, in %v", c.k, c.top, c.k.Below(c.top), c.k.In(c.top))
		}
	}
	if a, b := Key("d/e").Moved("d", "x/y"), Key("d").Moved("d", "x/y"); a != "x/y/e" || b != "x/y" {
		t.Errorf("%q, %q", a, b)
	}
}

// A key is in the trees of all keys above it, and in no other.
func TestInIsAbove(t *testing.T) {
	key := rapid.Map(rapid.StringOfN(rapid.SampledFrom([]rune("/ab")), 0, 6, -1), func(s string) Key { return Key(s) })
	rapid.Check(t, func(p *rapid.T) {
		k, top := key.Draw(p, "key"), key.Draw(p, "top")
		above := false
		for up := k; up != up.Parent() && !above; {
			up = up.Parent()
			above = up == top
		}
		if k.In(top) != above {
			p.Errorf("%q is in the tree of %q: %v", k, top, !above)
		}
		if up := k.Parent(); up != k && !k.In(up) {
			p.Errorf("%q is not in that of %q", k, up)
		}
	})
}

// What is above a node that is in use exists; what nobody needs does not.
func TestNodesComeAndGo(t *testing.T) {
	tree := New[file]()
	f := tree.At("d/e/f")
	f.users++
	if tree.At("d/e/f") != f || tree.Find("d/e/f") != f || f.Parent() != tree.Find("d/e") {
		t.Error("a key has two nodes, or the wrong parent")
	}
	if got, want := listed(tree), []Key{"", "//", "d", "d/e", "d/e/f"}; !slices.Equal(got, want) || tree.Len() != len(want) {
		t.Errorf("%q, %d", got, tree.Len())
	}
	tree.Prune(tree.Find("d"))
	tree.Prune(f)
	if tree.Len() != 5 {
		t.Error("what is in use, or above it, has gone")
	}
	g := tree.At("d/g")
	if n := tree.Nearest("d/g/h/i"); n != g {
		t.Errorf("nearest is %q", n.Key())
	}
	if n := tree.Nearest("//x/y"); n.Key() != Apart || n.Parent() != nil {
		t.Errorf("nearest is %q", n.Key())
	}
	f.users--
	tree.Prune(f)
	if got := listed(tree); !slices.Equal(got, []Key{"", "//", "d", "d/g"}) {
		t.Errorf("%q", got)
	}
	tree.Prune(g)
	tree.Prune(tree.Find(""))
	if got := listed(tree); !slices.Equal(got, []Key{"", "//"}) || tree.Find("") == nil {
		t.Errorf("%q", got)
	}
}

// A walk meets a subtree once, from its top.
func TestWalk(t *testing.T) {
	tree := New[file]()
	for _, k := range []Key{"d/a", "d/b/c", "e", "//x"} {
		tree.At(k)
	}
	var met []Key
	meet := func(n *file) { met = append(met, n.Key()) }
	tree.Walk(tree.Find("d"), meet)
	if met[0] != "d" || len(met) != 4 || !slices.Contains(met, "d/b/c") || !slices.Contains(met, "d/a") {
		t.Errorf("%q", met)
	}
	met = nil
	tree.WalkBelow(tree.Find("d"), meet)
	if len(met) != 3 || slices.Contains(met, "d") {
		t.Errorf("%q", met)
	}
}

// A node that is used again has nothing of what it had; a key that comes and goes
// needs no memory; and no more than so many spares are kept.
func TestSpares(t *testing.T) {
	tree := New[file]()
	f := tree.At("d/f")
	f.users = 7
	f.users = 0
	tree.Prune(f)
	if tree.spares != 2 {
		t.Errorf("%d spares", tree.spares)
	}
	if n := testing.AllocsPerRun(100, func() { tree.Prune(tree.At("d/f")) }); n != 0 {
		t.Errorf("a key that comes and goes allocates %v times", n)
	}
	f = tree.At("g")
	f.users = 3
	g := tree.At("g/h")
	f.users = 0
	tree.Prune(g)
	if n := tree.At("i"); n.users != 0 || n.child != nil || n.prev != nil || n.Parent() != tree.Find("") {
		t.Errorf("it comes with %+v", n)
	}
	var all []*file
	for i := range maxSpares + 10 {
		all = append(all, tree.At(Key(fmt.Sprint("many/", i))))
	}
	for _, n := range all {
		tree.Prune(n)
	}
	if tree.spares != maxSpares {
		t.Errorf("%d spares", tree.spares)
	}
}

// Random uses against a map of how many use each key.
func TestTreeAgainstModel(t *testing.T) {
	keys := []Key{"a", "a/b", "a/b/c", "a/d", "ab", "/r", "//x", "//x/y", ""}
	rapid.Check(t, func(p *rapid.T) {
		tree, users := New[file](), map[Key]int{}
		for range rapid.IntRange(1, 60).Draw(p, "steps") {
			k := rapid.SampledFrom(keys).Draw(p, "key")
			if rapid.Bool().Draw(p, "more") {
				tree.At(k).users++
				users[k]++
			} else if users[k] > 0 {
				n := tree.Find(k)
				n.users--
				users[k]--
				tree.Prune(n)
			}
			want := map[Key]bool{"": true, Apart: true}
			for k, n := range users {
				for ; n > 0 && !want[k]; k = k.Parent() {
					want[k] = true
				}
			}
			if got := listed(tree); !slices.Equal(got, slices.Sorted(maps.Keys(want))) || tree.Len() != len(want) {
				p.Fatalf("%q, not %v", got, want)
			}
		}
	})
}
