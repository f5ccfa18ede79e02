package integration

import (
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"latchfs/integration/internal/wire"
)

// What a history is checked against: one lock for a file, with three modes. Each
// act is one operation of the model, or two if it was granted: the grant and the
// release. Which process holds the lock is not in the model, for each gives back
// only what it has, and has one lock at a time.

// step is an operation of the model.
type step struct {
	act *wire.Act
	// release: it gives back what act took.
	release bool
	// queued: a refusal is right although nobody that holds the lock is in the
	// way, for somebody who waits may be: nobody overtakes a waiter.
	queued bool
}

// holders is the state of the model: how many hold the lock in which mode, and
// the greatest token so far.
type holders struct {
	shared    int
	update    bool
	exclusive bool
	token     uint64
}

func (h holders) admits(mode string) bool {
	switch mode {
	case "shared":
		return !h.exclusive
	case "update":
		return !h.exclusive && !h.update
	}
	return !h.exclusive && !h.update && h.shared == 0
}

func (h holders) free() bool { return h == holders{token: h.token} }

// with is the state after a grant (by 1) or a release (by -1).
func (h holders) with(mode string, by int) holders {
	switch mode {
	case "shared":
		h.shared += by
	case "update":
		h.update = by > 0
	default:
		h.exclusive = by > 0
	}
	return h
}

// next is the state after a step, and whether the step is possible.
func (h holders) next(s *step) (bool, holders) {
	a := s.act
	switch {
	case s.release:
		return true, h.with(a.Mode, -1)
	case !a.Granted:
		return !h.admits(a.Mode) || s.queued && !h.free(), h
	case !h.admits(a.Mode) || a.Token != 0 && a.Token <= h.token:
		return false, h
	}
	h = h.with(a.Mode, 1)
	h.token = max(h.token, a.Token)
	return true, h
}

var oneLock = porcupine.Model{
	Init: func() any { return holders{} },
	Step: func(state, input, _ any) (bool, any) {
		s := input.(step)
		ok, next := state.(holders).next(&s)
		return ok, next
	},
}

// checkLinearizable: the history of one file is one that a single lock could have.
func checkLinearizable(t *testing.T, key string, history []wire.Act) {
	t.Helper()
	var ops []porcupine.Operation
	add := func(s step, call, ret int64) {
		ops = append(ops, porcupine.Operation{ClientId: s.act.Process, Input: s, Call: call, Return: ret})
	}
	for i := range history {
		a := &history[i]
		add(step{act: a, queued: !a.Granted && maybeQueued(history, a)}, a.Call, a.Return)
		if a.Granted {
			add(step{act: a, release: true}, a.Free, a.Freed)
		}
	}
	start := time.Now()
	switch porcupine.CheckOperationsTimeout(oneLock, ops, 2*time.Minute) {
	case porcupine.Ok:
	case porcupine.Illegal:
		t.Errorf("the history of %s is not one of a lock", key)
	case porcupine.Unknown:
		t.Errorf("the history of %s could not be checked in time", key)
	}
	t.Logf("%s: %d operations, checked in %v", key, len(ops), time.Since(start).Round(time.Millisecond))
}

// maybeQueued reports whether somebody may have waited, at the time of the request
// a, whom a had to queue behind.
func maybeQueued(history []wire.Act, a *wire.Act) bool {
	for i := range history {
		x := &history[i]
		if x.Call > a.Return {
			return false
		}
		if x.Process != a.Process && x.Wait != 0 && x.Return >= a.Call && conflicting(x.Mode, a.Mode) {
			return true
		}
	}
	return false
}
