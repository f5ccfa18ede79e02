package journal

import (
	"os"
	"testing"
	"time"
)

// After a million changes the journal is as large as after a few thousand, and
// its start as fast.
func TestPastChangesCostNothing(t *testing.T) {
	o := newOpener(t)
	j := o.open()
	in := Intent{Kind: KindReplace, Dir: "some/where", Name: "file.json", Shadow: ".latchfs-0123456789abcdef0123456789abcdef"}
	kept := must[uint64](t)(j.Begin(in))
	var largest int64
	for n := range manyChanges {
		check(t, j.Done(must[uint64](t)(j.Begin(in))))
		if n%1000 == 0 {
			largest = max(largest, o.bytes())
		}
	}
	largest = max(largest, o.bytes())
	// While it rotates there are two, and the new one is short.
	if limit := int64(defaultMaxBytes + 64<<10); largest > limit {
		t.Errorf("after %d changes the journal has %d bytes, more than %d", manyChanges, largest, limit)
	}
	begun := time.Now()
	again := o.open()
	t.Logf("%d changes, at most %d bytes, opened in %v", manyChanges, largest, time.Since(begun))
	if got := ids(again.Pending()); len(got) != 1 || got[0] != kept {
		t.Errorf("pending %v, want %d", got, kept)
	}
	if size := o.bytes(); size > 4<<10 {
		t.Errorf("the new segment begins with %d bytes", size)
	}
}

// bytes is how long the segments are.
func (o *opener) bytes() (sum int64) {
	o.t.Helper()
	found, err := findSegment(o.dir)
	check(o.t, err)
	for _, name := range found.all {
		st, err := os.Stat(o.path(name))
		check(o.t, err)
		sum += st.Size()
	}
	return sum
}
