package history

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// naive is a history of names: a list of versions for each path.
type naive map[string][]Version

func (m naive) holds(path string) bool {
	list := m[path]
	return len(list) > 0 && !list[len(list)-1].Event.gone()
}

func (m naive) add(v Version, ref Ref) {
	v.Number, v.Content = ref.Number, ref.Content
	m[v.Path] = append(m[v.Path], v)
}

// move gives what is below a directory to another; what was there before stays before.
func (m naive) move(from, to string, exchange bool) {
	out := map[string][]Version{}
	take := func(dir, as string) {
		for path, list := range m {
			if rest, ok := strings.CutPrefix(path, dir+"/"); ok {
				out[as+"/"+rest] = list
				delete(m, path)
			}
		}
	}
	take(from, to)
	if exchange {
		take(to, from)
	}
	for path, list := range out {
		before := m[path]
		add := uint64(0)
		if len(before) > 0 {
			add = before[len(before)-1].Number
		}
		all := slices.Clone(before)
		for _, v := range list {
			v.Path = path
			v.Number += add
			if v.Base > 0 {
				v.Base += add
			}
			all = append(all, v)
		}
		m[path] = all
	}
}

func describe(list []Version) string {
	text := ""
	for _, v := range list {
		text += fmt.Sprintf("%s %d from %d %s by %.9s/%d %v %v %s\n", v.Path, v.Number, v.Base, v.Event, v.Actor, v.PID, v.State, v.Rights, v.Content)
	}
	return text
}

func (m naive) compare(t *rapid.T, s *Store) {
	for path, list := range m {
		if got, want := describe(s.Of(path)), describe(list); got != want {
			t.Fatalf("%s:\n%swant:\n%s", path, got, want)
		}
		newest := slices.Collect(s.NewestOf(path))
		slices.Reverse(newest)
		if got, want := describe(newest), describe(list); got != want {
			t.Fatalf("%s from the end:\n%swant:\n%s", path, got, want)
		}
		st, _, known := s.Last(path)
		last := list[len(list)-1]
		if _, matches := s.Match(path, last.State); known != m.holds(path) || known && (st != last.State || !matches) {
			t.Fatalf("%s holds %v, %v", path, known, st)
		}
	}
	for _, dir := range []string{"", "a", "b", "a/b", "c"} {
		want := slices.Sorted(maps.Keys(m))
		if dir != "" {
			want = slices.DeleteFunc(want, func(p string) bool { return !strings.HasPrefix(p, dir+"/") })
		}
		if got := s.Below(dir); !slices.Equal(got, want) {
			t.Fatalf("below %q: %q, want %q", dir, got, want)
		}
	}
	n := 0
	for v := range s.All() {
		if !slices.ContainsFunc(m[v.Path], func(o Version) bool { return o.Number == v.Number }) {
			t.Fatalf("there is %+v", v)
		}
		n++
	}
	for _, list := range m {
		n -= len(list)
	}
	if n != 0 {
		t.Fatalf("%d versions too many of all", n)
	}
}

// Names, numbers, states and contents are as a list of versions for each path would have
// them, through renames of directories, rewrites of the log that others go on beside,
// records that the log does not take, stops and crashes.
func TestNamesAgainstModel(t *testing.T) {
	paths := []string{"a", "a/x", "a/y", "a/b", "a/b/x", "a/b/y", "b/x", "b/b/x", "b", "c/b/x", "c", "xyz"}
	dirs := []string{"a", "b", "c", "a/b", "b/b", "d/e"}
	rapid.Check(t, func(rt *rapid.T) {
		root, err := os.MkdirTemp("", "history-")
		check(t, err)
		defer os.RemoveAll(root)
		w := newWorldAt(t, root, Options{asleep: true})
		m := naive{}
		ino := uint64(0)
		var copying *copying
		copied := false
		endRewrite := func() {
			if copying != nil && !copied {
				check(t, copying.run())
			}
			if copying != nil {
				w.s.endRewrite(copying, nil)
			}
			copying, copied = nil, false
		}
		rt.Repeat(map[string]func(*rapid.T){
			"add": func(rt *rapid.T) {
				path := rapid.SampledFrom(paths).Draw(rt, "path")
				ino++
				v := Version{
					Path: path, Event: Commit, Time: w.now.Add(time.Duration(ino)), PID: int32(ino), Actor: "an \"actor\"",
					State: State{ino, int64(ino % 3), 7}, Rights: Rights{UID: 5, Mode: 0o640, ACL: ino%2 == 0},
				}
				if list := m[path]; len(list) > 0 {
					v.Base = list[len(list)-1].Number
				}
				if rapid.IntRange(0, 5).Draw(rt, "fails") == 0 {
					w.s.put = func([]byte) (int64, error) { return 0, errors.New("the log takes nothing") }
				}
				m.add(v, w.s.Add(v))
				w.s.put = w.s.log.Put
			},
			"rename": func(rt *rapid.T) {
				from, to := rapid.SampledFrom(paths).Draw(rt, "from"), rapid.SampledFrom(paths).Draw(rt, "to")
				if from == to || !m.holds(from) {
					rt.Skip("nothing to rename")
				}
				v := m[from][len(m[from])-1]
				v.Path, v.From, v.Base = to, from, 0
				m.add(v, w.s.Add(v))
				v = Version{Path: from, Event: RenameAway, To: to, Time: w.now}
				m.add(v, w.s.Add(v))
			},
			"change": func(rt *rapid.T) {
				path := rapid.SampledFrom(paths).Draw(rt, "path")
				if !m.holds(path) {
					rt.Skip("nothing to change")
				}
				v := &m[path][len(m[path])-1]
				now := State{v.State.Ino, v.State.Size + rapid.Int64Range(0, 1).Draw(rt, "more"), v.State.Mtime + 1}
				w.s.Changed(path, now.Ino, now, false)
				v.State = now
				v.Content = w.s.Of(path)[len(m[path])-1].Content // it has another one if it was shared
			},
			"move": func(rt *rapid.T) {
				from, to := rapid.SampledFrom(dirs).Draw(rt, "from"), rapid.SampledFrom(dirs).Draw(rt, "to")
				if from == to || strings.HasPrefix(from, to+"/") || strings.HasPrefix(to, from+"/") {
					rt.Skip("not into itself")
				}
				exchange := rapid.Bool().Draw(rt, "exchange")
				w.s.Moved(from, to, exchange)
				m.move(from, to, exchange)
			},
			"start a rewrite": func(rt *rapid.T) {
				endRewrite()
				copying, err = w.s.startRewrite()
				check(t, err)
			},
			"go on with the rewrite": func(rt *rapid.T) {
				if copying == nil || copied {
					rt.Skip("no rewrite")
				}
				copied = true
				check(t, copying.run())
			},
			"end the rewrite": func(*rapid.T) { endRewrite() },
			"reopen": func(rt *rapid.T) {
				endRewrite()
				if w.s.stale {
					w.s.rewrite() // by then the log takes what it did not
				}
				w.reopen(rapid.Bool().Draw(rt, "crash"))
			},
			"": func(rt *rapid.T) { m.compare(rt, w.s) },
		})
		endRewrite()
	})
}

// A version that was changed where another has the same content has one of its own from
// then on, whatever else changes.
func TestContentOfItsOwn(t *testing.T) {
	w := newWorld(t, Options{})
	f := w.s.Add(Version{Path: "f", Event: Commit, State: State{1, 1, 1}})
	w.s.Add(Version{Path: "g", Event: Commit, From: "f", Content: f.Content, State: State{1, 1, 1}})
	w.s.Changed("g", 1, State{1, 2, 1}, false)
	w.s.Changed("g", 1, State{1, 2, 2}, false)
	own := w.s.Of("g")[0].Content
	for range 3 {
		w.s.Add(Version{Path: "g", Event: Commit})
	}
	for range 3 {
		if v := w.s.Of("g")[0]; v.Content != own || own == f.Content || v.State != (State{1, 2, 2}) {
			t.Errorf("%s is %v, and was %s; that of f is %s", v.Content, v.State, own, f.Content)
		}
		w.s.rewrite()
		w.reopen(false)
	}
}
