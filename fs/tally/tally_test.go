package tally

import (
	"fmt"
	"testing"
	"time"
)

func TestTally(t *testing.T) {
	var tally Tally[int]
	now := time.Unix(1000, 0)
	add := func(k Kind, n int) (told int, dues int) {
		for i := range n {
			tell, due := tally.Add(now, k, i)
			if tell {
				told++
			}
			if !due.IsZero() {
				dues++
				if due != now.Add(Window) {
					t.Errorf("due at %v", due)
				}
			}
		}
		return told, dues
	}
	a, b := Kind{UID: 1, Path: "a"}, Kind{UID: 2, Path: "a"}
	if told, dues := add(a, 542); told != PerKind || dues != 1 {
		t.Errorf("%d told, %d times due", told, dues)
	}
	if told, _ := add(b, 3); told != 3 {
		t.Errorf("%d of the other user are told", told)
	}
	if got := tally.Take(now.Add(Window-1), false); got != nil {
		t.Errorf("before the window is over: %+v", got)
	}
	now = now.Add(Window)
	if got := tally.Take(now, false); len(got) != 1 || got[0] != (Omitted[int]{Last: 541, Count: 532}) {
		t.Errorf("%+v", got)
	}
	if told, _ := add(a, 20); told != PerKind {
		t.Errorf("%d are told in the next window", told)
	}
	// One user's refusals of many kinds.
	told := 0
	for i := range 1000 {
		n, _ := add(Kind{UID: 3, Path: fmt.Sprint(i)}, 1)
		told += n
	}
	if told != PerUser || len(tally.kinds) > PerUser+10 {
		t.Errorf("%d are told, %d kinds are remembered", told, len(tally.kinds))
	}
	if got := tally.Take(now, true); len(got) != 2 || got[0].Count+got[1].Count != 10+900 || got[1].Mixed != true {
		t.Errorf("%+v", got)
	}
	if len(tally.kinds)+len(tally.users) != 0 {
		t.Error("something is remembered for ever")
	}
}

// What is omitted in a window that nobody has asked about is not lost in the next.
func TestTallyKeepsWhatNobodyAskedFor(t *testing.T) {
	var tally Tally[string]
	now := time.Unix(1000, 0)
	for range 3 {
		for range PerKind + 5 {
			tally.Add(now, Kind{}, "e")
		}
		now = now.Add(Window)
	}
	total := 0
	for _, o := range tally.Take(now, false) {
		total += o.Count
	}
	if total != 3*(PerKind+5)-PerKind {
		t.Errorf("%d are counted", total)
	}
}
