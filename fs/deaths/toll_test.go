package deaths

import (
	"fmt"
	"testing"

	"golang.org/x/sys/unix"

	"latchfs/lockmgr"
	"latchfs/lockmgr/policy"
)

const writer, helper = 1, 2

// dies notes a death, at a content.
func dies(t *Toll[int], d *Death, at int) { t.Note(d, lockmgr.Owner{PID: writer}, at) }

// count is told the content, of a file that is not empty.
func count(t *Toll[int], now int) { t.Count(now, false, false, lockmgr.Owner{PID: writer}) }

// Nobody has died: nothing is kept out, everybody is told, and no event tells of it.
func TestNoToll(t *testing.T) {
	var toll Toll[int]
	if toll.Worst() != nil || toll.IsKeptOut() || toll.KeepsOut(policy.Rollback, File{}) || !toll.Tells(false, true) {
		t.Errorf("%+v", toll)
	}
	d := map[string]any{}
	if toll.Detail(d); len(d) > 0 {
		t.Errorf("an event says %v", d)
	}
}

// The death that counts is the worst, whichever came first; it decides, and events tell of it.
func TestTollOfSeveral(t *testing.T) {
	kill, term, pipe := of(helper, unix.SIGKILL), of(writer, unix.SIGTERM), of(helper, unix.SIGPIPE)
	for _, c := range []struct {
		deaths []*Death
		want   *Death
	}{
		{[]*Death{kill}, kill},
		{[]*Death{term, kill}, kill},
		{[]*Death{kill, term}, kill},
		{[]*Death{pipe}, nil},
		{[]*Death{term, pipe}, term},
	} {
		var toll Toll[int]
		for i, d := range c.deaths {
			dies(&toll, d, i)
		}
		count(&toll, 9)
		if toll.Worst() != c.want {
			t.Errorf("of %v the one that counts is %v", c.deaths, toll.Worst())
		}
		// A new file is kept out by those that were not asked to stop.
		if got := toll.KeepsOut(policy.Auto, File{IsNew: true}); got != (c.want == kill) {
			t.Errorf("of %v, a new file: kept out %v", c.deaths, got)
		}
		if got := toll.KeepsOut(policy.Commit, File{}); got {
			t.Errorf("of %v, against the policy: kept out", c.deaths)
		}
		d, want := map[string]any{"pid": 7}, "map[pid:7]"
		if c.want != nil {
			want = fmt.Sprintf("map[killed_by:%s pid:7]", unix.SignalName(c.want.Signal))
		}
		if toll.Detail(d); fmt.Sprint(d) != want {
			t.Errorf("of %v an event says %v, want %v", c.deaths, d, want)
		}
	}
}

// Who lives is told of what was kept out where it opened the file, which is not its output, or
// where somebody has written since the last death: not since one before it.
func TestTells(t *testing.T) {
	for _, c := range []struct {
		last, now      int // the content at the last death, and at the end
		opener, output bool
		told           bool
	}{
		{last: 5, now: 5, opener: true, told: true},
		{last: 5, now: 5, opener: true, output: true, told: false},
		{last: 5, now: 5, told: false},
		{last: 5, now: 6, told: true},
		{last: 5, now: 6, output: true, told: true},
		{last: 5, now: 3, told: true}, // as at the first death
	} {
		var toll Toll[int]
		dies(&toll, of(writer, unix.SIGKILL), 3)
		dies(&toll, of(helper, unix.SIGPIPE), c.last) // does not count, but what came before it is the dead's
		if !toll.Tells(c.opener, c.output) || toll.IsKeptOut() {
			t.Errorf("%+v: not told of an end that is not the death's", c)
		}
		count(&toll, c.now)
		toll.KeepOut(c.now)
		if got := toll.Tells(c.opener, c.output); got != c.told || !toll.IsKeptOut() {
			t.Errorf("%+v: told %v, kept out %v", c, got, toll.IsKeptOut())
		}
	}
}

// What the file is like comes to the one that judges.
func TestTollOfASyncedFile(t *testing.T) {
	var toll Toll[string]
	toll.Note(of(writer, unix.SIGKILL), lockmgr.Owner{PID: writer}, "a")
	toll.Count("a", false, false, lockmgr.Owner{PID: writer})
	for _, synced := range []bool{false, true} {
		f := File{WasSynced: true, IsSynced: func() bool { return synced }}
		if got := toll.KeepsOut(policy.Auto, f); got == synced {
			t.Errorf("synced since the last write %v: kept out %v", synced, got)
		}
	}
	if toll.KeepOut("a"); toll.Tells(false, false) {
		t.Error("a bystander is told")
	}
}

// Who has written is known of up to so many threads, and of nobody if one of them cannot be seen.
func TestWhoHasWritten(t *testing.T) {
	of := func(pid int32) func() int32 { return func() int32 { return pid } }
	var some, many, unseen, gone, opened Toll[int]
	if some.MayHaveWritten(7) {
		t.Error("nobody has written")
	}
	for range 2 {
		for tid := range uint32(maxWriters) {
			some.Wrote(tid+1, of(7))
			many.Wrote(tid+1, of(7))
		}
	}
	some.Wrote(1, of(0)) // is not asked again
	if !some.MayHaveWritten(7) || some.MayHaveWritten(8) {
		t.Error("process 7 has written, and 8 has not")
	}
	many.Wrote(maxWriters+1, of(7))
	unseen.Wrote(0, of(7))
	gone.Wrote(1, of(0))
	for _, toll := range []*Toll[int]{&many, &unseen, &gone} {
		if !toll.MayHaveWritten(8) {
			t.Errorf("it may have been anybody: %+v", toll)
		}
	}
	for pid := range int32(maxWriters + 1) {
		opened.Opened(pid + 1)
		opened.Opened(1)
		if got, want := opened.MayHaveWritten(1000), pid == maxWriters; !opened.MayHaveWritten(pid+1) || got != want {
			t.Errorf("after %d openers: of another one %v", pid+1, got)
		}
	}
}

// Who has not written anything counts only where nobody has, and then as everybody does.
func TestIdleDeath(t *testing.T) {
	var toll Toll[int]
	w := lockmgr.Owner{PID: writer}
	toll.NoteIdle(of(helper, unix.SIGKILL), w)
	for _, c := range []struct{ empty, kept bool }{{false, false}, {true, true}, {false, false}, {true, true}} {
		toll.Count(5, c.empty, false, w)
		if d := toll.Worst(); (d != nil) != c.kept || d != nil && d.Owner.PID != helper || toll.KeepsOut(policy.Auto, File{}) != c.kept {
			t.Errorf("%+v", toll)
		}
	}
	if toll.KeepOut(5); toll.Tells(false, true) {
		t.Error("nobody has written since, and is told")
	}
	var nobody Toll[int]
	if nobody.Count(5, true, false, w); nobody.Worst() != nil || nobody.HasDead() {
		t.Errorf("%+v", nobody)
	}
}

// The death of an heir counts as long as nobody writes on, that of another one beside it in any case.
func TestHeirsDeath(t *testing.T) {
	w, kill := lockmgr.Owner{PID: writer}, of(helper, unix.SIGKILL)
	for _, c := range []struct {
		own              bool // another one dies, before the heir
		now              int
		all, kept, since bool
	}{
		{now: 4, kept: true},
		{now: 5},
		{now: 5, all: true, kept: true, since: true},
		{now: 5, own: true, kept: true, since: true},
		{now: 4, own: true, kept: true},
	} {
		var toll Toll[int]
		if c.own {
			dies(&toll, of(writer, unix.SIGTERM), 3)
		}
		toll.NoteHeir(kill, w, 4)
		if toll.Count(4, false, false, w); !toll.HasDead() || toll.Worst() != kill { // as where it might appear early
			t.Errorf("%+v: nobody has written on, and %v counts", c, toll.Worst())
		}
		toll.Count(c.now, false, c.all, w)
		if got := toll.KeepsOut(policy.Auto, File{}); got != c.kept {
			t.Errorf("%+v: kept out %v", c, got)
		}
		if !c.kept {
			continue
		}
		if toll.KeepOut(c.now); toll.Tells(false, false) != c.since {
			t.Errorf("%+v: told %v", c, !c.since)
		}
	}
}
