package names

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// model is a tree of which nothing is clever: a map from paths to values.
type model map[string]uint32

func inside(path, dir string) bool { return dir == "" || strings.HasPrefix(path, dir+"/") }

// take gives what is below a directory another one's name, and returns it.
func (m model) take(from, to string) model {
	out := model{}
	for path, value := range m {
		if inside(path, from) {
			out[to+strings.TrimPrefix(path, from)] = value
			delete(m, path)
		}
	}
	return out
}

// world is a tree with the model of it. Values are never used twice, and nodes has where
// each is, as the tree has said.
type world struct {
	tree  *Tree
	model model
	nodes map[uint32]uint32
	last  uint32
}

func newWorld() *world {
	w := &world{model: model{}, nodes: map[uint32]uint32{}}
	w.tree = New(func(value, node uint32) { w.nodes[value] = node })
	return w
}

func (w *world) set(path string) {
	w.last++
	n := w.tree.Make(path)
	delete(w.nodes, w.tree.Value(n))
	w.tree.Set(n, w.last)
	w.nodes[w.last] = n
	w.model[path] = w.last
}

func (w *world) clear(path string) {
	n := w.tree.Find(path)
	delete(w.nodes, w.tree.Value(n))
	w.tree.Clear(n)
	delete(w.model, path)
}

// move renames a directory; of two values of one path the moved one stays.
func (w *world) move(from, to string) {
	w.tree.Move(from, to, func(moved, there uint32) {
		value := w.tree.Value(moved)
		delete(w.nodes, w.tree.Value(there))
		w.tree.Set(there, value)
		w.nodes[value] = there
	})
	if !nested(from, to) {
		maps.Copy(w.model, w.model.take(from, to))
	}
}

func (w *world) exchange(a, b string) {
	w.tree.Exchange(a, b)
	if !nested(a, b) {
		fromA, fromB := w.model.take(a, b), w.model.take(b, a)
		maps.Copy(w.model, fromA)
		maps.Copy(w.model, fromB)
	}
}

// wrong compares the tree with the model, and counts its nodes: there are those that lead
// to a value, and no more.
func (w *world) wrong(paths, dirs []string) string {
	for _, path := range paths {
		value := uint32(0)
		if n := w.tree.Find(path); n != 0 {
			value = w.tree.Value(n)
		}
		if value != w.model[path] {
			return fmt.Sprintf("%q has the value %d, want %d", path, value, w.model[path])
		}
	}
	needed := map[string]bool{}
	for path, value := range w.model {
		if n := w.nodes[value]; w.tree.Find(path) != n || w.tree.Path(n) != path {
			return fmt.Sprintf("the value of %q was said to be at node %d, of %q", path, n, w.tree.Path(n))
		}
		for at := path; at != ""; {
			needed[at] = true
			at = at[:max(0, strings.LastIndexByte(at, '/'))]
		}
	}
	for _, dir := range dirs {
		want := slices.DeleteFunc(slices.Sorted(maps.Keys(w.model)), func(path string) bool { return !inside(path, dir) })
		if got := w.tree.Below(dir); !slices.Equal(got, want) {
			return fmt.Sprintf("below %q: %q, want %q", dir, got, want)
		}
	}
	nodes := -1 // the root leads to all
	for n := uint32(1); n <= w.tree.nodes.Size(); n++ {
		if w.tree.nodes.At(n).parent != 0 {
			nodes++
		}
	}
	if nodes != len(needed) {
		return fmt.Sprintf("there are %d nodes, and %d lead to values", nodes, len(needed))
	}
	return ""
}

func TestAgainstModel(t *testing.T) {
	paths := []string{"a", "a/x", "a/y", "a/b", "a/b/x", "a/b/y", "b", "b/x", "b/b/x", "b/b/y", "c", "c/b/x", "d/e/b/x", "\xff", "a.x"}
	dirs := []string{"a", "b", "c", "a/b", "b/b", "d/e", "d", "a/b/x"}
	rapid.Check(t, func(rt *rapid.T) {
		w := newWorld()
		rt.Repeat(map[string]func(*rapid.T){
			"set": func(rt *rapid.T) { w.set(rapid.SampledFrom(paths).Draw(rt, "path")) },
			"clear": func(rt *rapid.T) {
				path := rapid.SampledFrom(paths).Draw(rt, "path")
				if w.model[path] == 0 {
					rt.Skip("it has no value")
				}
				w.clear(path)
			},
			"move": func(rt *rapid.T) {
				w.move(rapid.SampledFrom(dirs).Draw(rt, "from"), rapid.SampledFrom(dirs).Draw(rt, "to"))
			},
			"exchange": func(rt *rapid.T) {
				w.exchange(rapid.SampledFrom(dirs).Draw(rt, "one"), rapid.SampledFrom(dirs).Draw(rt, "other"))
			},
			"pack": func(*rapid.T) { w.tree.pack() },
			"": func(rt *rapid.T) {
				if wrong := w.wrong(slices.Concat(paths, slices.Collect(maps.Keys(w.model))), append(dirs, "")); wrong != "" {
					rt.Fatal(wrong)
				}
			},
		})
	})
}

// A snapshot has the paths of its nodes as they were, whatever becomes of the tree.
func TestSnapshot(t *testing.T) {
	w := newWorld()
	var want []string
	for i := range 1000 {
		want = append(want, fmt.Sprintf("dir/sub-%d/file-%d", i%10, i))
		w.set(want[i])
	}
	nodes := maps.Clone(w.nodes)
	s := w.tree.Snapshot()
	w.move("dir", "other")
	for i := range 1000 {
		w.clear(strings.Replace(want[i], "dir", "other", 1))
		w.set(fmt.Sprintf("%0100d", i))
	}
	w.tree.pack()
	for i, path := range want {
		if got := s.Path(nodes[uint32(i+1)]); got != path {
			t.Fatalf("the path was %q, and is %q in the snapshot", path, got)
		}
	}
}

// The bytes of names that nobody uses are given back.
func TestNamesAreGivenBack(t *testing.T) {
	w := newWorld()
	w.set("stays")
	for i := range 10_000 {
		path := fmt.Sprintf("%0100d", i)
		w.set(path)
		w.clear(path)
	}
	if held := w.tree.texts.total; held > 3*minPack {
		t.Errorf("%d bytes are held for one name", held)
	}
	if wrong := w.wrong([]string{"stays"}, []string{""}); wrong != "" {
		t.Error(wrong)
	}
}
