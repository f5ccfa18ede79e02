package knowledge

import (
	"testing"
	"time"

	"latchfs/lockmgr"
)

// What a reader comes across is a version of an unknown author, unless it may be half of one.
func TestMeet(t *testing.T) {
	writer := Who{Self: lockmgr.Owner{PID: 1, Start: 1}}
	v1, v2, half := Stamp{Ino: 1, Mtime: 1}, Stamp{Ino: 1, Mtime: 3}, Stamp{Ino: 1, Mtime: 2}
	now := time.Unix(1, 0)
	for name, c := range map[string]struct {
		first  func(x *Table) // after the number was asked for
		number uint64         // of the current version then
		is     Stamp
	}{
		"nobody has told":   {func(*Table) {}, 2, half},
		"it is being made":  {func(x *Table) { x.Expect("f", Stamp{}, writer, Author{}) }, 1, v1},
		"it was being made": {func(x *Table) { x.Changed(now, "f", v2, writer, Author{}) }, 2, v2},
		"it was not made": {func(x *Table) {
			x.Expect("f", Stamp{}, writer, Author{})
			x.Expected("f")
		}, 2, half},
		"it is known": {func(x *Table) { x.Found(now, "f", half) }, 2, half},
	} {
		t.Run(name, func(t *testing.T) {
			x := New(fade)
			x.Track("f", v1)
			number, _ := x.Current("f")
			c.first(x)
			news := x.News()
			x.Meet(now, "f", number, half)
			if n, is := x.Current("f"); n != c.number || is != c.is {
				t.Errorf("version %d, %+v is current, want %d, %+v", n, is, c.number, c.is)
			}
			if entered := c.is == half && name != "it is known"; (x.News() != news) != entered {
				t.Errorf("that is news: %v, want %v", !entered, entered)
			}
			x.checkInvariants(t)
		})
	}
	x := New(fade)
	x.Meet(now, "f", 0, half)
	if x.Tracks("f") {
		t.Error("a file is followed that nobody knows")
	}
}

// A version that was met, and is announced later, is its author's.
func TestMetAndAnnounced(t *testing.T) {
	reader, parent, child := lockmgr.Owner{PID: 1, Start: 1}, lockmgr.Owner{PID: 2, Start: 1}, lockmgr.Owner{PID: 3, Start: 1}
	x, now := New(fade), time.Unix(1, 0)
	v1, v2 := Stamp{Ino: 1, Mtime: 1}, Stamp{Ino: 1, Mtime: 2}
	for _, o := range []lockmgr.Owner{reader, parent} {
		x.Saw(now, "f", v1, Who{Self: o})
	}
	x.Meet(now, "f", 1, v2)
	x.Changed(now, "f", v2, Who{Self: child, Above: []lockmgr.Owner{parent}}, Author{PID: 3})
	for o, stale := range map[lockmgr.Owner]bool{reader: true, parent: false} {
		if b := x.Check(now, "f", v2, []lockmgr.Owner{o}, fade, Readers); b.Stale != stale || b.Current != 2 || stale && b.Newer.Author.PID != 3 {
			t.Errorf("process %d knows %+v", o.PID, b)
		}
	}
	x.checkInvariants(t)
}
