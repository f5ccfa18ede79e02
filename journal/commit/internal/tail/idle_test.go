package tail

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

// A timer may ring and come to its mutex only after the file was appended to and closed once
// more. It does not end the new rest then.
func TestExpiryOfAnEarlierRest(t *testing.T) {
	s := New(nil, nil)
	s.Linger = time.Hour
	f, err := os.Create(filepath.Join(t.TempDir(), "log"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	use := func() (tl *Tail, rest uint64) {
		tl, err := s.Open(Options{FD: int(f.Fd()), Name: "log"})
		if err != nil {
			t.Fatal(err)
		}
		tl.begun.Store(true) // as the first Append does
		tl.Close()
		return tl, tl.rests
	}
	tl, earlier := use()
	_, later := use()
	tl.expire(earlier)
	if n := s.Count(); n != 1 {
		t.Errorf("%d tails after the expiry of an earlier rest, want 1", n)
	}
	tl.expire(later)
	if n := s.Count(); n != 0 {
		t.Errorf("%d tails after the expiry of the last rest, want none", n)
	}
}
