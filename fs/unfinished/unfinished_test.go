package unfinished

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

var (
	here  = File{1, 2}
	there = File{1, 3}
	noon  = time.Unix(43200, 0)
)

// places are the pieces of a record: "10-14 30-35".
func (r *Record) places() string {
	var all []string
	for _, p := range r.pieces {
		all = append(all, fmt.Sprintf("%d-%d", p.start, p.end))
	}
	return strings.Join(all, " ")
}

// at is a record of pieces, by their beginnings and ends.
func at(f File, g *Gaps, ends ...int64) Record {
	r := Record{file: f, gaps: g.last()}
	for i := 0; i < len(ends); i += 2 {
		r.pieces = append(r.pieces, piece{start: ends[i], end: ends[i+1]})
	}
	return r
}

// What is appended goes on with a line, or begins another one.
func TestAdd(t *testing.T) {
	type write struct {
		after time.Duration
		file  File
		end   int64
		text  string
	}
	long := strings.Repeat("x", MaxSize-1)
	for what, c := range map[string]struct {
		writes []write
		want   string
	}{
		"one piece":             {[]write{{0, here, 10, "abc"}}, "7-10"},
		"pieces side by side":   {[]write{{0, here, 10, "abc"}, {0, here, 12, "de"}}, "7-12"},
		"with another's line":   {[]write{{0, here, 10, "abc"}, {0, here, 22, "de"}}, "7-10 20-22"},
		"behind whole lines":    {[]write{{0, here, 10, "line\nab"}}, "8-10"},
		"the next line":         {[]write{{0, here, 10, "abc"}, {0, here, 20, "def\ngh"}}, "18-20"},
		"in another file":       {[]write{{0, here, 10, "abc"}, {0, there, 12, "de"}}, "10-12"},
		"soon":                  {[]write{{0, here, 10, "abc"}, {Pause - 1, here, 12, "de"}}, "7-12"},
		"after a pause":         {[]write{{0, here, 10, "abc"}, {Pause, here, 12, "de"}}, "10-12"},
		"each time soon":        {[]write{{0, here, 10, "abc"}, {Pause - 1, here, 12, "de"}, {Pause - 1, here, 13, "f"}}, "7-13"},
		"as long as it may be":  {[]write{{0, here, MaxSize - 1, long}, {0, here, MaxSize, "x"}}, fmt.Sprintf("0-%d", MaxSize)},
		"longer than it may be": {[]write{{0, here, MaxSize - 1, long}, {0, here, MaxSize + 1, "xx"}}, fmt.Sprintf("%d-%d", MaxSize-1, MaxSize+1)},
	} {
		var r Record
		var g Gaps
		now := noon
		if !r.IsNone() {
			t.Error("the zero record is one")
		}
		for _, w := range c.writes {
			now = now.Add(w.after)
			r.Add(now, w.file, w.end, []byte(w.text), &g)
		}
		if got := r.places(); got != c.want || r.IsNone() {
			t.Errorf("%s: %s, want %s", what, got, c.want)
		}
		if last := c.writes[len(c.writes)-1]; !r.IsIn(last.file) || r.IsIn(File{9, 9}) {
			t.Errorf("%s: it is in another file", what)
		}
	}
}

// A line of too many pieces is another one.
func TestManyPieces(t *testing.T) {
	var r Record
	var g Gaps
	for i := range int64(maxPieces) {
		r.Add(noon, here, 10*i+10, []byte("x"), &g)
	}
	if len(r.pieces) != maxPieces {
		t.Errorf("%d pieces", len(r.pieces))
	}
	r.Add(noon, here, 1<<20, []byte("x"), &g)
	if len(r.pieces) != 1 {
		t.Errorf("%d pieces", len(r.pieces))
	}
}

func TestAtEnd(t *testing.T) {
	var g Gaps
	one, two, none := at(here, &g, 5, 9), at(here, &g, 1, 3, 5, 9), Record{}
	if start, ok := one.AtEnd(9); !ok || start != 5 {
		t.Errorf("it begins at %d, %v", start, ok)
	}
	for _, r := range []*Record{&two, &none} {
		if _, ok := r.AtEnd(9); ok {
			t.Errorf("%q is the end of the file", r.places())
		}
	}
	if _, ok := one.AtEnd(10); ok {
		t.Error("something stands behind it")
	}
}

// What stands behind a record that was taken out is found where it stands now, and what
// is too old to tell is left alone.
func TestFollow(t *testing.T) {
	var g Gaps
	r := at(here, &g, 10, 14, 30, 35, 60, 61)
	out, other, far := at(here, &g, 0, 10, 20, 30, 90, 95), at(there, &g, 0, 10), at(there, &g, 0, 1)
	g.Add(&out)
	g.Add(&other)
	for range 2 {
		if got := r.places(); !g.Follow(&r) || r.places() != "0-4 10-15 40-41" {
			t.Errorf("the record is at %s, was at %s", r.places(), got)
		}
	}
	for range maxGaps + 1 {
		g.Add(&far)
	}
	if g.Follow(&r) || len(g.list) > maxGaps {
		t.Errorf("%d gaps are remembered, and a record is found behind %d", len(g.list), maxGaps+1)
	}
	// One that cannot be followed begins anew.
	r.Add(noon, here, 100, []byte("x"), &g)
	if r.places() != "99-100" || !g.Follow(&r) {
		t.Errorf("the next record is at %s", r.places())
	}
}

// open makes a file.
func open(t *testing.T, text string) (name string, fd int) {
	t.Helper()
	name = filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return name, int(f.Fd())
}

func write(t *testing.T, fd int, at int64, text string) {
	t.Helper()
	if _, err := unix.Pwrite(fd, []byte(text), at); err != nil {
		t.Fatal(err)
	}
}

// A record is taken out only as it was written.
func TestContent(t *testing.T) {
	_, fd := open(t, "line\nhalf-line\nother\nmore")
	name, out := open(t, "something longer than what comes, which goes away")
	var r Record
	var g Gaps
	r.Add(noon, here, 10, []byte("half-"), &g)
	r.Add(noon, here, 25, []byte("more"), &g)
	if got := string(r.Content(fd)); got != "half-more" {
		t.Errorf("the record is %q", got)
	}
	if err := r.CopyRest(out, fd, 25); err != nil {
		t.Fatal(err)
	}
	if got, _ := os.ReadFile(name); string(got) != "line\nline\nother\n" {
		t.Errorf("without it the file is %q", got)
	}
	if err := r.CopyRest(out, fd, 90); err != unix.EIO {
		t.Errorf("of a file that was cut: %v", err)
	}
	write(t, fd, 5, "HALF")
	if got := r.Content(fd); got != nil {
		t.Errorf("a record of other bytes is %q", got)
	}
	write(t, fd, 5, "half")
	if err := unix.Ftruncate(fd, 24); err != nil {
		t.Fatal(err)
	}
	if got := r.Content(fd); got != nil {
		t.Errorf("a record behind the end is %q", got)
	}
}

// Several programs append pieces of lines to one file at random, some finish theirs, and
// some are killed: what is taken out is the unfinished line of whoever was killed, and the
// rest stays as it is.
func TestManyWriters(t *testing.T) {
	for seed := range uint64(15) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		name, fd := open(t, "")
		var g Gaps
		var text []byte // who has written each byte of the file
		var by []int
		records := make([]Record, 4)
		opened := make([]string, 4)
		for range 60 {
			w := rnd.IntN(4)
			switch r := &records[w]; rnd.IntN(6) {
			case 0: // killed
				if !g.Follow(r) || string(r.Content(fd)) != opened[w] {
					t.Fatalf("seed %d: the record of %d is %q, want %q", seed, w, r.Content(fd), opened[w])
				}
				to, out := open(t, "")
				if err := r.CopyRest(out, fd, int64(len(text))); err != nil {
					t.Fatal(err)
				}
				g.Add(r)
				rest, restBy := []byte{}, []int{}
				for i := range text {
					if by[i] != w {
						rest, restBy = append(rest, text[i]), append(restBy, by[i])
					}
				}
				if got, _ := os.ReadFile(to); string(got) != string(rest) {
					t.Fatalf("seed %d: without the record of %d the file is %q, want %q", seed, w, got, rest)
				}
				text, by = rest, restBy
				name, fd = to, out
				*r, opened[w] = Record{}, ""
			case 1: // its line ends
				for i := range by {
					if by[i] == w {
						by[i] = -1
					}
				}
				text, by = append(text, '\n'), append(by, -1)
				*r, opened[w] = Record{}, ""
			default:
				part := strings.Repeat(string(rune('a'+w)), 1+rnd.IntN(4))
				text, by = append(text, part...), append(by, slices.Repeat([]int{w}, len(part))...)
				opened[w] += part
				r.Add(noon, here, int64(len(text)), []byte(part), &g)
			}
			if err := os.WriteFile(name, text, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
}
