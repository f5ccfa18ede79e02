package denied

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"latchfs/lockmgr"
)

var ann, bob = lockmgr.Holder{Token: 1}, lockmgr.Holder{Token: 2}

// Whoever was in the way is found in each error that tells, through what wraps it.
func TestHolders(t *testing.T) {
	for name, c := range map[string]struct {
		err  error
		want uint64 // the token of the first holder; 0: none
	}{
		"a wait":          {&Error{ErrTimeout, []lockmgr.Holder{ann, bob}}, 1},
		"a wrapped wait":  {fmt.Errorf("f: %w", &Error{ErrTimeout, []lockmgr.Holder{bob}}), 2},
		"a conflict":      {&lockmgr.ConflictError{Holders: []lockmgr.Holder{bob}}, 2},
		"a deadlock":      {&lockmgr.DeadlockError{Cycle: []lockmgr.Wait{{Blocker: ann}, {Blocker: bob}}}, 1},
		"an empty cycle":  {&lockmgr.DeadlockError{}, 0},
		"a shutdown":      {ErrShutdown, 0},
		"nothing":         {nil, 0},
		"a wait for none": {&Error{Cause: ErrTimeout}, 0},
	} {
		hs := Holders(c.err)
		if c.want == 0 && len(hs) > 0 || c.want > 0 && (len(hs) == 0 || hs[0].Token != c.want) {
			t.Errorf("%s: %+v, want the holder %d", name, hs, c.want)
		}
	}
}

func TestErrorIsItsCause(t *testing.T) {
	err := fmt.Errorf("f: %w", &Error{Cause: ErrShutdown})
	if !errors.Is(err, ErrShutdown) || errors.Is(err, ErrTimeout) || !strings.Contains(err.Error(), ErrShutdown.Error()) {
		t.Errorf("%v", err)
	}
}

func TestFenced(t *testing.T) {
	e := &Fenced{"a-c7"}
	if !errors.Is(e, ErrFenced) || errors.Is(e, ErrTimeout) {
		t.Error("it is not ErrFenced alone")
	}
	for _, text := range []string{e.Error(), e.Hint()} {
		if !strings.Contains(text, "a-c7") {
			t.Errorf("%q does not name the lock", text)
		}
	}
}

// People are told nothing twice: not the holder whom they are shown, nor that the time
// was over where they see the wait.
func TestReasons(t *testing.T) {
	conflict := &lockmgr.ConflictError{Holders: []lockmgr.Holder{ann}}
	dead := &lockmgr.DeadlockError{Cycle: []lockmgr.Wait{{Blocker: ann}}}
	for _, c := range []struct {
		err            error
		reason, beside string
	}{
		{&Error{Cause: ErrTimeout}, "", ""},
		{&Error{Cause: ErrShutdown}, ErrShutdown.Error(), ErrShutdown.Error()},
		{ErrTurnedAway, ErrTurnedAway.Error(), ErrTurnedAway.Error()},
		{conflict, conflict.Error(), ""},
		{dead, dead.Error(), dead.Error()},
	} {
		if got := Reason(c.err); got != c.reason {
			t.Errorf("%v: %q, want %q", c.err, got, c.reason)
		}
		if got := BesidesHolder(c.err); got != c.beside {
			t.Errorf("%v: %q beside the holder, want %q", c.err, got, c.beside)
		}
	}
}
