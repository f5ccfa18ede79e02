package ctl

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"latchfs/lockmgr"
)

// A thief waits for a holder that is about to finish what it has the lock for, as long as that
// is soon, and takes nothing away from it meanwhile.
func TestThiefWaitsForWork(t *testing.T) {
	for _, c := range []struct {
		what         string
		tries        int  // after which the holder is not at work any more
		ends         bool // and gives the lock back
		want, events string
		took         time.Duration
	}{
		{"it goes on", 3, false, `{"ok":true,"stolen":1}`, "event: stolen from holder by root\n", 3 * workPoll},
		{"it has finished", 3, true, `{"ok":true}`, "", 2 * workPoll},
		{"it does not finish", 1 << 20, false, `"error":"lock_blocked"`, "", workPatience},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := newStage()
			defer s.leave(t)
			holder, _ := s.talk("holder", 10, 1000)
			ask(t, holder, `{"op":"acquire","paths":["f"]}`)
			tries := 0
			s.atWork = func(h *lockmgr.Holder) bool {
				if tries++; tries == c.tries && c.ends {
					s.Table.Release(h.Lock)
				}
				return tries <= c.tries
			}
			thief, _ := s.talk("root", 11, 0)
			s.told()
			began := time.Now()
			ask(t, thief, `{"op":"steal","paths":["f"],"force":true}`)
			if took := time.Since(began); took != c.took {
				t.Errorf("%s: the thief has waited %v, want %v", c.what, took, c.took)
			}
			if got := answers(thief); !strings.Contains(got, c.want) {
				t.Errorf("%s: the thief is told %s", c.what, got)
			}
			if got := s.told(); got != c.events {
				t.Errorf("%s: %q is told, want %q", c.what, got, c.events)
			}
		})
	}
}
