package locksdir

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"testing"
)

// withLongHistory has more versions than a history.jsonl has that is kept.
func withLongHistory() *fakeSource {
	f := newFake()
	for i := range 2 * maxHistoryText >> 10 {
		f.versions = append(f.versions, Version{
			Path: fmt.Sprintf("%s/%d", strings.Repeat("d", 1<<10), i), Number: 1, Time: noon,
			Event: "commit", FileUID: 1000, Mode: 0o644,
		})
	}
	return f
}

// A history.jsonl that is long is what its versions say, and neither those who look at it
// nor those who have it open make anybody keep it.
func TestLongHistoryIsNotKept(t *testing.T) {
	src := withLongHistory()
	var want []byte
	for i := range src.versions {
		want = src.versions[i].appendJSON(want)
	}
	tree := New(src)
	if got := read(t, tree, historyFile, root); !bytes.Equal(got, want) {
		t.Errorf("%d bytes are read, which are not the %d of all versions", len(got), len(want))
	}
	for _, l := range tree.histories {
		if len(l.text) > 0 {
			t.Errorf("%d bytes of a long history are kept", len(l.text))
		}
	}
	c, err := tree.Open(historyFile, root)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	s := c.(*historyStream)
	p := make([]byte, 10_000)
	for off := int64(0); off < int64(len(want)); off += int64(len(p)) {
		n, _ := c.ReadAt(p, off)
		if !bytes.Equal(p[:n], want[off:off+int64(n)]) {
			t.Fatalf("at %d is something else", off)
		}
		if most := 2*historyTail + len(p) + 4<<10; cap(s.tail) > 2*most {
			t.Fatalf("at %d there are %d bytes kept", off, cap(s.tail))
		}
	}
}

// Whoever goes back in a long history.jsonl, or forward, gets what is there.
func TestLongHistoryAnywhere(t *testing.T) {
	src := withLongHistory()
	tree := New(src)
	want := read(t, tree, historyFile, root)
	c, err := tree.Open(historyFile, root)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	p := make([]byte, 5000)
	for _, off := range []int{len(want) - 5000, len(want) - 9000, 1_000_000, 0, 1_500_001, 1_499_000, 7} {
		if n, err := c.ReadAt(p, int64(off)); n != len(p) || err != nil || !bytes.Equal(p, want[off:off+n]) {
			t.Errorf("at %d: %d bytes, %v, or others", off, n, err)
		}
	}
	if n, err := c.ReadAt(p, int64(len(want)-10)); n != 10 || err != io.EOF {
		t.Errorf("at the end: %d bytes, %v", n, err)
	}
	if _, err := c.ReadAt(p, -1); err == nil {
		t.Error("a negative offset can be read at")
	}
}
