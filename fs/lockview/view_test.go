package lockview

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"

	"latchfs/fs/lockkey"
	"latchfs/fs/report"
)

// held says what is shown of the locks that are held.
func (s *stage) held() string {
	var lines []string
	for _, r := range s.Held() {
		if r.State != report.Held {
			s.t.Errorf("%+v is not held", r)
		}
		lines = append(lines, fmt.Sprintf("%s:%s/%d", cmp.Or(r.Path, r.Name), r.Program, r.Waiters))
	}
	slices.Sort(lines)
	return strings.Join(lines, " ")
}

// waiting says what is shown of those who wait.
func (s *stage) waiting() string {
	var lines []string
	for _, r := range s.Waiting() {
		if r.State != report.Waiting {
			s.t.Errorf("%+v does not wait", r)
		}
		lines = append(lines, fmt.Sprintf("%s:%s behind %s (%d)", cmp.Or(r.Path, r.Name), r.Program, strings.Join(r.WaitsFor, " "), r.Ahead))
	}
	return strings.Join(lines, "\n")
}

// A lock is shown under each of its paths, with how many wait there.
func TestHeld(t *testing.T) {
	s := newStage(t)
	if got := s.held() + s.waiting(); got != "" {
		t.Errorf("of no locks are shown %q", got)
	}
	s.lock(1, "a", also("b", "//inode/1:2"))
	s.lock(2, string(lockkey.Name("n")))
	s.lock(3, "//inode/1:3", flock)
	s.lock(4, "c", shared)
	s.lock(5, "c", shared)
	s.lock(6, "b")
	s.lock(7, "b", also("c"))
	if got, want := s.held(), "//inode/1:3:p3/0 a:p1/0 b:p1/2 c:p4/1 c:p5/1 n:p2/0"; got != want {
		t.Errorf("held are\n%s, want\n%s", got, want)
	}
}

// Who waits is shown behind all in its way, in the order of the queue.
func TestWaiting(t *testing.T) {
	s := newStage(t)
	s.lock(1, "a", shared)
	s.lock(2, "a", shared)
	s.lock(3, "b")
	s.lock(4, "a")
	s.lock(5, "a", also("b"))
	s.lock(6, "b", also("//inode/1:2"))
	want := strings.Join([]string{
		"a:p4 behind p1[1] p2[2] (2)",
		"a:p5 behind p1[1] p2[2] p3[3] p4[4] (4)",
		"b:p5 behind p1[1] p2[2] p3[3] p4[4] (4)",
		"b:p6 behind p3[3] p5[5] (2)",
	}, "\n")
	if got := s.waiting(); got != want {
		t.Errorf("waiting are\n%s\nwant\n%s", got, want)
	}
}

// Of a long queue the nearest are named, and all are counted.
func TestLongQueue(t *testing.T) {
	s := newStage(t)
	for pid := range int32(20) {
		s.lock(pid+1, "a")
	}
	list := s.Waiting()
	for i, r := range list {
		if r.Ahead != i+1 || len(r.WaitsFor) != min(i+1, 8) {
			t.Errorf("of the %dth, %d are counted and %d named", i+1, r.Ahead, len(r.WaitsFor))
		}
	}
	if len(list) != 19 {
		t.Errorf("%d wait", len(list))
	}
}
