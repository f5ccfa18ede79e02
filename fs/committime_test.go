package fs

import (
	"testing"

	"golang.org/x/sys/unix"
)

func TestCommitTimesAreBounded(t *testing.T) {
	at := func(sec int64) unix.Timespec { return unix.Timespec{Sec: sec} }
	var c commitTimes
	c.note(inoKey{1, 0}, commitTime{before: at(5), after: at(5)})
	if len(c.of) != 0 {
		t.Error("a commit that changed nothing is remembered")
	}
	const more = 10
	for i := range uint64(maxCommitTimes + more) {
		c.note(inoKey{1, i}, commitTime{before: at(1), after: at(2)})
	}
	if len(c.of) != maxCommitTimes || len(c.ring) != maxCommitTimes {
		t.Errorf("%d and %d are remembered, want %d", len(c.of), len(c.ring), maxCommitTimes)
	}
	for ino, want := range map[uint64]unix.Timespec{more - 1: at(2), more: at(1), maxCommitTimes + more - 1: at(1)} {
		if got := c.shown(inoKey{1, ino}, at(2)); got != want {
			t.Errorf("inode %d shows %v, want %v", ino, got, want)
		}
	}
	// The number is given to another file, or the file is changed.
	c.note(inoKey{1, more}, commitTime{before: at(3), after: at(4)})
	for ctime, want := range map[int64]int64{2: 2, 4: 3, 9: 9} {
		if got := c.shown(inoKey{1, more}, at(ctime)); got != at(want) {
			t.Errorf("change time %d shows %v, want %d", ctime, got, want)
		}
	}
	if len(c.of) != maxCommitTimes {
		t.Errorf("%d are remembered, want %d", len(c.of), maxCommitTimes)
	}
}
