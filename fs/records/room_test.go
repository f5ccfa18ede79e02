package records

import (
	"slices"
	"testing"

	"latchfs/fs/appends"
	"latchfs/lockmgr"
)

// A room knows who is in it.
func TestRoom(t *testing.T) {
	onStage(t, func(s *stage, a *Appender) {
		b := s.appender(0)
		if s.room.Len() != 2 {
			t.Errorf("there are %d", s.room.Len())
		}
		for range 2 {
			b.Leave()
			if s.room.Len() != 1 {
				t.Errorf("there are %d", s.room.Len())
			}
		}
		s.room.enter(b) // for the end of the test
	})
	if r := new(Room); r.Len() != 0 || r.Lined(ID{}) != nil {
		t.Error("there is somebody in an empty room")
	}
}

// Which appenders hold a line back, by the file that they have opened.
func TestLined(t *testing.T) {
	onStage(t, func(s *stage, a *Appender) {
		old := s.id("log")
		b := s.appender(0)
		s.save("new\n")
		c, now := s.appender(0), s.id("log")
		lined := func(want []*Appender, files ...ID) {
			t.Helper()
			if got := s.room.Lined(files...); !slices.Equal(got, want) {
				t.Errorf("%d appenders hold a line back, want %d", len(got), len(want))
			}
		}
		lined(nil, old, now)
		s.write(a, 10, "x")
		s.write(c, 10, "z")
		s.write(b, 10, "y")
		lined([]*Appender{a, b}, old)
		lined([]*Appender{c}, now)
		lined([]*Appender{c, a, b}, now, old)
		lined(nil)
		lined(nil, ID{Ino: 1})
		s.write(a, 10, "\n")
		lined([]*Appender{b}, old)
		b.Show(appends.Late)
		c.Show(appends.Late)
		lined(nil, old, now)
		if len(s.room.lined) != 0 {
			t.Errorf("the room remembers %d files", len(s.room.lined))
		}
	})
}

// The host is told when a line begins to be held back, once the room knows of it: whoever looks
// then finds the appender.
func TestHoldsLine(t *testing.T) {
	onStage(t, func(s *stage, a *Appender) {
		told := 0
		s.holding = func() {
			told++
			if !slices.Equal(s.room.Lined(a.c.Own), []*Appender{a}) || !s.room.HasLines() {
				t.Error("the room does not know of the line")
			}
			if !a.mu.TryLock() {
				t.Error("the mutex is held")
				return
			}
			a.mu.Unlock()
		}
		s.write(a, 10, "one\n")
		if told != 0 || s.room.HasLines() {
			t.Errorf("told %d times of a line that is whole", told)
		}
		s.write(a, 10, "half")
		s.write(a, 10, " more")
		if told != 1 || !s.room.HasLines() {
			t.Errorf("told %d times of one line", told)
		}
		s.write(a, 10, "\n")
		if told != 1 || s.room.HasLines() {
			t.Errorf("told %d times, and the line is in the file", told)
		}
	})
}

// Who looks at its file finds what it has appended, unless that is judged.
func TestShow(t *testing.T) {
	for _, judges := range []bool{false, true} {
		onStage(t, func(s *stage, a *Appender) {
			s.judges = judges
			s.write(a, 10, "half")
			a.Show(appends.Late)
			want := "old\nhalf"
			if judges {
				want = "old\n"
			}
			s.want("log", want)
		})
	}
}

// At the end of the mount everything goes out.
func TestFinish(t *testing.T) {
	onStage(t, func(s *stage, a *Appender) {
		b := s.appender(0)
		s.write(a, 10, "one")
		s.write(b, 10, "two")
		b.Leave()
		s.held = true // nobody is there to be kept out
		s.room.Finish()
		s.want("log", "old\none")
		s.room.enter(b)
		s.room.Finish()
		s.held = false
		s.want("log", "old\nonetwo")
	})
}

// A close leaves the line that another descriptor may finish, if it is judged as a whole.
func TestLineGoesOn(t *testing.T) {
	for what, c := range map[string]struct {
		text   string
		judges bool
		by     lockmgr.Owner
		opens  map[int32]int
		want   bool
	}{
		"the closer has it open":  {"half", true, child, map[int32]int{11: 1}, true},
		"the opener has":          {"half", true, child, map[int32]int{10: 2}, true},
		"nobody can tell":         {"half", true, child, map[int32]int{11: -1}, true},
		"nobody has":              {"half", true, child, nil, false},
		"nobody known has":        {"half", true, lockmgr.Owner{}, map[int32]int{0: 1}, false},
		"lines are not judged":    {"half", false, child, map[int32]int{11: 1}, false},
		"the line is whole":       {"whole\n", true, child, map[int32]int{11: 1}, false},
		"another process has":     {"half", true, child, map[int32]int{12: 1}, false},
		"nothing was written":     {"", true, child, map[int32]int{11: 1}, false},
		"the opener closes alone": {"half", true, shell, map[int32]int{11: 1}, false},
	} {
		onStage(t, func(s *stage, a *Appender) {
			s.judges, s.opens = c.judges, c.opens
			s.write(a, 10, c.text)
			if got := a.LineGoesOn(c.by); got != c.want {
				t.Errorf("%s: %v", what, got)
			}
		})
	}
}
