package locksdir

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"latchfs/fs/report"
)

// nastyName draws names that a directory can have and nobody likes.
func nastyName() *rapid.Generator[string] {
	odd := rapid.SampledFrom([]string{
		"a", "b", "a.lock", "b.lock", ".lock", "..lock", "...", "~", "a~ca978112", "held", "status.json",
		"\n", "\x1b[31m", "\xff\xfe", "\xc3", "ü", "日本", "\u202e", " ", "'", `"`, `\`, "$(rm)", "-rf", "\x7f",
		strings.Repeat("x", 250), strings.Repeat("x", 251), strings.Repeat("ü", 127), strings.Repeat("\xff", 255),
		strings.Repeat("x", 249) + "ü",
	})
	bytes := rapid.Map(rapid.SliceOfN(rapid.Byte(), 1, 20), func(b []byte) string {
		s := strings.NewReplacer("/", "_", "\x00", "_").Replace(string(b))
		if s == "." || s == ".." {
			return "dots"
		}
		return s
	})
	return rapid.OneOf(odd, odd, bytes)
}

// nastyPath draws paths that collide with each other now and then.
func nastyPath() *rapid.Generator[string] {
	deep := rapid.Map(rapid.SliceOfN(nastyName(), 0, 4), func(names []string) string {
		return strings.Join(names, "/")
	})
	broken := rapid.SampledFrom([]string{"", "/", "//", "/a", "a/", "a//b", ".", "..", "a/../b", "./a", "a/.", "a/./b", "\x00", strings.Repeat("y", 300), strings.Repeat("y", 300) + "/z"})
	return rapid.OneOf(deep, deep, deep, broken)
}

// walk calls visit for every file below dir, and checks what must hold for
// every entry on the way.
func walk(t *rapid.T, tree *Tree, dir string, visit func(path string, content []byte)) {
	entries, err := tree.List(dir, stranger)
	if err != nil {
		t.Fatalf("List(%q): %v", dir, err)
	}
	seen := map[string]bool{}
	for _, e := range entries {
		if e.Name == "" || e.Name == "." || e.Name == ".." || len(e.Name) > 255 ||
			strings.ContainsAny(e.Name, "/\x00") || seen[e.Name] {
			t.Fatalf("%q lists the name %q", dir, e.Name)
		}
		seen[e.Name] = true
		path := dir + "/" + e.Name
		if stat, err := tree.Stat(path, stranger); err != nil || stat != e {
			t.Fatalf("%q is listed as %+v, Stat says %+v, %v", path, e, stat, err)
		}
		if e.Dir {
			walk(t, tree, path, visit)
			continue
		}
		c, err := tree.Open(path, stranger)
		if err != nil {
			t.Fatalf("Open(%q): %v", path, err)
		}
		b := make([]byte, c.Size())
		if n, _ := c.ReadAt(b, 0); n != len(b) || e.Size != int64(n) {
			t.Fatalf("%q: %d bytes read of %d, listed as %d", path, n, c.Size(), e.Size)
		}
		visit(path, b)
	}
}

// pathIn reads the path back from a record or a line of a queue.
func pathIn(t *rapid.T, line []byte) string {
	if name := nameIn(t, line); name != "." {
		return name
	}
	return ""
}

// nameIn reads the lock's name back from a record or a line of a queue.
func nameIn(t *rapid.T, line []byte) string {
	var r struct {
		LockName string `json:"lock_name"`
		Raw      string `json:"lock_name_base64"`
	}
	if err := json.Unmarshal(line, &r); err != nil {
		t.Fatalf("%q: %v", line, err)
	}
	if r.Raw != "" {
		raw, err := base64.StdEncoding.DecodeString(r.Raw)
		if err != nil || utf8.Valid(raw) {
			t.Fatalf("lock_name_base64 %q is %q, %v", r.Raw, raw, err)
		}
		return string(raw)
	}
	return r.LockName
}

// However nasty the names, every lock has exactly one file, that file can be
// listed, read and removed, and its record gives the exact path back.
func TestEveryLockHasItsFile(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		src := newFake()
		paths := rapid.SliceOfNDistinct(nastyPath(), 0, 12, rapid.ID).Draw(t, "paths")
		// "." is what the root is shown as; no record has that path.
		paths = slices.DeleteFunc(paths, func(p string) bool { return p == "." })
		for _, p := range paths {
			src.held = append(src.held, report.Record{Path: p})
			src.waiting = append(src.waiting, report.Record{Path: p, Operation: "first"}, report.Record{Path: p, Operation: "second"})
		}
		tree := New(src)
		held, waiting := map[string]string{}, map[string]string{}
		walk(t, tree, "held", func(path string, content []byte) {
			held[pathIn(t, content)] = path
		})
		walk(t, tree, "waiting", func(path string, content []byte) {
			lines := bytes.Split(bytes.TrimSuffix(content, []byte("\n")), []byte("\n"))
			if len(lines) != 2 || !bytes.Contains(lines[0], []byte(`"first"`)) {
				t.Fatalf("%q: the queue is %q", path, content)
			}
			waiting[pathIn(t, lines[1])] = path
		})
		want := slices.Sorted(slices.Values(paths))
		for _, got := range []map[string]string{held, waiting} {
			if keys := slices.Sorted(maps.Keys(got)); !slices.Equal(keys, want) {
				t.Fatalf("files for %q, locks on %q", keys, want)
			}
		}
		for path, file := range held {
			src.released = nil
			if err := tree.Remove(file, root); err != nil || !slices.Equal(src.released, []string{path}) {
				t.Fatalf("Remove(%q) released %q, %v; want %q", file, src.released, err, path)
			}
		}
	})
}

// The order in which the Source lists locks does not show.
func TestOrderOfTheSourceDoesNotShow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := newFake(), newFake()
		for i, p := range rapid.SliceOfN(nastyPath(), 0, 12).Draw(t, "paths") {
			a.held = append(a.held, report.Record{Path: p, Token: uint64(i)})
		}
		b.held = slices.Clone(a.held)
		rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0)).Shuffle(len(b.held), func(i, j int) {
			b.held[i], b.held[j] = b.held[j], b.held[i]
		})
		for _, file := range []string{"status", "status.json"} {
			if x, y := content(t, a, file), content(t, b, file); x != y {
				t.Fatalf("%s:\n%s\nand\n%s", file, x, y)
			}
		}
		var x, y []string
		walk(t, New(a), "held", func(path string, content []byte) { x = append(x, path+string(content)) })
		walk(t, New(b), "held", func(path string, content []byte) { y = append(y, path+string(content)) })
		if !slices.Equal(x, y) {
			t.Fatalf("%q and %q", x, y)
		}
	})
}

// Whatever a process calls itself, status has one line for each lock and
// status.json is JSON.
func TestStatusKeepsItsShape(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		src := newFake()
		text := rapid.OneOf(nastyName(), rapid.String())
		n := rapid.IntRange(1, 5).Draw(t, "n")
		for range n {
			r := report.Record{
				Path: nastyPath().Draw(t, "path"), Asker: report.Asker{Program: text.Draw(t, "program"), Actor: text.Draw(t, "actor"), Host: text.Draw(t, "host"), Cwd: text.Draw(t, "cwd"), Cmdline: []string{text.Draw(t, "arg")}},
				Operation: text.Draw(t, "operation"), Session: text.Draw(t, "session"), Mode: text.Draw(t, "mode"),
				Class: text.Draw(t, "class"), WaitsFor: []string{text.Draw(t, "holder")},
				Stale: rapid.Bool().Draw(t, "stale"), Since: noon, Deadline: noon,
				Name: rapid.OneOf(rapid.Just(""), text).Draw(t, "name"), Tree: rapid.Bool().Draw(t, "tree"),
				File: text.Draw(t, "file"), Key: text.Draw(t, "key"),
			}
			src.held = append(src.held, r)
			src.waiting = append(src.waiting, r)
		}
		// Two lines of summary, two headers, two empty lines.
		status := content(t, src, "status")
		if lines := strings.Count(status, "\n"); lines != 2*n+6 {
			t.Fatalf("%d lines for %d locks and waiters:\n%s", lines, n, status)
		}
		if js := content(t, src, "status.json"); !json.Valid([]byte(js)) {
			t.Fatalf("not JSON: %s", js)
		}
	})
}

func content(t *rapid.T, src Source, path string) string {
	c, err := New(src).Open(path, root)
	if err != nil {
		t.Fatal(err)
	}
	b := make([]byte, c.Size())
	if n, _ := c.ReadAt(b, 0); n != len(b) {
		t.Fatalf("%q: %d bytes of %d", path, n, len(b))
	}
	return string(b)
}
