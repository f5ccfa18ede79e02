package programs

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"latchfs/lockmgr"
)

const fade = 10 * time.Minute

var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// who is a process with its relatives, by their pids.
func who(pids ...int32) Who {
	var w Who
	for i, pid := range pids {
		o := lockmgr.Owner{PID: pid, Start: uint64(pid)}
		if i == 0 {
			w.Self = o
		} else {
			w.Relatives = append(w.Relatives, o)
		}
	}
	return w
}

// Who has written back what it read, in the shapes that people write.
func TestLearns(t *testing.T) {
	for _, tt := range []struct {
		name  string
		reads map[string]Who
		write Who
		want  string // the program that is learned
	}{
		{"one process", map[string]Who{"py": who(10, 1)}, who(10, 1), "py"},
		{"jq and mv", map[string]Who{"jq": who(11, 10, 1)}, who(12, 10, 1), "jq"},
		{"a shell that writes itself", map[string]Who{"jq": who(11, 10, 1)}, who(10, 1), "jq"},
		{"a child that writes", map[string]Who{"py": who(10, 1)}, who(11, 10, 1), "py"},
		{"an agent's two commands", map[string]Who{"jq": who(12, 11, 10)}, who(14, 13, 10), "jq"},
		{"a stranger", map[string]Who{"jq": who(11, 10)}, who(21, 20), ""},
		{"nobody has read", nil, who(10, 1), ""},
		{"workers of one script", map[string]Who{"a": who(11, 10, 1), "b": who(21, 20, 1)}, who(22, 20, 1), "b"},
		{"who looks beside who writes", map[string]Who{"show": who(11, 1), "edit": who(12, 1)}, who(12, 1), "edit"},
		{"a writer nobody can see", map[string]Who{"a": who(11, 10)}, Who{}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			x := New()
			for program, w := range tt.reads {
				if x.Read(start, "f", program, 0, w) {
					t.Errorf("%s claims before anything was seen", program)
				}
			}
			if got := x.Wrote(start.Add(time.Second), "other", tt.write, fade); got {
				t.Error("learned from a file that was not read")
			}
			if got := x.Wrote(start.Add(time.Second), "f", tt.write, fade); got != (tt.want != "") {
				t.Errorf("learned: %t", got)
			}
			for program := range tt.reads {
				if got := x.Read(start, "g", program, 0, who(99)); got != (program == tt.want) {
					t.Errorf("%s claims: %t", program, got)
				}
			}
			if x.Wrote(start.Add(2*time.Second), "f", tt.write, fade) {
				t.Error("learned twice")
			}
		})
	}
}

func TestFades(t *testing.T) {
	x := New()
	x.Read(start, "f", "a", 0, who(10))
	if x.Wrote(start.Add(fade+1), "f", who(10), fade) {
		t.Error("what was read long ago counts")
	}
}

// After a number of claims in vain a program no longer claims, until it writes back.
func TestForgets(t *testing.T) {
	x := New()
	learn := func() {
		x.Read(start, "f", "a", 7, who(10))
		x.Wrote(start, "f", who(10), fade)
	}
	learn()
	for i := range 3 * Forgets {
		if x.Ended("a", i%(Forgets-1) == 0) {
			t.Fatalf("forgotten after %d claims, of which some were of use", i)
		}
	}
	x.Ended("a", true)
	for i := range Forgets {
		x.Claimed("a")
		if got := x.Ended("a", false); got != (i == Forgets-1) {
			t.Fatalf("forgotten after %d in vain: %t", i+1, got)
		}
	}
	if x.Read(start, "f", "a", 7, who(11)) {
		t.Error("still claims")
	}
	if x.Ended("a", false) || x.Ended("unknown", false) {
		t.Error("forgotten again")
	}
	learn()
	if !x.Read(start, "f", "a", 7, who(12)) {
		t.Error("does not claim after it was seen to write back again")
	}
	want := []Program{{Name: "a", UID: 7, Claims: true, Seen: start, Reads: 4, Written: 2, Path: "f", At: start, Claimed: Forgets}}
	if diff := cmp.Diff(want, x.List()); diff != "" {
		t.Error(diff)
	}
}

// What was saved is what is loaded, and what is broken changes nothing.
func TestSave(t *testing.T) {
	x := New()
	for i, name := range []string{"b", "a \x01\u00e9", "c"} {
		x.Read(start.Add(time.Duration(i)), "f", name, uint32(i), who(int32(10+i)))
	}
	x.Wrote(start, "f", who(12), fade)
	data, err := x.Save()
	if err != nil {
		t.Fatal(err)
	}
	y := New()
	if err := y.Load(data); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(x.List(), y.List()); diff != "" || len(x.List()) != 3 || x.List()[0].Name != "c" {
		t.Error(diff, x.List())
	}
	for _, broken := range []string{"", "{", "null", `{"format":2}`, `{"format":1,"programs":[{"name":""}]}`,
		`{"format":1,"programs":[{"name":"a"},{"name":"a"}]}`, string(data[:len(data)/2])} {
		if y.Load([]byte(broken)) == nil {
			t.Errorf("loads %q", broken)
		}
	}
	if diff := cmp.Diff(x.List(), y.List()); diff != "" {
		t.Errorf("a broken file has changed something: %s", diff)
	}
}

// The table is bounded, and keeps what it has learned longest.
func TestBounded(t *testing.T) {
	x := New()
	x.Read(start, "f", "kept", 0, who(10))
	x.Wrote(start, "f", who(10), fade)
	for i := range 2 * maxPrograms {
		x.Read(start.Add(time.Duration(i)), "f", fmt.Sprint("p", i), 0, who(int32(i+20)))
	}
	for i := range 2 * maxPaths {
		x.Read(start, fmt.Sprint("f", i), "p", 0, who(5))
	}
	if len(x.programs) > maxPrograms || len(x.reads) > maxPaths || len(x.reads["f"]) > maxReads {
		t.Errorf("%d programs, %d paths, %d reads", len(x.programs), len(x.reads), len(x.reads["f"]))
	}
	if !x.Read(start, "f", "kept", 0, who(10)) {
		t.Error("what was learned is forgotten first")
	}
}

func FuzzLoad(f *testing.F) {
	f.Add([]byte(`{"format":1,"programs":[{"name":"a","claims":true,"at":"2026-01-02T03:04:05Z"}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		x := New()
		if x.Load(data) != nil {
			return
		}
		again, err := x.Save()
		if err != nil {
			if strings.Contains(err.Error(), "year outside of range") {
				return
			}
			t.Fatal(err)
		}
		if err := New().Load(again); err != nil {
			t.Errorf("%v in %s", err, again)
		}
	})
}

// What was read goes along with its directory, and back again.
func TestMoved(t *testing.T) {
	for _, tt := range []struct {
		name     string
		from, to string
		exchange bool
		wrote    string
		learns   bool
	}{
		{"the new path", "d", "e", false, "e/f", true},
		{"the old path", "d", "e", false, "d/f", false},
		{"another directory", "dd", "e", false, "d/f", true},
		{"an exchange, one way", "d", "x", true, "x/f", true},
		{"an exchange, the other way", "x", "d", true, "x/f", true},
	} {
		table := New()
		table.Read(start, "d/f", "py", 0, who(10, 1))
		table.Moved(tt.from, tt.to, tt.exchange)
		if got := table.Wrote(start, tt.wrote, who(10, 1), fade); got != tt.learns {
			t.Errorf("%s: learned %v, want %v", tt.name, got, tt.learns)
		}
	}
}
