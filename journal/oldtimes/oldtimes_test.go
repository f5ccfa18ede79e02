package oldtimes

import (
	"testing"

	"golang.org/x/sys/unix"
)

func at(sec int64) unix.Timespec { return unix.Timespec{Sec: sec} }

func TestTableIsBounded(t *testing.T) {
	var c Table[uint64]
	c.Note(0, at(5), at(5))
	if len(c.of) != 0 {
		t.Error("a commit that changed nothing is remembered")
	}
	const more = 10
	for i := range uint64(Max + more) {
		c.Note(i, at(1), at(2))
	}
	if len(c.of) != Max || len(c.ring) != Max {
		t.Errorf("%d and %d are remembered, want %d", len(c.of), len(c.ring), Max)
	}
	for ino, want := range map[uint64]unix.Timespec{more - 1: at(2), more: at(1), Max + more - 1: at(1)} {
		if got := c.Shown(ino, at(2)); got != want {
			t.Errorf("inode %d shows %v, want %v", ino, got, want)
		}
	}
	// The number is given to another file, or the file is changed.
	c.Note(more, at(3), at(4))
	for ctime, want := range map[int64]int64{2: 2, 4: 3, 9: 9} {
		if got := c.Shown(more, at(ctime)); got != at(want) {
			t.Errorf("change time %d shows %v, want %d", ctime, got, want)
		}
	}
	if len(c.of) != Max {
		t.Errorf("%d are remembered, want %d", len(c.of), Max)
	}
}

// The oldest goes first, round after round.
func TestTheOldestIsForgotten(t *testing.T) {
	var c Table[int]
	const last = 3*Max + 5
	for i := range last {
		c.Note(i, at(1), at(2))
	}
	for i := range last {
		want := at(1)
		if i < last-Max {
			want = at(2)
		}
		if got := c.Shown(i, at(2)); got != want {
			t.Fatalf("inode %d shows %v, want %v", i, got, want)
		}
	}
}

// Somebody may have looked between two changes, and asks what to show after the second.
func TestChangesInARowAreOne(t *testing.T) {
	var c Table[int]
	shows := func(want, has int64) {
		t.Helper()
		if got := c.Shown(1, at(has)); got != at(want) {
			t.Errorf("time %d shows %v, want %d", has, got, want)
		}
	}
	c.Note(1, at(10), at(20))
	c.Note(1, at(20), at(30))
	shows(10, 20)
	shows(10, 30)
	shows(9, 9)
	shows(31, 31)
	c.Note(1, at(40), at(50)) // something else gave it 40
	shows(40, 50)
	shows(30, 30)
	c.Note(1, at(50), at(45)) // the clock was set back
	shows(40, 45)
	shows(50, 50)
}

func TestNothingIsRemembered(t *testing.T) {
	var c Table[int]
	if got := c.Shown(1, at(3)); got != at(3) {
		t.Errorf("an inode that nobody knows shows %v", got)
	}
	c.Note(1, at(1), unix.Timespec{Sec: 1, Nsec: 7})
	if got := c.Shown(1, at(1)); got != at(1) {
		t.Errorf("the second alone is compared: %v", got)
	}
	if got := c.Shown(1, unix.Timespec{Sec: 1, Nsec: 7}); got != at(1) {
		t.Errorf("it shows %v", got)
	}
}
