package journal

import (
	"bytes"
	"errors"
	"os"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// realSegment makes a journal with records of every kind and returns the name
// and the content of its segment. The first half of it is known to be synced.
func realSegment(t testing.TB) (name string, data []byte) {
	t.Helper()
	o := newOpener(t)
	carried := o.open()
	must[uint64](t)(carried.Begin(fullIntent))
	log := must[uint64](t)(carried.Begin(appendIntent))
	check(t, carried.Append(log, Append{Offset: 100, Length: 20, CRC: 7}))
	j := o.open()
	check(t, j.Append(log, Append{Offset: 120, Length: 30, CRC: 1<<32 - 1}))
	check(t, j.Append(log, Append{Offset: 150}))
	a := must[uint64](t)(j.Begin(Intent{Kind: KindReplace, Dir: "d", Name: "f", Shadow: "s"}))
	must[uint64](t)(j.ReserveTokens(4096))
	must[uint64](t)(j.Begin(fullIntent))
	check(t, j.Done(a))
	check(t, j.Known(log, 120))
	check(t, j.Append(log, Append{Offset: 150, Length: 1 << 40, CRC: 8}))
	other := must[uint64](t)(j.Begin(appendIntent))
	check(t, j.Append(other, Append{Length: 9}))
	check(t, j.Done(other))
	quiet := must[uint64](t)(j.Begin(appendIntent))
	check(t, j.Append(quiet, Append{Offset: 100, Length: 9}))
	check(t, j.Known(quiet, 109))
	check(t, j.Settle())
	must[uint64](t)(j.Begin(Intent{Kind: KindShadow, Name: "g"}))
	check(t, j.Close())
	data, err := os.ReadFile(o.path(j.seg.name))
	check(t, err)
	return j.seg.name, data
}

// withSegment makes a state directory that holds just that segment.
func withSegment(t testing.TB, name string, data []byte) *opener {
	t.Helper()
	o := newOpener(t)
	check(t, os.WriteFile(o.path(name), data, 0o600))
	return o
}

func frames(t testing.TB, data []byte) []frame {
	t.Helper()
	var all []frame
	must[int64](t)(scan("", data, func(f frame) error { all = append(all, f); return nil }))
	return all
}

func TestEveryPrefixWithItsBeginningOpens(t *testing.T) {
	name, data := realSegment(t)
	all := frames(t, data)
	for n := range len(data) + 1 {
		o := withSegment(t, name, data[:n])
		var want state
		for _, f := range all {
			if f.end() <= int64(n) {
				check(t, want.apply(f.payload))
			}
		}
		if !want.started || want.carried > 0 { // its beginning was on disk before it got its name
			mustRefuse(t, o, n)
			continue
		}
		j, err := Open(o.dir, o.opts)
		if err != nil {
			t.Fatalf("the first %d bytes: %v", n, err)
		}
		got := map[uint64]Intent{}
		for _, in := range j.Pending() {
			got[in.ID] = in
		}
		if diff := cmp.Diff(want.open, got); diff != "" && len(want.open)+len(got) > 0 {
			t.Fatalf("the first %d bytes: pending: %s", n, diff)
		}
		for id := range want.open {
			if diff := cmp.Diff(want.tails[id], j.Appends(id), cmpopts.EquateEmpty()); diff != "" {
				t.Fatalf("the first %d bytes: appended under %d: %s", n, id, diff)
			}
		}
		if j.LastToken() < want.tokens {
			t.Fatalf("the first %d bytes: last token %d, had %d", n, j.LastToken(), want.tokens)
		}
		if clean := n == len(data); j.Clean() != clean {
			t.Fatalf("the first %d bytes: clean is %v", n, j.Clean())
		}
		check(t, j.Close())
	}
}

func TestCorruptionOfAnyByteIsRefused(t *testing.T) {
	name, data := realSegment(t)
	o := newOpener(t)
	for at := range data {
		for _, flip := range []byte{0x01, 0xff} {
			bad := slices.Clone(data)
			bad[at] ^= flip
			check(t, os.WriteFile(o.path(name), bad, 0o600))
			mustRefuse(t, o, at)
		}
	}
}

func mustRefuse(t *testing.T, o *opener, at int) {
	t.Helper()
	before := o.files()
	_, err := Open(o.dir, o.opts)
	var corrupt *CorruptError
	if !errors.As(err, &corrupt) || !errors.Is(err, ErrCorrupt) {
		t.Fatalf("damage at byte %d: %v", at, err)
	}
	if corrupt.Offset > int64(at) {
		t.Fatalf("damage at byte %d is reported at %d", at, corrupt.Offset)
	}
	if diff := cmp.Diff(before, o.files()); diff != "" {
		t.Fatalf("damage at byte %d: refused, but changed: %s", at, diff)
	}
}

func TestLostSectors(t *testing.T) {
	o := newOpener(t)
	j := o.open()
	var begun []uint64
	for range 30 {
		begun = append(begun, must[uint64](t)(j.Begin(fullIntent)))
		if len(begun) == 10 {
			check(t, j.Sync())
		}
	}
	data, err := os.ReadFile(o.path(j.seg.name))
	check(t, err)
	all := frames(t, data)
	synced := all[len(all)-1].synced
	if synced == 0 || synced == int64(len(data)) {
		t.Fatalf("synced up to %d of %d", synced, len(data))
	}
	for at := 0; at < len(data); at += sectorSize {
		bad := slices.Clone(data)
		end := min(at+sectorSize, len(bad))
		clear(bad[at:end])
		o := withSegment(t, j.seg.name, bad)
		if int64(at) < synced && int64(end) <= synced {
			mustRefuse(t, o, at)
			continue
		}
		if int64(at) < synced {
			continue // partly on disk: a sector is lost as a whole
		}
		intact := 0
		for _, f := range all {
			if f.end() <= int64(at) {
				intact++
			}
		}
		got := ids(o.open().Pending())
		if want := begun[:intact-1]; !slices.Equal(got, want) { // one is the start record
			t.Errorf("sector at %d lost: %d intents, want %d", at, len(got), len(want))
		}
	}
}

func TestForeignVersionIsRefused(t *testing.T) {
	b := appendHeader(nil)
	b[8] = 2
	mustRefuse(t, withSegment(t, segmentName(1), b), 8)
	b = appendFrame(appendHeader(nil), 0, []byte(`{"op":"start"}`))
	b = appendFrame(b, 0, []byte(`{"op":"teleport"}`))
	mustRefuse(t, withSegment(t, segmentName(1), b), len(b))
}

func TestImpossibleHistoriesAreRefused(t *testing.T) {
	for _, records := range [][]string{
		{`{"op":"done","id":1}`},
		{`{"op":"start"}`, `{"op":"start"}`},
		{`{"op":"start"}`, `{"op":"done","id":1}`},
		{`{"op":"start"}`, `{"op":"begin","id":1}`},
		{`{"op":"start"}`, `{"op":"append","id":1,"at":1,"len":1,"crc":1}`},
		{`{"op":"start"}`, `{"op":"known","id":1,"at":1}`},
		{`{"op":"start"}`, `{"op":"begin","id":1,"intent":{"kind":"shadow"}}`, `{"op":"append","id":1,"at":1,"len":1,"crc":1}`},
		{`{"op":"start"}`, `{"op":"begin","id":1,"intent":{"kind":"append"}}`, `{"op":"append","id":1,"at":-1,"len":1,"crc":1}`},
		{`{"op":"start"}`, `{"op":"begin","id":1,"intent":{"kind":"append"}}`, `{"op":"append","id":1,"at":9223372036854775807,"len":1,"crc":1}`},
		{`{"op":"start"}`, `{"op":"begin","id":1,"intent":{"kind":"shadow"}}`, `{"op":"begin","id":1,"intent":{"kind":"shadow"}}`},
		{`{"op":"start","tokens":5}`, `{"op":"tokens","tokens":4}`},
		{`{"op":"start"}`, `{"op":"close"} {"op":"close"}`},
		{`{"op":"start"}`, `{"op":"close","colour":"red"}`},
		{`{"op":"start"}`, `nonsense`},
	} {
		b := appendHeader(nil)
		for _, r := range records {
			b = appendFrame(b, 0, []byte(r))
		}
		mustRefuse(t, withSegment(t, segmentName(1), b), len(b))
	}
}

// FuzzScan feeds arbitrary bytes to the decoder: it must not fail otherwise
// than with a CorruptError, and what it calls intact must be exactly that.
func FuzzScan(f *testing.F) {
	_, data := realSegment(f)
	f.Add(data)
	f.Add(data[:len(data)-7])
	f.Add(append(slices.Clone(data[:100]), make([]byte, 600)...))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, data []byte) {
		var payloads [][]byte
		collect := func(f frame) error { payloads = append(payloads, f.payload); return nil }
		intact, err := scan("x", data, collect)
		if err != nil {
			if !errors.Is(err, ErrCorrupt) {
				t.Fatalf("unexpected error %v", err)
			}
			return
		}
		if intact > int64(len(data)) {
			t.Fatalf("%d of %d bytes intact", intact, len(data))
		}
		first := payloads
		payloads = nil
		again, err := scan("x", data[:intact], collect)
		if err != nil || again != intact || !slices.EqualFunc(first, payloads, bytes.Equal) {
			t.Fatalf("the intact part reads otherwise: %d, then %d, %v", intact, again, err)
		}
		var st state
		for _, p := range payloads {
			_ = st.apply(p) // must not panic
		}
	})
}

// FuzzReplay feeds arbitrary records to the replay: what it accepts must come
// out the same when a new segment begins with it.
func FuzzReplay(f *testing.F) {
	_, data := realSegment(f)
	var lines [][]byte
	for _, fr := range frames(f, data) {
		lines = append(lines, fr.payload)
	}
	f.Add(bytes.Join(lines, []byte("\n")))
	f.Fuzz(func(t *testing.T, data []byte) {
		var st state
		for line := range bytes.SplitSeq(data, []byte("\n")) {
			if st.apply(line) != nil {
				return
			}
		}
		var again state
		if _, err := scan("x", st.appendTo(appendHeader(nil)), func(f frame) error { return again.apply(f.payload) }); err != nil {
			t.Fatal(err)
		}
		// A new segment is a running daemon's, and it has all that it says.
		st.started, st.running, st.carried = true, true, 0
		if diff := cmp.Diff(st, again, cmp.AllowUnexported(state{}), cmpopts.EquateEmpty()); diff != "" {
			t.Fatal(diff)
		}
	})
}

// FuzzIntent checks that any names survive a record.
func FuzzIntent(f *testing.F) {
	f.Add("d", "n\xff", "d2", ".latchfs-x", uint64(1))
	f.Fuzz(func(t *testing.T, dir, name, shadowDir, shadow string, token uint64) {
		in := Intent{Kind: KindReplace, Dir: dir, Name: name, ShadowDir: shadowDir, Shadow: shadow, Token: token}
		var st state
		check(t, st.apply([]byte(`{"op":"start"}`)))
		w := in.wire()
		check(t, st.apply(record{Op: "begin", ID: 1, Intent: &w}.encode()))
		in.ID = 1
		if st.open[1] != in {
			t.Fatalf("%+v became %+v", in, st.open[1])
		}
	})
}
