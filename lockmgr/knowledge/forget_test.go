package knowledge

import (
	"testing"
	"time"

	"latchfs/lockmgr"
)

// Nobody is stale for what was forgotten, and the facts are counted down.
func TestForget(t *testing.T) {
	table := New(time.Minute)
	now := time.Unix(1000, 0)
	reader := Who{Self: lockmgr.Owner{PID: 1, Start: 1}}
	old, current := Stamp{Ino: 1, Size: 1}, Stamp{Ino: 2, Size: 2}
	for _, key := range []Key{"f", "g"} {
		table.Saw(now, key, old, reader)
		if b := table.Check(now, key, current, reader.chain(), time.Minute, Readers); !b.Stale {
			t.Fatalf("%s: %+v, want stale", key, b)
		}
	}
	news := table.News()
	table.Forget("f")
	if table.News() == news {
		t.Error("that something was forgotten is no news")
	}
	if b := table.Check(now, "f", current, reader.chain(), time.Minute, Readers); b.Known || b.Stale {
		t.Errorf("f: %+v", b)
	}
	if b := table.Check(now, "g", current, reader.chain(), time.Minute, Readers); !b.Stale {
		t.Errorf("g: %+v", b)
	}
	if table.facts != 1 || table.Tracks("f") || !table.Tracks("g") {
		t.Errorf("%d facts are left", table.facts)
	}
	table.Forget("none")
}
