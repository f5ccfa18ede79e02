package family

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"latchfs/lockmgr"
	"latchfs/lockmgr/proc/internal/signals"
)

// owner is a process, of which a younger one has a greater number.
func owner(pid int32) lockmgr.Owner { return lockmgr.Owner{PID: pid, Start: uint64(pid)} }

// chain reads a chain of processes, "9 8$ 7!": 8 is a prompt and 7 a launcher.
func chain(text string) (list []Member) {
	for _, s := range strings.Fields(text) {
		var m Member
		switch {
		case strings.HasSuffix(s, "$"):
			m.Kind = Prompt
		case strings.HasSuffix(s, "!"):
			m.Kind = Launcher
		}
		var pid int32
		fmt.Sscan(strings.TrimRight(s, "$!"), &pid)
		m.Owner = owner(pid)
		list = append(list, m)
	}
	return list
}

func text(list []lockmgr.Owner) string {
	var out []string
	for _, o := range list {
		out = append(out, fmt.Sprint(o.PID))
	}
	return strings.Join(out, " ")
}

func TestOf(t *testing.T) {
	for _, c := range []struct {
		chain            string
		relatives, above string
		shell            int32
		interactive      bool
		end              int
	}{
		{"9", "", "", 0, false, 1},
		{"9$", "", "", 0, true, 1},
		{"9!", "", "", 0, false, 1},
		{"9 8", "8", "", 0, false, 2},
		{"9 8 7 6", "8 7 6", "", 0, false, 4},
		{"9 8 7 6 5 4", "8 7 6", "5 4", 0, false, 6},
		{"9 8 1", "8", "", 0, false, 2},
		{"9 1", "", "", 0, false, 1},
		{"9 8 7! 6", "8", "", 0, false, 2},
		{"9 8 7 6 5 4! 3", "8 7 6", "5", 0, false, 5},
		{"9 8$ 7", "", "", 8, false, 1},
		{"9 8 7 6$ 5", "8 7", "", 6, false, 3},
		{"9 8 7 6 5$ 4", "8 7 6", "", 0, false, 4}, // too far away
		{"9$ 8 7", "8 7", "", 0, true, 3},
		{"9 8 1$", "8", "", 1, false, 2}, // as in a container
		{"9 8 0", "8", "", 0, false, 2},
	} {
		f, end := Of(chain(c.chain))
		want := lockmgr.Owner{}
		if c.shell != 0 {
			want = owner(c.shell)
		}
		if text(f.Relatives) != c.relatives || text(f.Above) != c.above || f.Shell != want || f.Interactive != c.interactive || end != c.end {
			t.Errorf("%s: %+v, up to %d", c.chain, f, end)
		}
		if cap(f.Relatives) != len(f.Relatives) || cap(f.Above) != len(f.Above) {
			t.Errorf("%s: who appends to the lists changes what others see", c.chain)
		}
	}
}

// The family of a child is the same by that of its parent as by the way up.
func TestOfChild(t *testing.T) {
	rapid.Check(t, func(p *rapid.T) {
		kinds := rapid.SliceOfN(rapid.SampledFrom([]Kind{Ordinary, Ordinary, Ordinary, Prompt, Launcher}), 2, 8).Draw(p, "kinds")
		pid := int32(rapid.IntRange(len(kinds), len(kinds)+1).Draw(p, "pid")) // the last may be the first process
		var list []Member
		for i, k := range kinds {
			list = append(list, Member{owner(pid - int32(i)), k})
		}
		want, _ := Of(list)
		parent, _ := Of(list[1:])
		before := parent
		if list[1].IsTop() {
			return
		}
		got := parent.OfChild(list[1].Owner, list[0].Kind)
		if text(got.Relatives) != text(want.Relatives) || text(got.Above) != text(want.Above) || got.Shell != want.Shell || got.Interactive != want.Interactive {
			p.Errorf("%+v: %+v by the parent, %+v by the way up", list, got, want)
		}
		if !reflect.DeepEqual(parent, before) {
			p.Errorf("the parent's has changed to %+v", parent)
		}
	})
}

// What is added is added once, and not to what others see.
func TestAdd(t *testing.T) {
	f, _ := Of(chain("9 8 7 6 5"))
	if got := text(f.Add()); got != "5" {
		t.Errorf("nothing added: %s", got)
	}
	if got := f.Add(owner(4), owner(8), owner(5), owner(4), owner(3)); text(got) != "5 4 3" || cap(got) != 3 {
		t.Errorf("added: %s, with room for %d", text(got), cap(got)-len(got))
	}
	if got := text(f.Above); got != "5" {
		t.Errorf("the family has %s", got)
	}
	again := f.Add(lockmgr.Owner{PID: 8, Start: 1})
	if len(again) != 2 {
		t.Errorf("another process of the same pid: %v", again)
	}
}

func TestLeadersOf(t *testing.T) {
	for _, c := range []struct {
		name   string
		reaper int32
		chain  string
		want   string
	}{
		{"the leader alone", 1, "5 1", "5"},
		{"with its ancestors", 1, "6 5 4 1", "6 5 4"},
		{"below another reaper", 3, "6 5 3 1", "6 5"},
		{"not below the reaper", 3, "6 5 1", ""},
		{"nobody is known", 1, "", ""},
		{"up to a prompt", 1, "6 5$ 4 1", "6"},
		{"up to a launcher", 1, "6 5! 4 1", "6"},
		{"a prompt itself", 1, "6$ 5 1", ""},
		{"the reaper is a launcher", 3, "6 5 3!", "6 5"},
		{"younger than the orphan", 1, "10 5 1", ""},
		{"as old as the orphan", 1, "9 5 1", "9 5"},
	} {
		if got := text(LeadersOf(owner(9), owner(c.reaper), chain(c.chain))); got != c.want {
			t.Errorf("%s: %q", c.name, got)
		}
	}
}

func TestKindOf(t *testing.T) {
	both, none := signals.Of(unix.SIGTSTP, unix.SIGTTOU), signals.Set(0)
	for _, c := range []struct {
		comm     string
		terminal bool
		ignored  signals.Set
		want     Kind
	}{
		{"bash", true, both, Prompt},
		{"bash", true, signals.Of(unix.SIGTTOU, unix.SIGINT), Prompt},
		{"bash", true, none, Ordinary},  // a script
		{"bash", false, both, Ordinary}, // without a terminal
		{"bash", true, signals.Of(unix.SIGINT, unix.SIGTTIN), Ordinary},
		{"python3", true, both, Ordinary},
		{"sshd", false, none, Launcher},
		{"tmux: server", true, both, Launcher},
		{"", true, both, Ordinary},
		{"Bash", true, both, Ordinary},
	} {
		if got := KindOf([]byte(c.comm), c.terminal, c.ignored); got != c.want {
			t.Errorf("%q, terminal %v, ignores %x: %d", c.comm, c.terminal, c.ignored, got)
		}
	}
	for name := range shells {
		if launchers[name] || len(name) > 15 {
			t.Errorf("%s is a launcher, too, or no name of a process", name)
		}
	}
	for name := range launchers {
		if len(name) > 15 {
			t.Errorf("%s is no name of a process", name)
		}
	}
}

// A member ends a family when it is at the top, or a prompt.
func TestEnds(t *testing.T) {
	for _, c := range []struct {
		m         Member
		top, ends bool
	}{
		{Member{owner(9), Ordinary}, false, false},
		{Member{owner(9), Prompt}, false, true},
		{Member{owner(9), Launcher}, true, true},
		{Member{owner(1), Ordinary}, true, true},
		{Member{owner(0), Ordinary}, true, true},
	} {
		if c.m.IsTop() != c.top || c.m.Ends() != c.ends {
			t.Errorf("%+v: top %v, ends %v", c.m, c.m.IsTop(), c.m.Ends())
		}
	}
	if got := slices.ContainsFunc(chain("9 8 7"), Member.Ends); got {
		t.Error("an ordinary process ends a family")
	}
}
