package history

import (
	"fmt"
	"math"
	"slices"
	"testing"
)

// However few are taken at a time, all versions come in their order, and each once.
func TestOrderInParts(t *testing.T) {
	w := newWorld(t, Options{})
	for i := range 100 {
		w.s.Add(Version{Path: fmt.Sprint("d/f", i*7%13), Event: Commit})
	}
	all := w.s.x.inOrder(0, math.MaxInt64, 1000)
	if len(all) != 100 {
		t.Fatalf("%d versions of 100", len(all))
	}
	for _, most := range []int{1, 3, 50, 100} {
		var got []place
		for after := int64(0); ; after = got[len(got)-1].seq {
			part := w.s.x.inOrder(after, all[89].seq, most)
			if len(part) == 0 {
				break
			}
			if len(part) > most {
				t.Fatalf("%d versions where %d were asked for", len(part), most)
			}
			got = append(got, part...)
		}
		if !slices.Equal(got, all[:90]) {
			t.Errorf("by %d: %v, want %v", most, got, all[:90])
		}
	}
}

// A look at all versions has few of them in memory, however long their paths are.
func TestQueriesAreBounded(t *testing.T) {
	w := newWorld(t, Options{})
	long := fmt.Sprintf("%0*d/", maxAskedBytes/10, 0)
	for i := range 40 {
		w.s.Add(Version{Path: fmt.Sprint(long, i), Event: Commit})
	}
	q := w.s.queryLocked()
	defer q.r.Close()
	for _, p := range w.s.x.inOrder(0, math.MaxInt64, maxAhead) {
		if q.isFull() {
			break
		}
		q.addLocked(p.claim)
	}
	if n := len(q.asked); n != 10 {
		t.Errorf("a query has %d versions", n)
	}
	n := 0
	for range w.s.All() {
		n++
	}
	if n != 40 {
		t.Errorf("%d versions of 40", n)
	}
}
