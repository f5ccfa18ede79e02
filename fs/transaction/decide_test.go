package transaction

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"

	"latchfs/journal/commit"
	"latchfs/lockmgr"
)

var errDisk = errors.New("the disk fails")

func TestCommit(t *testing.T) {
	s := full(t)
	if err := s.Commit(); err != nil {
		t.Fatal(err)
	}
	s.want("judge in place", "judge saved", "judge clean", "hold paths", "last files",
		"lock in place", "lock saved", "lock clean",
		"has lock", "check in place", "check saved", "check clean",
		"prepare saved", "prepare removed", "prepare in place",
		"mark in place", "mark saved", "mark clean", "mark renamed", "store commits",
		"tell removed", "tell replaced", "tell made", "end in place", "end saved", "end clean",
		"unlock in place", "unlock saved", "unlock clean",
		"follow renamed", "show removed", "show replaced", "show made", "ended", "release paths")
	s.wantCommitted(nil)
	if s.ended[0].Removed != 2 {
		t.Errorf("%d names were removed, want 2", s.ended[0].Removed)
	}
}

func TestRollback(t *testing.T) {
	s := full(t)
	s.Rollback("as asked for")
	s.want("last files", "lock in place", "lock saved", "lock clean",
		"roll back in place", "roll back saved", "roll back clean", "store rolls back",
		"unlock in place", "unlock saved", "unlock clean",
		"show removed", "show replaced", "show made", "ended")
	s.wantRolledBack("as asked for")
	if s.ended[0].Removed != 2 {
		t.Errorf("%d names were removed, want 2", s.ended[0].Removed)
	}
}

// Whoever objects, at whatever step, objects for all: nothing is published and nothing told.
func TestEachErrorRollsBack(t *testing.T) {
	for step, reason := range map[string]string{
		"judge in place":   "in place: the disk fails",
		"judge saved":      "saved: the disk fails",
		"judge clean":      "clean: the disk fails",
		"check in place":   "in place: the disk fails",
		"check saved":      "saved: the disk fails",
		"check clean":      "clean: the disk fails",
		"prepare saved":    "saved: the disk fails",
		"prepare removed":  "removed: the disk fails",
		"prepare in place": "in place: the disk fails",
		"store commits":    "commit failed: the disk fails",
	} {
		t.Run(step, func(t *testing.T) {
			s := full(t)
			s.fails[step] = errDisk
			wantRefused(t, s.Commit(), reason)
			s.wantRolledBack(reason)
			if !s.took(step) {
				t.Error("the step was not taken")
			}
			steps := len(s.steps)
			wantRefused(t, s.Commit(), reason)
			s.Rollback("another reason")
			if len(s.steps) > steps {
				t.Errorf("what is over was decided again: %q", s.steps[steps:])
			}
		})
	}
}

func wantRefused(t *testing.T, err error, reason string) {
	t.Helper()
	if !IsRefused(err) || err.Error() != reason {
		t.Errorf("the answer is %v, want a refusal: %s", err, reason)
	}
}

// After the first objection nobody else is asked, and nothing is prepared.
func TestObjectionEndsTheQuestions(t *testing.T) {
	for step, not := range map[string][]string{
		"judge in place":   {"judge saved", "has lock", "check in place", "prepare saved", "mark saved", "store commits"},
		"check in place":   {"check saved", "prepare saved", "mark saved", "store commits"},
		"check clean":      {"prepare saved", "mark saved", "store commits"},
		"prepare saved":    {"prepare removed", "prepare in place", "mark saved", "store commits"},
		"prepare removed":  {"prepare in place", "mark saved", "store commits"},
		"prepare in place": {"mark saved", "store commits"},
	} {
		s := full(t)
		s.fails[step] = errDisk
		_ = s.Commit()
		for _, later := range not {
			if s.took(later) {
				t.Errorf("after %q: %q", step, later)
			}
		}
	}
}

func TestStolenLockRollsBack(t *testing.T) {
	for what, steal := range map[string]func(s *stage){
		"the claim's":         func(s *stage) { s.stolen = true },
		"a file's":            func(s *stage) { s.Lose() },
		"a file's, meanwhile": func(s *stage) { s.on["judge clean"] = s.Lose },
	} {
		t.Run(what, func(t *testing.T) {
			s := full(t)
			steal(s)
			wantRefused(t, s.Commit(), "a lock of its was stolen")
			s.wantRolledBack("a lock of its was stolen")
			if s.took("check saved") {
				t.Error("files were checked all the same")
			}
		})
	}
}

// What the store has decided is published, whatever comes of it.
func TestStoreHasDecided(t *testing.T) {
	notDurable := fmt.Errorf("%w: d", commit.ErrNotDurable)
	pending := fmt.Errorf("%w: d", commit.ErrRedoPending)
	for _, tc := range []struct {
		name            string
		commit, recover error
		recovers        bool
		want            error
	}{
		{name: "not on disk", commit: notDurable, want: notDurable},
		{name: "finished by a recovery", commit: pending, recovers: true},
		{name: "not finished", commit: pending, recover: errDisk, recovers: true, want: pending},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := full(t)
			s.fails["store commits"], s.fails["store recovers"] = tc.commit, tc.recover
			if err := s.Commit(); !errors.Is(err, tc.want) || IsRefused(err) {
				t.Errorf("the answer is %v, want %v", err, tc.want)
			}
			s.wantCommitted(tc.want)
			if s.took("store recovers") != tc.recovers {
				t.Errorf("it was recovered: %v", !tc.recovers)
			}
			if s.took("unmark saved") || s.took("unmark renamed") {
				t.Error("what is replaced is not marked any more")
			}
		})
	}
}

// A store that cannot take back everything keeps nobody.
func TestNotTakenBack(t *testing.T) {
	s := full(t)
	s.fails["store rolls back"] = errDisk
	s.Rollback("as asked for")
	s.wantRolledBack("as asked for")
	if !errors.Is(s.back, errDisk) {
		t.Errorf("it was told %v", s.back)
	}
}

// A file that is begun while others are judged is committed with them.
func TestFileThatComesLate(t *testing.T) {
	s := full(t)
	s.on["judge clean"] = func() { s.write(&file{path: "late"}) }
	if err := s.Commit(); err != nil {
		t.Fatal(err)
	}
	s.wantCommitted(nil)
	if !s.took("check late") || s.took("judge late") {
		t.Errorf("the steps were %q", s.steps)
	}
}

func TestEmptyTransaction(t *testing.T) {
	s := newStage(t)
	if err := s.Commit(); err != nil {
		t.Error(err)
	}
	s.wantCommitted(nil)
	s = newStage(t)
	s.Rollback("as asked for")
	s.wantRolledBack("as asked for")
}

// The locks are given back at the end, and at once where that was before.
func TestKeepLocked(t *testing.T) {
	for what, end := range map[string]func(s *stage){
		"commit":   func(s *stage) { _ = s.Commit() },
		"rollback": func(s *stage) { s.Rollback("as asked for") },
	} {
		t.Run(what, func(t *testing.T) {
			s := full(t)
			a, b, c := new(lockmgr.Lock), new(lockmgr.Lock), new(lockmgr.Lock)
			keep := func(l *lockmgr.Lock) {
				s.Lock()
				defer s.Unlock()
				s.KeepLocked(l)
			}
			keep(a)
			keep(b)
			s.on["show made"] = func() {
				if len(s.locks) > 0 {
					t.Error("a lock is given back before the names are shown")
				}
			}
			s.on["ended"] = func() {
				if !slices.Equal(s.locks, []*lockmgr.Lock{a, b}) {
					t.Errorf("%d locks were given back", len(s.locks))
				}
			}
			end(s)
			if !s.took("ended") {
				t.Error("it has not ended")
			}
			keep(c)
			if len(s.locks) != 3 || s.locks[2] != c || len(s.Txn.locks) > 0 {
				t.Error("a lock is kept by a transaction that is over")
			}
		})
	}
}

// A decision waits for a change of names, and finds what it has staged.
func TestDecisionWaitsForAChange(t *testing.T) {
	for what, decide := range map[string]func(s *stage){
		"commit":   func(s *stage) { _ = s.Commit() },
		"rollback": func(s *stage) { s.Rollback("as asked for") },
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := full(t)
				goOn := make(chan struct{})
				go func() {
					s.Lock()
					defer s.Unlock()
					<-goOn
					if s.IsOver() || !s.TakesFiles() {
						t.Error("it is decided while a name is changed")
					}
					s.change(&name{path: "removed too"})
				}()
				synctest.Wait()
				decided := make(chan struct{})
				go func() {
					defer close(decided)
					decide(s)
				}()
				close(goOn)
				<-decided
				if !s.took("show removed too") {
					t.Error("the change is not part of what was decided")
				}
			})
		})
	}
}

// Of two who decide at once, one does.
func TestOneDecides(t *testing.T) {
	for range 100 {
		s := full(t)
		var err error
		done := make(chan struct{})
		go func() {
			defer close(done)
			err = s.Commit()
		}()
		s.Rollback("as asked for")
		<-done
		if err == nil {
			s.wantCommitted(nil)
		} else {
			wantRefused(t, err, "as asked for")
			s.wantRolledBack("as asked for")
		}
	}
}
