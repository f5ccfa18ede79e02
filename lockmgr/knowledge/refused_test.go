package knowledge

import (
	"testing"
	"time"

	"latchfs/lockmgr"
)

// A library that tries again until it is let through does not insist, unless it has tried for a
// minute; whoever pauses for a second does.
func TestWhoTriesAgainAndAgain(t *testing.T) {
	mine, other := Who{Self: lockmgr.Owner{PID: 1, Start: 1}}, Who{Self: lockmgr.Owner{PID: 2, Start: 1}}
	begin := time.Unix(100, 0)
	for name, c := range map[string]struct{ each, pause, after time.Duration }{
		"at once":         {0, time.Second, time.Second},
		"in short steps":  {50 * time.Millisecond, 0, time.Minute},
		"in longer steps": {900 * time.Millisecond, 0, time.Minute + 300*time.Millisecond},
		"and pauses":      {50 * time.Millisecond, 1100 * time.Millisecond, 1100 * time.Millisecond},
		"each second":     {time.Second, 0, time.Second},
	} {
		x, now := New(fade), begin
		x.Track("f", Stamp{Ino: 1})
		x.Saw(now, "f", Stamp{Ino: 1}, mine)
		x.Changed(now, "f", Stamp{Ino: 2}, other, Author{})
		for {
			b := x.Check(now, "f", Stamp{Ino: 2}, []lockmgr.Owner{mine.Self}, fade, Readers)
			if !b.Stale {
				t.Fatalf("%s: %+v", name, b)
			}
			if b.Insists {
				break
			}
			x.Refused(now, &b, mine.Self, false)
			now = now.Add(max(c.each, c.pause))
		}
		if got := now.Sub(begin); got != c.after {
			t.Errorf("%s: it insists after %v, want %v", name, got, c.after)
		}
	}
}
