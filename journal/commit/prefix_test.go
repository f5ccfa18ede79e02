package commit

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"testing"

	"latchfs/journal"
	"latchfs/journal/commit/internal/disk"
)

// busy does a bit of everything with a journal that rotates all the time, and
// crashes in the middle of a commit in place.
func busy(t testing.TB, root string) *world {
	t.Helper()
	w := newWorld(t, root)
	j, err := journal.Open(w.state, journal.Options{MaxBytes: 2 << 10})
	check(t, err)
	w.j, w.s = j, NewStore(int(w.dir.Fd()), w.state, j)
	w.s.rejects.NoBallast()
	w.write("d/f", "old")
	w.write("d/half", "old and longer")
	for range 12 {
		if !replace(w) || !inPlace(w) {
			t.Fatal("a commit failed")
		}
	}
	_, err = j.ReserveTokens(100)
	check(t, err)
	if !replace(w) {
		t.Fatal("a commit failed")
	}
	check(t, j.Sync())
	w.halfWritten("d/half")
	w.s.disk.Fault = nil
	return w
}

// Of a journal of real work every prefix that has what the segment began with opens and
// recovers, and no name is gone.
// The file that was being overwritten is complete when its record is there, which
// was on disk before.
func TestEveryPrefixOfARealJournalRecovers(t *testing.T) {
	for n := 0; ; n++ {
		root, err := os.MkdirTemp(filesystems["tmp"], "prefix-")
		check(t, err)
		w := busy(t, root)
		path, data := w.segment()
		if n == 0 && path == w.path(disk.StateDirName+"/journal-0000000000000002") {
			t.Fatal("the journal has not rotated")
		}
		cut, more := cutAt(data, n)
		check(t, os.WriteFile(path, data[:cut], 0o600))
		names := w.names()
		w.start()
		if _, err := w.s.Recover(); err != nil {
			t.Fatalf("%d of %d bytes: %v", cut, len(data), err)
		}
		_, err = w.s.Sweep(context.Background())
		check(t, err)
		for name := range names {
			if _, err := os.Lstat(name); err != nil {
				t.Errorf("%d of %d bytes: %v", cut, len(data), err)
			}
		}
		if f, half := w.read("d/f"), w.read("d/half"); f != "new" || half != "new" && cut == len(data) {
			t.Errorf("%d of %d bytes: %q, %q", cut, len(data), f, half)
		}
		w.checkNothingLeft()
		os.RemoveAll(root)
		if t.Failed() || !more {
			t.Logf("%d prefixes", n+1)
			return
		}
	}
}

// cutAt is the length of the prefix number n of a segment: to the end of a record,
// or into the middle of the next. What the segment began with is in each.
func cutAt(data []byte, n int) (cut int, more bool) {
	records := recordsOf(data)
	n += 2 * beginningOf(records)
	cut = 16
	for i, r := range records {
		if i < n/2 {
			cut += 20 + len(r)
		}
	}
	if n/2 < len(records) && n%2 == 1 {
		cut += (20 + len(records[n/2])) / 2
	}
	return cut, n < 2*len(records)
}

// beginningOf counts the records that a segment began with: without them no mount goes on.
func beginningOf(records [][]byte) (n int) {
	var start struct{ Carried int }
	if json.Unmarshal(records[0], &start) != nil {
		return 0
	}
	for n = 1; start.Carried > 0; n++ {
		if bytes.Contains(records[n], []byte(`"op":"begin"`)) {
			start.Carried--
		}
	}
	return n
}
