package vnodes

import (
	"fmt"
	"sync"
	"testing"

	"pgregory.net/rapid"
)

const root = uint64(1) << 62

func wantPath[H any](t *testing.T, tab *Table[H], id uint64, path string, ok bool) {
	t.Helper()
	if got, there := tab.Path(id); got != path || there != ok {
		t.Errorf("node %d is %q, %v; want %q, %v", id, got, there, path, ok)
	}
}

// A path keeps its number until all lookups are forgotten, and gets another one then.
func TestNumbers(t *testing.T) {
	tab := New[int](root)
	a, b := tab.Lookup("a"), tab.Lookup("b")
	if a == b || a <= root || b <= root || tab.Lookup("a") != a {
		t.Errorf("a is %d, b is %d", a, b)
	}
	wantPath(t, tab, a, "a", true)
	tab.Forget(a, 1)
	wantPath(t, tab, a, "a", true)
	tab.Forget(a, 1)
	wantPath(t, tab, a, "", false)
	wantPath(t, tab, b, "b", true)
	if again := tab.Lookup("a"); again == a || again == b {
		t.Errorf("a is %d again", again)
	}
	tab.Forget(b, 100) // more than there were
	wantPath(t, tab, b, "", false)
	tab.Forget(b, 1)
	tab.Forget(12345, 1)
}

// The root is always there.
func TestRoot(t *testing.T) {
	tab := New[int](root)
	wantPath(t, tab, root, "", true)
	if id := tab.Lookup(""); id != root {
		t.Errorf("the root is %d", id)
	}
	tab.Forget(root, 1000)
	wantPath(t, tab, root, "", true)
	if id := tab.Lookup(""); id != root {
		t.Errorf("the root is %d", id)
	}
}

// What is open is found by its number until it is closed, once.
func TestHandles(t *testing.T) {
	tab := New[*string](root)
	one, two := "one", "two"
	a, b := tab.Open(&one), tab.Open(&two)
	if a == b || a == 0 || tab.Handle(a) != &one || tab.Handle(b) != &two || tab.Handle(99) != nil {
		t.Errorf("the handles are %d and %d", a, b)
	}
	if tab.Close(a) != &one || tab.Close(a) != nil || tab.Handle(a) != nil || tab.Handle(b) != &two {
		t.Error("a handle is closed twice, or not at all")
	}
	if c := tab.Open(&one); c == a || c == b {
		t.Errorf("the number %d is given out again", c)
	}
}

// The last of several that fit is found, and nothing where none does.
func TestLast(t *testing.T) {
	tab := New[string](root)
	if got := tab.Last(func(string) bool { return true }); got != "" {
		t.Errorf("of none: %q", got)
	}
	var fhs []uint64
	for n := range 20 {
		fhs = append(fhs, tab.Open(fmt.Sprint(n)))
	}
	if got := tab.Last(func(string) bool { return true }); got != "19" {
		t.Errorf("the last is %q", got)
	}
	tab.Close(fhs[19])
	if got := tab.Last(func(h string) bool { return len(h) == 1 }); got != "9" {
		t.Errorf("the last of one digit is %q", got)
	}
	if got := tab.Last(func(h string) bool { return h == "19" }); got != "" {
		t.Errorf("what is closed: %q", got)
	}
}

// Whatever is looked up and forgotten: a path has one number while lookups are left, no
// number stands for two paths, and what is forgotten leaves nothing.
func TestAgainstModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tab := New[int](root)
		ids, lookups, all := map[string]uint64{}, map[string]uint64{}, map[uint64]string{}
		for range rapid.IntRange(0, 60).Draw(t, "steps") {
			path := rapid.SampledFrom([]string{"a", "b", "a/c", "d"}).Draw(t, "path")
			if rapid.Bool().Draw(t, "looks up") {
				id := tab.Lookup(path)
				if was, known := all[id]; known && was != path || lookups[path] > 0 && id != ids[path] {
					t.Fatalf("%s is %d, which was %q", path, id, was)
				}
				ids[path], all[id] = id, path
				lookups[path]++
			} else if n := rapid.Uint64Range(0, lookups[path]).Draw(t, "forgotten"); n > 0 {
				tab.Forget(ids[path], n)
				lookups[path] -= n
			}
			left := 1
			for path, n := range lookups {
				if got, ok := tab.Path(ids[path]); ok != (n > 0) || ok && got != path {
					t.Fatalf("%d is %q, %v; want %s with %d lookups", ids[path], got, ok, path, n)
				}
				if n > 0 {
					left++
				}
			}
			if len(tab.nodes) != left || len(tab.byPath) != left {
				t.Fatalf("%d nodes and %d paths, want %d", len(tab.nodes), len(tab.byPath), left)
			}
		}
	})
}

// Many may look and open at once.
func TestAtOnce(t *testing.T) {
	tab := New[int](root)
	var wg sync.WaitGroup
	for n := range 4 {
		wg.Go(func() {
			for range 200 {
				id, fh := tab.Lookup("f"), tab.Open(n)
				if path, ok := tab.Path(id); path != "f" || !ok {
					t.Errorf("%d is %q, %v", id, path, ok)
				}
				tab.Last(func(h int) bool { return h == n })
				if got := tab.Handle(fh); got != n || tab.Close(fh) != n {
					t.Errorf("handle %d is %d, want %d", fh, got, n)
				}
				tab.Forget(id, 1)
			}
		})
	}
	wg.Wait()
	if len(tab.nodes) != 1 || len(tab.handles) != 0 {
		t.Errorf("%d nodes and %d handles are left", len(tab.nodes), len(tab.handles))
	}
}
