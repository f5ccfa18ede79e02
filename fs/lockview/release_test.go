package lockview

import (
	"errors"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"latchfs/fs/lockkey"
	"latchfs/fs/report"
	"latchfs/lockmgr"
)

// Who may take away which lock. It is process 10's of user 1.
func TestRelease(t *testing.T) {
	own, child, cousin := viewer(1, 10), viewer(1, 11), viewer(1, 20)
	other := viewer(2, 20)
	asOther := viewer(2, 11) // a relative that is another user by now
	root, rootChild := privileged(viewer(3, 20)), privileged(viewer(3, 11))
	always := []report.Viewer{own, child, cousin, other, asOther, root, rootChild}
	// What each of these is told; "ok" has ended the lock.
	for what, c := range map[string]struct {
		is   []change
		want []string
	}{
		"a session":                   {nil, []string{"EBUSY", "EBUSY", "EBUSY", "EBUSY", "EBUSY", "EBUSY", "EBUSY"}},
		"a claim":                     {[]change{claimed}, []string{"ok", "ok", "EBUSY", "EBUSY", "EBUSY", "EBUSY", "ok"}},
		"a read claim":                {[]change{toWrite}, []string{"ok", "ok", "EBUSY", "EBUSY", "EBUSY", "EBUSY", "ok"}},
		"a flock":                     {[]change{flock}, []string{"ok", "ok", "EBUSY", "EBUSY", "EBUSY", "EBUSY", "ok"}},
		"a flock of nobody known":     {[]change{flock, unlabeled}, []string{"EBUSY", "EBUSY", "EBUSY", "EBUSY", "EBUSY", "EBUSY", "ok"}},
		"a session of nobody known":   {[]change{unlabeled}, []string{"EBUSY", "EBUSY", "EBUSY", "EBUSY", "EBUSY", "EBUSY", "EBUSY"}},
		"a stale session":             {[]change{leased}, []string{"ok", "ok", "ok", "EPERM", "EPERM", "ok", "ok"}},
		"a stale claim":               {[]change{leased, claimed}, []string{"ok", "ok", "ok", "EPERM", "EPERM", "ok", "ok"}},
		"a stale one of nobody known": {[]change{leased, unlabeled}, []string{"EPERM", "EPERM", "EPERM", "EPERM", "EPERM", "ok", "ok"}},
		"an orphaned claim":           {[]change{claimed, orphan}, []string{"ok", "ok", "ok", "EBUSY", "EBUSY", "ok", "ok"}},
	} {
		for i, v := range always {
			s := newStage(t)
			l := s.lock(10, "a", c.is...)
			r := l.Request()
			if r.TTL > 0 {
				s.expire(l)
			}
			got := "ok"
			err := s.Release(s.group("a"), v)
			var errno unix.Errno
			if errors.As(err, &errno) {
				got = unix.ErrnoName(errno)
			}
			if got != c.want[i] || l.Held() == (got == "ok") {
				t.Errorf("%s, viewer %d: %v, held %v; want %s", what, i, err, l.Held(), c.want[i])
			}
			if stolen := errors.Is(l.Err(), lockmgr.ErrStolen); stolen != (got == "ok" && r.TTL > 0) {
				t.Errorf("%s, viewer %d: stolen %v", what, i, stolen)
			}
			if settled := s.settled; (settled == 1) != (got == "ok") {
				t.Errorf("%s, viewer %d: settled %d times", what, i, settled)
			}
		}
	}
}

// What ends with the lock is told to the engine, once.
func TestReleaseEndsClaims(t *testing.T) {
	s := newStage(t)
	s.lock(10, "a", claimed)
	s.lock(10, "b", toWrite)
	s.lock(10, string(lockkey.Name("n")), claimed)
	for _, group := range [][]report.Record{s.group("a"), s.group("b"), {s.Held()[2]}} {
		if err := s.Release(group, viewer(1, 10)); err != nil {
			t.Errorf("%+v: %v", group, err)
		}
	}
	if want := []string{"claim of 10", "read of 10", "claim of 10"}; !slices.Equal(s.ended, want) {
		t.Errorf("ended are %q", s.ended)
	}
	if held, _ := s.Table.Len(); held != 0 {
		t.Errorf("%d locks are held", held)
	}
}

// What several hold is ended for all or for none.
func TestReleaseOfAGroup(t *testing.T) {
	s := newStage(t)
	s.lock(10, "a", shared, claimed)
	theirs := s.lock(20, "a", shared, claimed, of(2))
	if err := s.Release(s.group("a"), viewer(1, 10)); err != unix.EBUSY || len(s.ended) > 0 {
		t.Errorf("%v, ended %q", err, s.ended)
	}
	s.Table.Release(theirs)
	s.lock(11, "a", shared, claimed)
	if err := s.Release(s.group("a"), viewer(1, 11)); err != nil || len(s.ended) != 2 {
		t.Errorf("%v, ended %q", err, s.ended)
	}
}

// What is not held any more is told.
func TestReleaseOfNothing(t *testing.T) {
	s := newStage(t)
	l := s.lock(10, "a", claimed)
	group := s.group("a")
	s.Table.Release(l)
	if err := s.Release(group, viewer(1, 10)); err != unix.ENOENT || s.settled != 0 {
		t.Errorf("%v, settled %d times", err, s.settled)
	}
}

// A lock that was not shown is left alone, whoever has it: one on a directory above, one
// that came to share the place, and one that has the place now.
func TestReleaseLeavesOthersAlone(t *testing.T) {
	s := newStage(t)
	above := s.lock(20, "d", tree, shared, claimed, of(2))
	own := s.lock(10, "d/f", shared, claimed)
	group := s.group("d/f")
	beside := s.lock(30, "d/f", shared, flock, of(2))
	if err := s.Release(group, viewer(1, 10)); err != nil || own.Held() {
		t.Errorf("%v, held %v", err, own.Held())
	}
	if !above.Held() || !beside.Held() || !slices.Equal(s.ended, []string{"claim of 10"}) {
		t.Errorf("that above is held: %v, that beside: %v; ended are %q", above.Held(), beside.Held(), s.ended)
	}
	if err := s.Release(group, viewer(1, 10)); err != unix.ENOENT || !above.Held() || !beside.Held() {
		t.Errorf("once more: %v", err)
	}
}
