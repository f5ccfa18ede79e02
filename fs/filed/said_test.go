package filed

import (
	"testing"
	"time"
)

// What a record says of its claim is what people and programs are told, but for times in
// the future; and of a stale one also why, and since when.
func TestSaid(t *testing.T) {
	onStage(t, func(s *stage) {
		s.start(1)
		began := time.Now()
		s.file(s.filing(lockV1Rule, lockV1("r", began), 1))
		held := s.room.at["f"].held
		want := Said{Holder: "r", Actor: "a", Host: host, Since: began, Beat: began}
		if got, ok := s.room.Said(held, false); !ok || !got.same(want) {
			t.Errorf("it says %+v, want %+v", got, want)
		}
		time.Sleep(61 * time.Second)
		want.Reason, want.StaleSince = "no heartbeat for 61s (ttl 60s)", began.Add(time.Minute)
		if got, ok := s.room.Said(held, true); !ok || !got.same(want) {
			t.Errorf("it says %+v, want %+v", got, want)
		}
		s.file(s.filing(lockV1Rule, lockV1("r", time.Now().Add(time.Hour)), 1))
		if got, ok := s.room.Said(held, false); !ok || !got.same(Said{Holder: "r", Actor: "a", Host: host}) {
			t.Errorf("of the future it says %+v", got)
		}
		s.room.Gone("f")
		if got, ok := s.room.Said(held, true); ok {
			t.Errorf("when it is over it says %+v", got)
		}
	})
}

// same compares what two records say; times of records are those of any zone.
func (a Said) same(b Said) bool {
	for _, times := range [][2]*time.Time{{&a.Since, &b.Since}, {&a.Beat, &b.Beat}, {&a.StaleSince, &b.StaleSince}} {
		if !times[0].Equal(*times[1]) {
			return false
		}
		*times[0] = *times[1]
	}
	return a == b
}

// A malformed record says nothing.
func TestMalformedSaysNothing(t *testing.T) {
	onStage(t, func(s *stage) {
		s.start(1)
		s.file(s.filing(lockV1Rule, "{", 1))
		if got, ok := s.room.Said(s.room.at["f"].held, false); ok {
			t.Errorf("it says %+v", got)
		}
	})
}
