package rewalk

import (
	"testing"
	"testing/synctest"
	"time"
)

// A stranger who was sent on from one session, and meets another at the name, may be there for
// the second time; until one has arrived, one is expected.
func TestStrangers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewStrangers[string](time.Second)
		if s.Any() || s.Expects("f") {
			t.Error("there are strangers")
		}
		for _, from := range [][2]string{{"f", "s1"}, {"f", "s1"}, {"g", "s2"}} {
			if s.PerhapsRepeated(from[0], from[1]) {
				t.Errorf("at %s: somebody who was never sent on is taken for one who was", from[0])
			}
		}
		if !s.PerhapsRepeated("f", "s2") || !s.Any() || !s.Expects("f") || s.Expects("h") {
			t.Error("nobody is expected")
		}
		s.Arrived("f")
		s.Arrived("f") // two were sent on
		if s.Expects("f") || !s.Expects("g") {
			t.Error("both have arrived at f, and none at g")
		}
		time.Sleep(time.Second + 1)
		if s.Expects("g") || s.PerhapsRepeated("g", "s3") {
			t.Error("expected for too long")
		}
	})
}
