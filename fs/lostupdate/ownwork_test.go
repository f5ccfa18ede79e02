package lostupdate

import (
	"testing"

	"latchfs/lockmgr"
)

// What the script of a renaming process has itself done since the writer read the file is not
// lost; what the process itself has read counts still.
func TestOwnStepIsNotLost(t *testing.T) {
	onStage(t, func(s *stage) {
		for _, pid := range []int32{12, 13} {
			s.families[pid] = s.families[11] // children of 10
		}
		s.write(20, "f")
		s.read(11, "f")
		s.write(10, "f")
		want := func(lost bool, why string) {
			t.Helper()
			writers := []lockmgr.Owner{owner(11), owner(10)}
			ch := s.change(13, "f", writers...)
			ch.Who, ch.Writers = s.who(13), writers
			if l := s.Loss(ch, s.maker(13)); (l != nil) != lost {
				t.Errorf("%s: something is lost: %v, want %v", why, l != nil, lost)
			}
		}
		want(false, "the script has written")
		s.read(13, "f")
		s.write(12, "f")
		want(true, "the process has read the file, and a step has written since")
		s.read(13, "f")
		want(true, "a step has written what the writer has not read")
		s.read(11, "f")
		s.write(20, "f")
		s.read(10, "f")
		want(true, "a stranger has written")
	})
}
