package journal

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

// Records are read where they were put, in any order, and by a reader from before a
// rewrite where they were then.
func TestRecordsAreReadAgain(t *testing.T) {
	o := newOpener(t)
	l, _ := mustOpenLog(o)
	text := func(i int) string { return fmt.Sprint("record ", i, " ", strings.Repeat("x", i*i*i)) }
	var places []int64
	put := func(i int) {
		t.Helper()
		at, err := l.Put([]byte(text(i)))
		check(t, err)
		places = append(places, at)
	}
	read := func(r *LogReader, i int, at int64) {
		t.Helper()
		if b, err := r.Record(at); err != nil || string(b) != text(i) {
			t.Errorf("record %d at %d: %.40q, %v", i, at, b, err)
		}
	}
	for i := range 90 {
		put(i)
	}
	old := l.Reader()
	defer old.Close()
	rw, err := l.StartRewrite()
	check(t, err)
	first := rw.Next()
	check(t, rw.Add([]byte(text(50))))
	put(90)
	check(t, rw.Sync())
	put(91)
	check(t, rw.Commit())
	if !rw.Committed() {
		t.Error("the new log is not said to be there")
	}
	for i := range 91 {
		read(old, i, places[i])
	}
	for i := 90; i >= 0; i -= 7 {
		read(old, i, places[i])
	}
	if _, err := old.Record(places[3] + 1); err == nil || errors.Is(err, errShort) {
		t.Errorf("between two records: %v", err)
	}
	now := l.Reader()
	defer now.Close()
	read(now, 50, first)
	read(now, 90, rw.Moved(places[90]))
	read(now, 91, rw.Moved(places[91]))
	put(92)
	read(now, 92, places[92])
	_, got := mustOpenLog(o)
	if len(got) != 4 {
		t.Errorf("%d records are left", len(got))
	}
}
