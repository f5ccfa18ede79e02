package describe

import (
	"errors"
	"fmt"
	"testing"

	"latchfs/lockmgr/internal/keytree"
	"latchfs/lockmgr/internal/rules"
)

type lock struct{}

func holder(pid int32, keys ...keytree.Key) Holder[lock] {
	return Holder[lock]{Keys: keys, Mode: rules.Exclusive, Owner: rules.Owner{PID: pid, Start: 5}}
}

// A lock covers its keys, and what is in its trees.
func TestCovers(t *testing.T) {
	for _, c := range []struct {
		name        string
		keys, trees []keytree.Key
		key         keytree.Key
		want        bool
	}{
		{"its key", []keytree.Key{"d", "e"}, nil, "e", true},
		{"another key", []keytree.Key{"d"}, nil, "e", false},
		{"below a key that is no tree", []keytree.Key{"d"}, nil, "d/f", false},
		{"below a tree", []keytree.Key{"d"}, []keytree.Key{"d"}, "d/e/f", true},
		{"beside a tree", []keytree.Key{"d"}, []keytree.Key{"d"}, "da", false},
		{"above a tree", []keytree.Key{"d/e"}, []keytree.Key{"d/e"}, "d", false},
		{"below the root", []keytree.Key{""}, []keytree.Key{""}, "f", true},
		{"apart from the root", []keytree.Key{""}, []keytree.Key{""}, "//x", false},
		{"below what is apart", []keytree.Key{"//"}, []keytree.Key{"//"}, "//x", true},
	} {
		h := holder(1, c.keys...)
		h.Trees = c.trees
		if got := h.Covers([]keytree.Key{c.key}); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
		if got := h.Covers([]keytree.Key{c.key, "f"}); got != (c.want || h.Covers([]keytree.Key{"f"})) || h.Covers(nil) {
			t.Errorf("%s: %v of two keys", c.name, got)
		}
	}
}

// An error names who is in the way, for people.
func TestConflict(t *testing.T) {
	waiter := holder(3, "g")
	err := fmt.Errorf("f: %w", &ConflictError[lock]{Holders: []Holder[lock]{holder(2, "d/f", `g"`), waiter}})
	if want := `f: lock would block: exclusive session lock on "d/f", "g\"" by pid 2`; err.Error() != want {
		t.Errorf("%v, not %s", err, want)
	}
	if !errors.Is(err, ErrWouldBlock) || errors.Is(err, ErrDeadlock) || errors.Is(err, ErrInvalid) {
		t.Error("it is not only a conflict")
	}
	if got := (&ConflictError[lock]{}).Error(); got != ErrWouldBlock.Error() {
		t.Errorf("with nobody: %s", got)
	}
	var c *ConflictError[lock]
	if !errors.As(err, &c) || len(c.Holders) != 2 || c.Holders[1].Owner != waiter.Owner {
		t.Errorf("%+v", c)
	}
}

// A deadlock lists its cycle.
func TestDeadlock(t *testing.T) {
	unseen := holder(0, "h")
	err := fmt.Errorf("f: %w", &DeadlockError[lock]{Cycle: []Wait[lock]{
		{Waiter: unseen, Blocker: holder(1, "g"), Key: "g"},
		{Waiter: holder(1), Blocker: unseen, Key: "h"},
	}})
	if want := `f: deadlock: foreign process #5 waits for "g" of pid 1, pid 1 waits for "h" of foreign process #5`; err.Error() != want {
		t.Errorf("%v, not %s", err, want)
	}
	if !errors.Is(err, ErrDeadlock) || errors.Is(err, ErrWouldBlock) {
		t.Error("it is not only a deadlock")
	}
}

// What a lock is, with its mode, its class and all its keys.
func TestDescribe(t *testing.T) {
	h := holder(1, "f")
	h.Mode, h.Class = rules.Shared, rules.Posix
	if got, want := h.describe(), `shared posix lock on "f"`; got != want {
		t.Errorf("%s, not %s", got, want)
	}
}

// No two errors are one.
func TestErrorsDiffer(t *testing.T) {
	all := []error{
		ErrWouldBlock, ErrDeadlock, ErrInvalid, ErrReleased, ErrReplaced, ErrCancelled, ErrStolen, ErrActive, ErrNotHeld,
	}
	texts := map[string]bool{}
	for _, err := range all {
		texts[err.Error()] = true
		for _, other := range all {
			if errors.Is(err, other) != (err == other) {
				t.Errorf("%v is %v", err, other)
			}
		}
	}
	if len(texts) != len(all) {
		t.Errorf("%d texts of %d errors", len(texts), len(all))
	}
}

// An error that is joined with others, or wrapped twice, is still told from them.
func TestJoinedErrors(t *testing.T) {
	conflict := &ConflictError[lock]{Holders: []Holder[lock]{holder(2, "f")}}
	deadlock := &DeadlockError[lock]{Cycle: []Wait[lock]{{Waiter: holder(1, "g"), Blocker: holder(2, "f"), Key: "f"}}}
	for _, c := range []struct {
		err                error
		conflict, deadlock bool
	}{
		{conflict, true, false},
		{deadlock, false, true},
		{fmt.Errorf("b: %w", fmt.Errorf("a: %w", deadlock)), false, true},
		{errors.Join(ErrStolen, conflict), true, false},
		{errors.Join(conflict, deadlock), true, true},
		{errors.Join(ErrStolen, ErrReleased), false, false},
	} {
		var asConflict *ConflictError[lock]
		var asDeadlock *DeadlockError[lock]
		if errors.Is(c.err, ErrWouldBlock) != c.conflict || errors.As(c.err, &asConflict) != c.conflict {
			t.Errorf("%v: is a conflict: %v", c.err, !c.conflict)
		}
		if errors.Is(c.err, ErrDeadlock) != c.deadlock || errors.As(c.err, &asDeadlock) != c.deadlock {
			t.Errorf("%v: is a deadlock: %v", c.err, !c.deadlock)
		}
		if c.conflict && asConflict != conflict || c.deadlock && asDeadlock != deadlock {
			t.Errorf("%v: %v, %v", c.err, asConflict, asDeadlock)
		}
	}
}
