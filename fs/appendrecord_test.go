package fs

import (
	"hash/crc32"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// What stands behind a record that was taken out is found where it stands now, and what
// is too old to tell is left alone.
func TestGapsBeforeARecord(t *testing.T) {
	var g gaps
	key, other := inoKey{1, 2}, inoKey{1, 3}
	o := openRecord{key: key, gaps: g.last(), pieces: []piece{{start: 10, end: 14}, {start: 30, end: 35}, {start: 60, end: 61}}}
	g.add(key, []piece{{start: 0, end: 10}, {start: 20, end: 30}, {start: 90, end: 95}})
	g.add(other, []piece{{start: 0, end: 10}})
	want := []piece{{start: 0, end: 4}, {start: 10, end: 15}, {start: 40, end: 41}}
	for range 2 {
		if !g.follow(&o) || !slices.Equal(o.pieces, want) {
			t.Errorf("the record is at %v, want %v", o.pieces, want)
		}
	}
	for range maxGaps + 1 {
		g.add(other, []piece{{start: 0, end: 1}})
	}
	if g.follow(&o) || len(g.list) > maxGaps {
		t.Errorf("%d gaps are remembered, and a record is found behind %d", len(g.list), maxGaps+1)
	}
}

// A record is taken out only as it was written.
func TestRecordThatHasChanged(t *testing.T) {
	name := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(name, []byte("line\nhalf-line\nother\nmore"), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	sum := func(s string) uint32 { return crc32.Checksum([]byte(s), castagnoli) }
	o := openRecord{pieces: []piece{{5, 10, sum("half-")}, {21, 25, sum("more")}}}
	if got := string(o.content(int(f.Fd()))); got != "half-more" {
		t.Errorf("the record is %q", got)
	}
	out, err := os.Create(name + "2")
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	if err := copyWithout(int(out.Fd()), int(f.Fd()), 25, o.pieces); err != nil {
		t.Fatal(err)
	}
	if got, _ := os.ReadFile(name + "2"); string(got) != "line\nline\nother\n" {
		t.Errorf("without it the file is %q", got)
	}
	if _, err := f.WriteAt([]byte("HALF"), 5); err != nil {
		t.Fatal(err)
	}
	if got := o.content(int(f.Fd())); got != nil {
		t.Errorf("a record of other bytes is %q", got)
	}
	o.pieces[1].end = 90
	if got := o.content(int(f.Fd())); got != nil {
		t.Errorf("a record behind the end is %q", got)
	}
}
