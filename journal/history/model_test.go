package history

import (
	"fmt"
	"os"
	"slices"
	"testing"

	"latchfs/journal/history/internal/record"

	"pgregory.net/rapid"
)

// modelVersion is what a naive history knows of a version.
type modelVersion struct {
	number   uint64
	data     string // "" of a version that is no file; every content is another one
	released bool
}

// model is a history in which nothing is clever: what is kept is found out by
// looking through everything.
type model struct {
	paths map[string][]modelVersion
	in    map[string]bool // contents that were moved into the history and not dropped
}

func (m *model) last(path string) *modelVersion {
	if v := m.paths[path]; len(v) > 0 {
		return &v[len(v)-1]
	}
	return nil
}

func (m *model) holds(path string) string {
	if v := m.last(path); v != nil {
		return v.data
	}
	return ""
}

func (m *model) add(path, data string) {
	n := uint64(1)
	if v := m.last(path); v != nil {
		n = v.number + 1
	}
	m.paths[path] = append(m.paths[path], modelVersion{number: n, data: data})
}

func (m *model) kept(path string) []int {
	var kept []int
	v := m.paths[path]
	for i := range v {
		if i < len(v)-1 && v[i].data != "" && m.in[v[i].data] && !v[i].released {
			kept = append(kept, i)
		}
	}
	return kept
}

func (m *model) prune(path string, most int) {
	kept := m.kept(path)
	for i := 0; i < len(kept)-most; i++ {
		v := &m.paths[path][kept[i]]
		v.released = true
		if !m.claimed(v.data) {
			delete(m.in, v.data)
		}
	}
}

func (m *model) claimed(data string) bool {
	for _, vs := range m.paths {
		for _, v := range vs {
			if v.data == data && !v.released {
				return true
			}
		}
	}
	return false
}

// reopened: a path's giving up of what another one claims is not on disk.
func (m *model) reopened() {
	for _, vs := range m.paths {
		for i := range vs {
			vs[i].released = vs[i].released && !m.in[vs[i].data]
		}
	}
}

func (m *model) show(path string) string {
	text := ""
	kept := m.kept(path)
	for i, v := range m.paths[path] {
		text += fmt.Sprint(v.number)
		if slices.Contains(kept, i) {
			text += fmt.Sprintf(" %q", v.data)
		}
		text += "\n"
	}
	return text
}

func (w *world) showPlain(path string) string {
	text := ""
	for _, v := range w.s.Of(path) {
		text += fmt.Sprint(v.Number)
		if v.Kept {
			content, err := w.read(path, v.Number)
			text += fmt.Sprintf(" %q", content)
			if err != nil {
				text += err.Error()
			}
		}
		text += "\n"
	}
	return text
}

func TestAgainstModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		root, err := os.MkdirTemp("", "history-")
		check(t, err)
		defer os.RemoveAll(root)
		w := newWorldAt(t, root, Options{})
		m := &model{paths: map[string][]modelVersion{}, in: map[string]bool{}}
		names := []string{"a", "b", "c"}
		name := rapid.SampledFrom(names)
		most := rapid.IntRange(0, 3)
		serial := 0
		into := func(path string) {
			if data := m.holds(path); data != "" {
				m.in[data] = true
			}
		}
		rt.Repeat(map[string]func(*rapid.T){
			"save": func(rt *rapid.T) {
				path, n := name.Draw(rt, "path"), most.Draw(rt, "most")
				serial++
				data := fmt.Sprint("content ", serial)
				w.save(path, data, n)
				into(path)
				m.add(path, data)
				m.prune(path, n)
			},
			"remove": func(rt *rapid.T) {
				path, n := name.Draw(rt, "path"), most.Draw(rt, "most")
				if m.holds(path) == "" {
					rt.Skip("nothing there")
				}
				w.remove(path, n)
				into(path)
				m.add(path, "")
				m.prune(path, n)
			},
			"rename": func(rt *rapid.T) {
				from, to, n := name.Draw(rt, "from"), name.Draw(rt, "to"), most.Draw(rt, "most")
				if from == to || m.holds(from) == "" {
					rt.Skip("nothing there")
				}
				w.rename(from, to, n)
				into(to)
				m.add(to, m.holds(from))
				m.prune(to, n)
				m.add(from, "")
				m.prune(from, n)
			},
			"reopen": func(rt *rapid.T) {
				if rapid.Bool().Draw(rt, "rewrite") {
					w.s.rewrite()
				}
				w.s.emptyTrash() // or what was given up may come back
				w.reopen(rapid.Bool().Draw(rt, "crash"))
				m.reopened()
			},
			"": func(rt *rapid.T) {
				for _, path := range names {
					if got, want := w.showPlain(path), m.show(path); got != want {
						rt.Fatalf("%s:\n%swant:\n%s", path, got, want)
					}
				}
				if got := len(w.files()); got != len(m.in) {
					rt.Fatalf("%d contents on disk, want %d", got, len(m.in))
				}
			},
		})
	})
}

// Whatever a log says, it adds up to something.
func FuzzApply(f *testing.F) {
	v := Version{Path: "a/\xff", Number: 3, Event: Commit, Content: "000102030405060708090a0b0c0d0e0f", From: "b"}
	r := recordOf(&v)
	f.Add(r.Encode())
	f.Add([]byte(`{"op":"move","path":"a","to":"b"}`))
	f.Add([]byte(`{"op":"state","path":"a","ino":1,"loose":true}`))
	f.Add([]byte(`{"op":"forget","path":["/w=="]}`))
	f.Add([]byte(`{"op":"reach","path":"","content":"000102030405060708090a0b0c0d0e0f","dirs":[[1,2,448],[0,0,0]]}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := record.Decode(b)
		if err != nil {
			return
		}
		again, err := record.Decode(r.Encode())
		if err != nil {
			t.Fatalf("%s: %v", r.Encode(), err)
		}
		const headOfLog = 16
		x := newIndex()
		for range 2 {
			x.apply(headOfLog, &r)
			x.apply(headOfLog, &again)
		}
	})
}
