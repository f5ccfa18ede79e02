package journal

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func drawPart(t *rapid.T) Part {
	start := rapid.Int64Range(0, 60).Draw(t, "start")
	return Part{start, start + rapid.Int64Range(0, 12).Draw(t, "length")}
}

// Parts are compared with the set of their bytes.
func TestParts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var parts Parts
		var set [80]bool
		for range rapid.IntRange(0, 20).Draw(t, "adds") {
			add := drawPart(t)
			parts = parts.Add(add)
			for i := add.Start; i < add.End; i++ {
				set[i] = true
			}
		}
		if !parts.Proper(int64(len(set))) {
			t.Fatalf("%v", parts)
		}
		var n int64
		for i := range set {
			if set[i] {
				n++
			}
		}
		if parts.Bytes() != n {
			t.Fatalf("%v are %d bytes, not %d", parts, n, parts.Bytes())
		}
		in := drawPart(t)
		at := in.Start
		err := parts.Each(in, func(s Part, inside bool) error {
			if s.Start != at || s.End <= s.Start {
				t.Fatalf("%v of %v in %v, after %d", s, in, parts, at)
			}
			for at = s.Start; at < s.End; at++ {
				if set[at] != inside {
					t.Fatalf("%v: byte %d is inside: %v", parts, at, inside)
				}
			}
			return nil
		})
		if err != nil || at != in.End {
			t.Fatalf("%v of %v: up to %d, %v", in, parts, at, err)
		}
	})
}

func TestProperParts(t *testing.T) {
	for _, bad := range []Parts{{{-1, 2}}, {{3, 3}}, {{4, 2}}, {{0, 2}, {2, 3}}, {{5, 6}, {1, 2}}, {{5, 11}}} {
		if bad.Proper(10) {
			t.Errorf("%v of 10 bytes", bad)
		}
	}
	for _, good := range []Parts{nil, {{0, 10}}, {{0, 1}, {2, 10}}} {
		if !good.Proper(10) {
			t.Errorf("%v of 10 bytes is refused", good)
		}
	}
}

func TestPartsAreRead(t *testing.T) {
	for _, bad := range []string{`[1]`, `[1,2,3]`, `{}`, `"x"`, `[1,"x"]`} {
		if err := new(Part).UnmarshalJSON([]byte(bad)); err == nil {
			t.Errorf("%s is read", bad)
		}
	}
	in := Intent{Kind: KindInPlace, Parts: Parts{{0, 1}, {7, 1 << 40}}}
	w := in.wire()
	var got intentJSON
	if err := strict(w.appendTo(nil), &got); err != nil || !slices.Equal(got.intent(0).Parts, in.Parts) {
		t.Errorf("%+v, %v", got, err)
	}
}
