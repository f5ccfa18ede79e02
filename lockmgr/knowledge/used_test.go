package knowledge

import (
	"testing"
	"time"

	"latchfs/lockmgr"
)

// Who has a file open to append, and has not read it, does not know what others have saved
// since it has last used the descriptor.
func TestSince(t *testing.T) {
	mine, child, other := lockmgr.Owner{PID: 1, Start: 1}, lockmgr.Owner{PID: 2, Start: 1}, lockmgr.Owner{PID: 3, Start: 1}
	own, theirs := Who{Self: child, Above: []lockmgr.Owner{mine}}, Who{Self: other}
	somebody := Author{PID: 3, Program: "ed"}
	at := func(s int64) time.Time { return time.Unix(s, 0) }
	v1, v2, v3, v4 := Stamp{Ino: 1}, Stamp{Ino: 2}, Stamp{Ino: 3}, Stamp{Ino: 3, Size: 1}
	for name, c := range map[string]struct {
		made  func(x *Table)
		is    Stamp
		stale uint64 // the version that it does not know; 0: it may cut
		since int
	}{
		"nothing":          {func(*Table) {}, v1, 0, 0},
		"before":           {func(x *Table) { x.Changed(at(1), "f", v2, theirs, somebody) }, v2, 0, 0},
		"at that moment":   {func(x *Table) { x.Changed(at(2), "f", v2, theirs, somebody) }, v2, 0, 0},
		"saved":            {func(x *Table) { x.Changed(at(3), "f", v2, theirs, somebody) }, v2, 2, 1},
		"saved by a shell": {func(x *Table) { x.Changed(at(3), "f", v2, Who{}, somebody) }, v2, 2, 1},
		"by its child":     {func(x *Table) { x.Changed(at(3), "f", v2, own, Author{PID: 2}) }, v2, 0, 0},
		"by another user of it": {func(x *Table) {
			x.Changed(at(3), "f", v2, Who{Self: lockmgr.Owner{PID: 4, Start: 1}}, Author{PID: 4})
		}, v2, 0, 0},
		"appended":    {func(x *Table) { x.Added(at(3), "f", v1, v2, theirs, somebody) }, v2, 0, 0},
		"outside":     {func(*Table) {}, v2, 0, 0},
		"and outside": {func(x *Table) { x.Changed(at(3), "f", v2, theirs, somebody) }, v3, 2, 1},
		"twice": {func(x *Table) {
			x.Changed(at(3), "f", v2, theirs, somebody)
			x.Changed(at(4), "f", v3, theirs, somebody)
		}, v3, 3, 2},
		"and appended": {func(x *Table) {
			x.Changed(at(3), "f", v3, theirs, somebody)
			x.Added(at(4), "f", v3, v4, theirs, somebody)
		}, v4, 2, 1},
		"then by child": {func(x *Table) {
			x.Changed(at(3), "f", v2, theirs, somebody)
			x.Changed(at(4), "f", v3, own, Author{PID: 2})
		}, v3, 0, 0},
		"then by other": {func(x *Table) {
			x.Changed(at(3), "f", v2, own, Author{PID: 2})
			x.Changed(at(4), "f", v3, theirs, somebody)
		}, v3, 3, 1},
		"moved here": {func(x *Table) { x.Changed(at(3), "f", Stamp{Ino: 9}, theirs, somebody) }, Stamp{Ino: 9}, 0, 0},
		"moved, written": {func(x *Table) {
			x.Changed(at(3), "f", Stamp{Ino: 9}, theirs, somebody)
			x.Changed(at(4), "f", Stamp{Ino: 9, Size: 1}, theirs, somebody)
		}, Stamp{Ino: 9, Size: 1}, 3, 1},
	} {
		t.Run(name, func(t *testing.T) {
			x := New(fade)
			x.Track("f", v1)
			c.made(x)
			u := &Use{At: at(2), Ino: 9, By: []lockmgr.Owner{mine, {PID: 4, Start: 1}}}
			b := x.Since(at(5), "f", c.is, u)
			if b.Stale != (c.stale != 0) || b.Newer.Number != c.stale || len(b.Since) != c.since || b.Stale && (b.By != mine || !b.Used || b.Version != 1 && name != "moved, written") {
				t.Errorf("%+v", b)
			}
			x.checkInvariants(t)
			if !b.Stale {
				return
			}
			x.Refused(at(5), &b, mine, false)
			for wait, want := range map[int64]bool{0: false, 2: true, 3600: false} {
				if b := x.Since(at(5+wait), "f", c.is, u); b.Insists != want {
					t.Errorf("after %d s it insists: %t", wait, b.Insists)
				}
			}
		})
	}
	if b := New(fade).Since(at(5), "f", v1, &Use{At: at(2), By: []lockmgr.Owner{mine}}); b.Known {
		t.Errorf("of a file of which nothing is known: %+v", b)
	}
}

// A file that is tracked is one of which nobody knows a version, and which keeps those that it
// had.
func TestTrack(t *testing.T) {
	x, now := New(fade), time.Unix(1, 0)
	mine := lockmgr.Owner{PID: 1, Start: 1}
	x.Track("f", Stamp{Ino: 1})
	if number, is := x.Current("f"); number != 1 || is != (Stamp{Ino: 1}) {
		t.Errorf("version %d, %+v", number, is)
	}
	x.Changed(now, "f", Stamp{Ino: 2}, Who{}, Author{PID: 3})
	x.Track("f", Stamp{Ino: 3})
	if number, is := x.Current("f"); number != 2 || is != (Stamp{Ino: 2}) {
		t.Errorf("version %d, %+v", number, is)
	}
	if b := x.Check(now, "f", Stamp{Ino: 2}, []lockmgr.Owner{mine}, fade, Makers); b.Known {
		t.Errorf("somebody knows %+v", b)
	}
	x.checkInvariants(t)
}
