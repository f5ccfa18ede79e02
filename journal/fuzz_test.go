package journal

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// FuzzOpen opens any bytes as a segment: it is refused with a CorruptError and
// nothing is changed, or it can be used and says the same after a restart. Check
// says beforehand which, and Renew makes it usable in any case.
func FuzzOpen(f *testing.F) {
	name, data := realSegment(f)
	f.Add(data)
	f.Add(data[:len(data)-9])
	flipped := slices.Clone(data)
	flipped[len(flipped)/2] ^= 1
	f.Add(flipped)
	f.Add(append(slices.Clone(data[:200]), make([]byte, 700)...))
	f.Add(data[headerSize:])
	f.Add(newerHeader())
	f.Fuzz(func(t *testing.T, data []byte) {
		o := withSegment(t, name, data)
		c := mustCheck(t, o)
		before := o.files()
		j, err := Open(o.dir, o.opts)
		if err != nil {
			if !errors.Is(err, ErrCorrupt) || !c.Corrupt {
				t.Fatalf("%v; Check has found %q", err, kinds(c))
			}
			if diff := cmp.Diff(before, o.files()); diff != "" {
				t.Fatalf("refused, but changed: %s", diff)
			}
			renewAny(t, o, c)
			return
		}
		if c.Corrupt || c.Clean != j.Clean() || !slices.Equal(ids(c.Pending), ids(j.Pending())) {
			t.Fatalf("clean %v, pending %v; Check has found %+v", j.Clean(), ids(j.Pending()), c)
		}
		if _, err := j.ReserveTokens(1); err != nil {
			t.Fatal(err)
		}
		tokens := j.LastToken()
		again := o.open() // the first one has crashed
		if again.LastToken() != tokens || !slices.Equal(ids(again.Pending()), ids(j.Pending())) {
			t.Fatalf("tokens %d and then %d, pending %v and then %v", tokens, again.LastToken(), ids(j.Pending()), ids(again.Pending()))
		}
	})
}

func renewAny(t *testing.T, o *opener, c *Checked) {
	t.Helper()
	aside, err := c.Renew(o.dir)
	if c.Foreign {
		if err == nil {
			t.Fatal("another version's journal is replaced")
		}
		return
	}
	check(t, err)
	j := o.open()
	defer j.Close()
	if j.LastToken() < c.tokens || len(j.Pending()) > 0 || j.Clean() {
		t.Fatalf("tokens up to %d were readable, and the new journal begins with %d", c.tokens, j.LastToken())
	}
	if _, err := os.Stat(filepath.Join(o.dir.Name(), aside)); err != nil {
		t.Fatal(err)
	}
}
