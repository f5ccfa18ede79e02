package knowledge

import (
	"testing"
	"time"

	"latchfs/lockmgr"
)

// A look that was none leaves everybody with what they knew before, unless they have
// learned something since.
func TestWithdraw(t *testing.T) {
	child, parent := lockmgr.Owner{PID: 2, Start: 1}, lockmgr.Owner{PID: 1, Start: 1}
	who := Who{Self: child, Relatives: []lockmgr.Owner{parent}}
	table, at := New(fade), time.Unix(1, 0)
	v1, v2, v3 := Stamp{Ino: 1}, Stamp{Ino: 2}, Stamp{Ino: 3}
	table.Saw(at, "f", v1, who)
	table.Changed(at.Add(time.Second), "f", v2, Who{}, Author{})

	sight := table.Before(at.Add(2*time.Second), "f", who)
	table.Saw(sight.At, "f", v2, who)
	table.Saw(at.Add(3*time.Second), "f", v2, Who{Self: parent})
	known := func(o lockmgr.Owner) Basis {
		return table.Check(at.Add(4*time.Second), "f", v2, []lockmgr.Owner{o}, fade, Readers)
	}
	if b := known(child); b.Stale || !sight.Gave(&b) {
		t.Fatalf("before: %+v", b)
	}
	table.Withdraw(sight)
	if b := known(child); !b.Stale || b.Version != 1 {
		t.Errorf("the child knows %+v, want version 1 as before", b)
	}
	if b := known(parent); b.Stale || b.Version != 2 {
		t.Errorf("the parent knows %+v, want version 2, which it has seen itself", b)
	}

	stranger := Who{Self: lockmgr.Owner{PID: 9, Start: 1}}
	sight = table.Before(at, "f", stranger)
	table.Saw(at, "f", v2, stranger)
	table.Withdraw(sight)
	if b := table.Check(at, "f", v3, []lockmgr.Owner{stranger.Self}, fade, Readers); b.Known {
		t.Errorf("who had looked at nothing knows %+v", b)
	}
	sight = table.Before(at, "g", stranger)
	table.Withdraw(sight) // of a key that nobody has heard of
	table.checkInvariants(t)
}

// The name of a file may be any bytes.
func TestSavedNames(t *testing.T) {
	table, o := New(fade), lockmgr.Owner{PID: 1, Start: 1}
	for _, key := range []Key{"caf\xe9", "caf\xe8", "caf\ufffd", ""} {
		table.Saw(time.Unix(1, 0), key, Stamp{Ino: 1}, Who{Self: o})
	}
	again := restarted(t, table, "x", "x")
	for _, key := range []Key{"caf\xe9", "caf\xe8", "caf\ufffd", ""} {
		if b := again.Check(time.Unix(2, 0), key, Stamp{Ino: 2}, []lockmgr.Owner{o}, fade, Readers); !b.Stale {
			t.Errorf("what was known of %q is %+v", key, b)
		}
	}
}

// A look is withdrawn under the key that the file has got since: what was known before
// that look is of an older version, whatever its number is now.
func TestWithdrawUnderAnotherKey(t *testing.T) {
	who, other := Who{Self: lockmgr.Owner{PID: 2, Start: 1}}, Who{Self: lockmgr.Owner{PID: 3, Start: 1}}
	table, at := New(fade), time.Unix(1, 0)
	v1, v2, v3 := Stamp{Ino: 1}, Stamp{Ino: 2}, Stamp{Ino: 3}
	table.Saw(at, "d/f", v1, who)
	table.Changed(at.Add(time.Second), "d/f", v2, other, Author{})
	sight := table.Before(at.Add(2*time.Second), "d/f", who)
	table.Saw(sight.At, "d/f", v2, who)
	table.Moved(at.Add(3*time.Second), "d", "e", false, Who{}, Author{})
	table.Changed(at.Add(4*time.Second), "e/f", v3, other, Author{})
	known := func() Basis {
		return table.Check(at.Add(5*time.Second), "e/f", v3, []lockmgr.Owner{who.Self}, fade, Readers)
	}
	if b := known(); !b.Stale || !sight.Gave(&b) {
		t.Fatalf("before: %+v", b)
	}
	table.Withdraw(sight.Under("e/f"))
	if b := known(); !b.Stale || sight.Gave(&b) {
		t.Errorf("it knows %+v, want the version before", b)
	}
	table.checkInvariants(t)
}

// A version that comes back undoes the family's own work, or somebody else's.
func TestOursSince(t *testing.T) {
	script, sed := lockmgr.Owner{PID: 1, Start: 1}, lockmgr.Owner{PID: 2, Start: 1}
	child, other := Who{Self: sed, Relatives: []lockmgr.Owner{script}}, Who{Self: lockmgr.Owner{PID: 9, Start: 1}}
	table, at := New(fade), time.Unix(1, 0)
	v1, v2, v3 := Stamp{Ino: 1}, Stamp{Ino: 2}, Stamp{Ino: 3}
	who := Who{Self: script}
	table.Saw(at, "f", v1, child)
	table.Changed(at, "f", v2, child, Author{})
	if !table.OursSince("f", v1, who) {
		t.Error("what a descendant has made is not ours")
	}
	table.Changed(at, "f", v3, other, Author{})
	if table.OursSince("f", v1, who) || table.OursSince("f", v2, who) {
		t.Error("what somebody else has made is ours")
	}
	if !table.OursSince("f", v3, who) || table.OursSince("f", Stamp{Ino: 4}, who) || table.OursSince("g", v1, who) || table.OursSince("f", Stamp{}, who) {
		t.Error("the current version is not, or an unknown one is")
	}
	mv := Who{Self: lockmgr.Owner{PID: 3, Start: 1}, Relatives: []lockmgr.Owner{script}}
	table.Changed(at, "f", Stamp{}, mv, Author{})
	table.Changed(at, "f", v1, child, Author{})
	if later := (Who{Self: lockmgr.Owner{PID: 4, Start: 1}, Relatives: []lockmgr.Owner{script}}); !table.OursSince("f", v3, later) {
		t.Error("a script may not take back what its steps have made")
	}
	if table.OursSince("f", v3, mv) {
		t.Error("who renames a file away and back takes back what a worker beside it has made")
	}
}
