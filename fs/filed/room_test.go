package filed

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"latchfs/lockmgr/policy/lockfile"
)

var (
	beadsRule    = lockfile.Convention{Format: lockfile.Beads, OnStale: lockfile.RemoveStale, Malformed: lockfile.MalformedLocked}
	clawdbotRule = lockfile.Convention{
		Format: lockfile.Clawdbot, TTL: 30 * time.Second, ForeignTTL: 10 * time.Second,
		OnStale: lockfile.RemoveStale, Malformed: lockfile.MalformedFree,
	}
	lockV1Rule   = lockfile.Convention{Format: lockfile.LockV1, TTL: 15 * time.Minute, OnStale: lockfile.KeepStale, Malformed: lockfile.MalformedLocked}
	ownerDirRule = lockfile.Convention{Format: lockfile.OwnerDir, TTL: 5 * time.Minute, OnStale: lockfile.RemoveStale, Malformed: lockfile.MalformedLocked}
)

// Of two records with different identities the second is refused, also where both come from
// one family; the same one goes on; and when the file is gone the next one has the claim.
func TestOneHasTheClaim(t *testing.T) {
	onStage(t, func(s *stage) {
		s.start(1, 2, 10)
		a, b := s.filing(beadsRule, beads("a", 1), 1, 10), s.filing(beadsRule, beads("b", 2), 2, 10)
		if err := s.room.May(a); err != nil {
			t.Error(err)
		}
		s.file(a)
		s.want("a claims", "a: 1 holds")
		var held *HeldError
		if err := s.room.May(b); !errors.As(err, &held) || held.Line != "Skipping database (locked by a)" {
			t.Errorf("b may claim: %v", err)
		}
		if err := s.room.May(a); err != nil {
			t.Errorf("a may not go on: %v", err)
		}
		s.file(a)
		s.want("a writes again", "a goes on")
		s.room.Gone("f")
		s.want("the file is removed", "a gives back")
		if err := s.room.May(b); err != nil || s.room.Count() != 0 {
			t.Errorf("%d claims, and b is told %v", s.room.Count(), err)
		}
		s.file(b)
		s.want("b claims", "b: 2 holds")
		if s.left["f"] != 2 {
			t.Errorf("the place was given back %d times by a's two versions", s.left["f"])
		}
	})
}

// A claim that is refused its lock claims nothing, and is no obstacle.
func TestRefusedClaim(t *testing.T) {
	onStage(t, func(s *stage) {
		s.start(1)
		s.deny = errDenied
		if err := s.room.File(s.filing(beadsRule, beads("a", 1), 1)); !errors.Is(err, errDenied) {
			t.Error(err)
		}
		if s.room.Count() != 0 || s.left["f"] != 1 || s.room.Has("f") {
			t.Errorf("%d claims, left %d times", s.room.Count(), s.left["f"])
		}
	})
}

// Where the record's process has the claim, its end makes that stale, and the file goes.
func TestDeadProcess(t *testing.T) {
	onStage(t, func(s *stage) {
		s.start(1, 10)
		s.file(s.filing(beadsRule, beads("a", 1), 1, 10))
		s.want("claimed", "a: 1 holds")
		s.end(1, 0)
		s.want("its process is dead", "log: Removed stale lock (a), proceeding with sync", "stale_claim_removed", "a gives back", "removes f")
		s.file(s.filing(beadsRule, beads("b", 99), 10))
		s.want("the process in the record never lived",
			"b: 99 holds", "log: Removed stale lock (b), proceeding with sync", "stale_claim_removed", "b gives back", "removes f")
	})
}

// A command that has done its work leaves the claim to its caller; a holder that was killed,
// or has lived on with the claim, leaves it to nobody.
func TestWhoHoldsItNext(t *testing.T) {
	for name, end := range map[string]func(s *stage){
		"killed":          func(s *stage) { s.end(2, 9) },
		"lived on":        func(s *stage) { time.Sleep(commandFor + time.Second); s.end(2, 0) },
		"killed together": func(s *stage) { s.end(3, 9); s.end(2, 9) },
	} {
		t.Run(name, func(t *testing.T) {
			onStage(t, func(s *stage) {
				s.start(1, 2, 3)
				s.file(s.filing(ownerDirRule, "w", 1, 2, 3))
				s.want("claimed", "w: 1 holds")
				s.end(1, 0)
				s.want("the command has ended", "w: 2 holds")
				end(s)
				s.want("the holder has ended")
				time.Sleep(ownerDirRule.TTL - time.Second)
				s.want("a moment before it is stale")
				time.Sleep(2 * time.Second)
				s.want("stale", "log: Reclaimed lock of w: its session has ended, without a sign of life for 300s (>300s)",
					"stale_claim_removed", "w gives back", "removes f")
			})
		})
	}
}

// A command that has failed leaves the claim to its caller, too, who may remove it.
func TestFailedCommand(t *testing.T) {
	onStage(t, func(s *stage) {
		s.start(1, 2)
		s.file(s.filing(ownerDirRule, "w", 1, 2))
		s.end(1, 1<<8)
		s.want("it has ended with 1", "w: 1 holds", "w: 2 holds")
	})
}

// A claim that nobody has any more is ended by whoever removes its file; one whose holder
// lives is not.
func TestOrphan(t *testing.T) {
	onStage(t, func(s *stage) {
		s.start(1)
		s.file(s.filing(ownerDirRule, "w", 1))
		held := s.room.at["f"].held
		if s.room.Disown("f"); s.room.IsOrphaned(held) {
			t.Error("its holder lives")
		}
		s.want("claimed", "w: 1 holds")
		s.end(1, 9)
		if !s.room.IsOrphaned(held) {
			t.Error("its holder is dead")
		}
		s.room.Disown("f")
		s.want("somebody removes it", "w gives back")
	})
}

// The same record under another name, or below another directory, is another claim.
func TestAnotherTarget(t *testing.T) {
	onStage(t, func(s *stage) {
		s.start(1)
		s.file(s.filing(ownerDirRule, "w", 1))
		f := s.filing(ownerDirRule, "w", 1)
		f.Target.Paths = []string{"g"}
		s.file(f)
		s.want("what it stands for is another", "w: 1 holds", "w: 1 holds", "w gives back")
	})
}

// Who meets the claim of a holder that has just died waits until it is another one's.
func TestPassOn(t *testing.T) {
	onStage(t, func(s *stage) {
		s.start(1, 2)
		s.file(s.filing(ownerDirRule, "w", 1, 2))
		held := s.room.at["f"].held
		if s.room.PassOn(held) {
			t.Error("the holder lives")
		}
		s.mu.Lock()
		p := s.procs[1]
		delete(s.procs, 1) // dead, and nobody has been told
		s.mu.Unlock()
		go func() {
			time.Sleep(passGrace / 2)
			close(p.dead)
		}()
		if !s.room.PassOn(held) || s.held[held] != s.owner(2) {
			t.Errorf("%v has it", s.held[held])
		}
	})
}

// The lease of a lock/v1 record ends by its heartbeats, whoever lives; a heartbeat begins
// it anew; and it is kept until somebody forces it.
func TestHeartbeats(t *testing.T) {
	onStage(t, func(s *stage) {
		s.start(1)
		s.file(s.filing(lockV1Rule, lockV1("r", time.Now()), 1))
		held := s.room.at["f"].held
		inForce := func(when string, want bool) {
			t.Helper()
			synctest.Wait()
			if timed, is := s.room.IsTimed(held); !timed || is != want || s.room.Has("f") != want {
				t.Errorf("%s: timed %v, in force %v", when, timed, is)
			}
		}
		time.Sleep(59 * time.Second)
		inForce("before the end of its ttl", true)
		s.file(s.filing(lockV1Rule, lockV1("r", time.Now()), 1))
		time.Sleep(59 * time.Second)
		inForce("after a heartbeat", true)
		s.want("so far", "r: 1 holds", "r goes on")
		if err := s.room.May(s.filing(lockV1Rule, lockV1("q", time.Now()), 1)); err == nil {
			t.Error("another request replaces one that is in force")
		}
		time.Sleep(2 * time.Second)
		inForce("after its ttl", false)
		s.want("stale", "r expires", "heartbeat_failed")
		if err := s.room.May(s.filing(lockV1Rule, lockV1("q", time.Now()), 1)); err != nil {
			t.Errorf("a stale one is not replaced: %v", err)
		}
		s.file(s.filing(lockV1Rule, lockV1("r", time.Now()), 1))
		inForce("a late heartbeat", true)
	})
}

// A holder that hangs loses the claim with its file, and writes nothing until it claims
// anew; one that shows life does not, however old the claim is.
func TestHangingHolder(t *testing.T) {
	onStage(t, func(s *stage) {
		s.start(1, 2)
		s.file(s.filing(clawdbotRule, clawdbot("S", 1), 1))
		first := s.room.at["f"].held
		for range 10 {
			time.Sleep(20 * time.Second)
			s.mu.Lock()
			s.beats[first] = time.Now()
			s.mu.Unlock()
		}
		s.want("it shows life for 200 s", "S: 1 holds")
		time.Sleep(31 * time.Second)
		s.want("it hangs", "log: Breaking stale lock: lock is 230.0s old, without progress for 30.0s (>30s)", "stale_claim_removed",
			"S expires", "S is revoked", "removes f")
		if s.room.Count() != 1 {
			t.Error("nobody fences the old holder off")
		}
		s.file(s.filing(clawdbotRule, clawdbot("T", 2), 2))
		s.want("another one claims", "T: 2 holds")
		s.room.Gone("f")
		s.file(s.filing(clawdbotRule, clawdbot("S", 1), 1))
		s.want("the old holder claims anew", "T gives back", "S: 1 holds", "S gives back")
		if s.held[first] != s.owner(0) && s.room.Count() != 1 {
			t.Errorf("%d claims", s.room.Count())
		}
	})
}

// The fence of a lost claim falls when its holder is dead.
func TestLostAndDead(t *testing.T) {
	onStage(t, func(s *stage) {
		s.start(1)
		s.file(s.filing(lockV1Rule, lockV1("r", time.Now()), 1))
		s.room.Lost(s.room.at["f"].held)
		s.want("stolen by force", "r: 1 holds", "removes f")
		s.end(1, 9)
		s.want("its holder is dead", "r gives back")
		if s.room.Count() != 0 {
			t.Errorf("%d claims", s.room.Count())
		}
	})
}

// A claim that is given back by hand takes its file along.
func TestRelease(t *testing.T) {
	onStage(t, func(s *stage) {
		s.start(1)
		s.file(s.filing(beadsRule, beads("a", 1), 1))
		held := s.room.at["f"].held
		if p := s.room.FileOf(held); p != "f" || !s.room.Release(held) {
			t.Errorf("its file is %v, or it was not released", p)
		}
		s.want("released", "a: 1 holds", "a gives back", "removes f")
		if s.room.Count() != 0 || s.room.Release(held) {
			t.Errorf("%d claims", s.room.Count())
		}
	})
}

// A stale file that somebody has open is removed later; a new claim ends that.
func TestRemoveAgain(t *testing.T) {
	onStage(t, func(s *stage) {
		s.start(1, 2)
		s.busy = 3
		s.file(s.filing(beadsRule, beads("a", 1), 1))
		s.end(1, 9)
		time.Sleep(time.Minute)
		s.want("busy three times", "a: 1 holds", "log: Removed stale lock (a), proceeding with sync", "stale_claim_removed", "a gives back",
			"f is busy", "f is busy", "f is busy", "removes f")
		s.start(1)
		s.mu.Lock()
		s.busy = 1000
		s.mu.Unlock()
		s.file(s.filing(beadsRule, beads("a", 1), 1))
		s.end(1, 9)
		s.file(s.filing(beadsRule, beads("b", 2), 2))
		time.Sleep(time.Minute)
		s.want("another one claims", "a: 1 holds", "log: Removed stale lock (a), proceeding with sync", "stale_claim_removed", "a gives back",
			"f is busy", "b: 2 holds")
	})
}

// Who has met the claim of a command that had ended, and asks after that was passed on, is
// told that it is another one's.
func TestPassed(t *testing.T) {
	onStage(t, func(s *stage) {
		s.start(1, 2)
		s.file(s.filing(ownerDirRule, "w", 1, 2))
		held := s.room.at["f"].held
		if s.room.Passed(held, s.owner(1)) {
			t.Error("nobody has passed it on")
		}
		s.end(1, 0)
		if !s.room.Passed(held, s.owner(1)) || s.room.Passed(held, s.owner(2)) {
			t.Error("it was passed on by 1, and by nobody else")
		}
	})
}

// Nobody removes the file of a claim that has come to the place of a stale one.
func TestMayRemove(t *testing.T) {
	onStage(t, func(s *stage) {
		s.start(1, 2)
		s.file(s.filing(lockV1Rule, lockV1("r", time.Now()), 1))
		if s.room.MayRemove("f") == nil {
			t.Error("a claim in force may be removed")
		}
		held := s.room.at["f"].held
		s.room.mu.Lock()
		s.room.lost[s.room.of[held]] = struct{}{}
		s.room.of[held].removing = true
		s.room.mu.Unlock()
		s.file(s.filing(lockV1Rule, lockV1("q", time.Now()), 2))
		if s.room.MayRemove("f") == nil {
			t.Error("the next claim may be removed")
		}
	})
}

// After a restart the processes that were noted have the claims; where the one that the
// record names was started after that was written, it is another one.
func TestRestored(t *testing.T) {
	onStage(t, func(s *stage) {
		s.start(1, 2)
		f := s.filing(beadsRule, beads("a", 1))
		f.Restored, f.Chain = true, nil
		s.file(f)
		s.want("its process lives", "a: 1 holds")
		s.room.Gone("f")
		s.want("it is given back", "a gives back")
		f.Made = time.Now().Add(-time.Minute)
		s.file(f)
		s.want("its process is younger", "a: 1 holds", "log: Removed stale lock (a), proceeding with sync", "stale_claim_removed",
			"a gives back", "removes f")
		f = s.filing(ownerDirRule, "w", 2)
		f.Restored, f.By = true, &caller{}
		s.file(f)
		s.want("a process that was noted", "w: 2 holds")
	})
}
