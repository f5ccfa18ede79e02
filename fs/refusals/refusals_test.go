package refusals

import (
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"latchfs/fs/report"
	"latchfs/journal/validate"
	"latchfs/lockmgr"
)

const (
	ann = 1001
	bob = 1002
)

func owner(pid int32) lockmgr.Owner { return lockmgr.Owner{PID: pid, Start: uint64(pid)} }

// viewer is one of ann's processes with its ancestors, the nearest first.
func viewer(pids ...int32) report.Viewer {
	v := report.Viewer{UID: ann, PID: pids[0]}
	for _, pid := range pids {
		v.Lineage = append(v.Lineage, report.Process{PID: pid, Start: uint64(pid)})
	}
	return v
}

// refused is a refusal that concerns viewer(50).
func refused(change func(*Refusal)) Refusal {
	x := Refusal{Path: "f", Op: "open", Errno: unix.EBUSY, Reason: "because", Owner: owner(50), UID: ann}
	if change != nil {
		change(&x)
	}
	return x
}

func always(string) bool { return true }

// blind sees no path but those that it has.
type blind []string

func (b blind) Sees(path string, _ uint32) bool { return slices.Contains(b, path) }
func (blind) Stands() bool                      { return true }

// The oldest goes first.
func TestRing(t *testing.T) {
	var r Ring
	for i := range Most + 10 {
		r.Add(refused(func(x *Refusal) { x.Wait = time.Duration(i) }))
	}
	got := r.For(viewer(50), nil, always)
	oldest := time.Duration(Most)
	for _, x := range got {
		oldest = min(oldest, x.Wait)
	}
	if len(got) != Most || oldest != 10 {
		t.Errorf("%d refusals, the oldest is %d; want %d and 10", len(got), oldest, Most)
	}
}

// What is said later of the same lost update takes the place of what was said before.
func TestSameLostUpdate(t *testing.T) {
	var r Ring
	one, other := new(int), new(int)
	for _, x := range []struct {
		of     any
		reason string
	}{{one, "first"}, {nil, "another"}, {nil, "another again"}, {other, "other"}, {one, "second"}} {
		r.Add(refused(func(y *Refusal) { y.Of, y.Reason = x.of, x.reason }))
	}
	var reasons []string
	for _, x := range r.For(viewer(50), nil, always) {
		reasons = append(reasons, x.Reason)
	}
	slices.Sort(reasons)
	if want := []string{"another", "another again", "other", "second"}; !slices.Equal(reasons, want) {
		t.Errorf("%q, want %q", reasons, want)
	}
}

// A refusal concerns the process, its relatives within four generations, who has started it
// and what that starts beside it, and nobody who is related by pid 1 alone.
func TestConcerns(t *testing.T) {
	x := refused(nil)
	for _, pid := range []int32{40, 30, 20, 10, 5, 1} {
		x.Lineage = append(x.Lineage, lockmgr.Ancestor{Owner: owner(pid)})
	}
	bobs, roots := viewer(50, 40), viewer(50, 40)
	bobs.UID = bob
	roots.UID, roots.Privileged = 0, true
	foreign := refused(func(x *Refusal) { x.Owner = lockmgr.Owner{} })
	for name, c := range map[string]struct {
		x    *Refusal
		v    report.Viewer
		want bool
	}{
		"itself":                     {&x, viewer(50, 40), true},
		"a child":                    {&x, viewer(51, 50, 40), true},
		"its parent":                 {&x, viewer(40, 30), true},
		"a sibling":                  {&x, viewer(60, 40, 30), true},
		"a cousin":                   {&x, viewer(61, 60, 30), true},
		"a stranger":                 {&x, viewer(70, 71, 1), false},
		"its shell, five above":      {&x, viewer(5, 1), true},
		"a child of that":            {&x, viewer(80, 5, 1), true},
		"five generations off":       {&x, viewer(80, 81, 5, 1), false},
		"a far descendant":           {&x, viewer(90, 91, 92, 93, 94, 50), false},
		"a reused pid":               {&x, report.Viewer{UID: ann, PID: 50, Lineage: []report.Process{{PID: 50, Start: 51}}}, false},
		"another user's relative":    {&x, bobs, false},
		"root's relative":            {&x, roots, true},
		"from another pid namespace": {&x, report.Viewer{UID: ann}, false},
		"both from there":            {&foreign, report.Viewer{UID: ann}, true},
		"another user's from there":  {&foreign, report.Viewer{UID: bob}, false},
		"of one from there":          {&foreign, viewer(50, 40), false},
	} {
		if got := c.x.concerns(c.v); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

// Whom a refusal concerns is told of it only if it may know of the file.
func TestPathsThatCannotBeReached(t *testing.T) {
	var r Ring
	r.Add(refused(func(x *Refusal) { x.Path = "open" }))
	r.Add(refused(func(x *Refusal) { x.Path = "private/f" }))
	r.Add(refused(func(x *Refusal) { x.Path, x.Name = "", "deploy" }))
	for what, c := range map[string]struct {
		sight report.Sight
		want  string
	}{
		"everything":   {nil, "deploy open private/f"},
		"one of them":  {blind{"open"}, "deploy open"},
		"nothing":      {blind{}, "deploy"},
		"another path": {blind{"private"}, "deploy"},
	} {
		var got []string
		for _, x := range r.For(viewer(50), c.sight, always) {
			got = append(got, x.Path+x.Name)
		}
		slices.Sort(got)
		if got := strings.Join(got, " "); got != c.want {
			t.Errorf("who sees %s is told of %s, want %s", what, got, c.want)
		}
	}
}

// shown is the only refusal of a ring, as a viewer sees it.
func shown(t *testing.T, x Refusal, v report.Viewer, sight report.Sight, exists func(string) bool) report.Refusal {
	t.Helper()
	var r Ring
	r.Add(x)
	got := r.For(v, sight, exists)
	if len(got) != 1 {
		t.Fatalf("%d refusals are shown", len(got))
	}
	return got[0]
}

// All that is said of a refusal gets through.
func TestShown(t *testing.T) {
	at := time.Unix(1, 0)
	got := shown(t, refused(func(x *Refusal) { x.At, x.Wait, x.Kept = at, time.Second, "id" }), viewer(50), nil, always)
	if got.Path != "f" || got.Operation != "open" || got.Errno != "EBUSY" || got.Reason != "because" || got.PID != 50 ||
		got.Kept != "id" || got.Wait != time.Second || !got.Time.Equal(at) || got.Suggestion != "" || got.Holder != nil {
		t.Errorf("%+v", got)
	}
}

// The circle of a deadlock names others' files: only who sees everything is told.
func TestReasonOfADeadlock(t *testing.T) {
	x := refused(func(x *Refusal) { x.Errno, x.Reason = unix.EDEADLK, "bob waits for private/f" })
	if got := shown(t, x, viewer(50), blind{"f"}, always); got.Reason != "" {
		t.Errorf("it is told %q", got.Reason)
	}
	if got := shown(t, x, viewer(50), nil, always); got.Reason != x.Reason {
		t.Errorf("who sees everything is told %q", got.Reason)
	}
}

// What a validator quotes is for the writer's user, and for whoever sees everything.
func TestVerdictIsTheWriters(t *testing.T) {
	x := refused(func(x *Refusal) {
		x.Errno, x.Verdict = unix.EBADMSG, &validate.Refusal{Content: "secret", Place: "at secret", Output: []string{"said secret"}}
	})
	for _, v := range []report.Viewer{viewer(50), {UID: 0, Privileged: true, PID: 50, Lineage: viewer(50).Lineage}} {
		if got := shown(t, x, v, nil, always); got.Content != "secret" || got.Place != "at secret" || len(got.Output) != 1 {
			t.Errorf("uid %d: %+v", v.UID, got)
		}
	}
	v := viewer(50)
	v.UID = bob
	if got := x.shownTo(v, blind{"f"}, always); got.Content+got.Place != "" || got.Output != nil {
		t.Errorf("another user: %+v", got)
	}
}

// Of whoever is in the way a viewer sees what it may know.
func TestHolder(t *testing.T) {
	x := refused(func(x *Refusal) {
		x.Holder = &report.Record{Path: "private/f", Asker: report.Asker{Program: "vim", Cmdline: []string{"vim", "--secret"}, UID: bob}}
	})
	if got := shown(t, x, viewer(50), nil, always).Holder; got == nil || got.Path != "private/f" {
		t.Errorf("who sees everything is told of %+v", got)
	}
	got := shown(t, x, viewer(50), blind{"f"}, always).Holder
	if got == nil || got.Path != "f" || got.Program != "vim" || got.Cmdline != nil {
		t.Errorf("who does not see the path is told of %+v", got)
	}
}

// A hint stands alone where a change was overtaken, and beside the advice elsewhere; a
// temporary file that is gone has a hint of its own.
func TestHints(t *testing.T) {
	exists := func(path string) bool { return path == "there" }
	for what, c := range map[string]struct {
		x     func(*Refusal)
		exact string // or contains, if that is empty
		parts []string
	}{
		"overtaken":            {func(x *Refusal) { x.Hint = "Read it again." }, "Read it again.", nil},
		"a temporary file":     {func(x *Refusal) { x.Hint, x.Temporary, x.WithoutIt = "It is there.", "there", "It is gone." }, "It is there.", nil},
		"a file that is gone":  {func(x *Refusal) { x.Hint, x.Temporary, x.WithoutIt = "It is there.", "gone", "It is gone." }, "It is gone.", nil},
		"no hint for the gone": {func(x *Refusal) { x.Hint, x.Temporary = "It is there.", "gone" }, "", nil},
		"beside a holder": {func(x *Refusal) {
			x.Hint, x.Holder = "Start it elsewhere.", &report.Record{Path: "f", Asker: report.Asker{Program: "vim", UID: ann}}
		}, "", []string{" Start it elsewhere."}},
	} {
		got := shown(t, refused(c.x), viewer(50), nil, exists).Suggestion
		if c.parts == nil && got != c.exact {
			t.Errorf("%s: %q, want %q", what, got, c.exact)
		}
		for _, part := range c.parts {
			if !strings.HasSuffix(got, part) || got == strings.TrimSpace(part) {
				t.Errorf("%s: %q, want advice and %q", what, got, part)
			}
		}
	}
}

// Looks at directories keep nobody waiting who is refused meanwhile: a sight may add to
// the ring itself.
func TestRingIsFreeDuringALook(t *testing.T) {
	var r Ring
	r.Add(refused(nil))
	adds := adding{&r}
	if got := r.For(viewer(50), adds, always); len(got) != 1 {
		t.Errorf("%d refusals", len(got))
	}
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 100 {
				r.Add(refused(nil))
				r.For(viewer(50), nil, always)
			}
		})
	}
	wg.Wait()
	if got := r.For(viewer(50), nil, always); len(got) != 402 {
		t.Errorf("%d refusals, want 402", len(got))
	}
}

type adding struct{ r *Ring }

func (a adding) Sees(string, uint32) bool { a.r.Add(refused(nil)); return true }
func (adding) Stands() bool               { return true }
