package fs

import (
	"testing"

	"latchfs/lockmgr"
)

// births are processes of which all that is known is who has started them.
type births struct {
	Procs
	lineage map[int32][]lockmgr.Ancestor
}

func (b births) Now() lockmgr.Birth { return lockmgr.Birth{Tick: 100} }

func (b births) Lineage(pid int32) []lockmgr.Ancestor { return b.lineage[pid] }

// Whoever leaves a session to a process that it has started stays kin of it, and so do the
// other heirs; of a session that somebody else has got it is a stranger.
func TestSessionLeftToAChild(t *testing.T) {
	born := func(start uint64) lockmgr.Birth { return lockmgr.Birth{Tick: start} }
	script, daemon, worker := lockmgr.Owner{PID: 1, Start: 1}, lockmgr.Owner{PID: 2, Start: 20}, lockmgr.Owner{PID: 3, Start: 30}
	later, elder, stranger := lockmgr.Owner{PID: 4, Start: 40}, lockmgr.Owner{PID: 5, Start: 5}, lockmgr.Owner{PID: 6, Start: 60}
	procs := births{lineage: map[int32][]lockmgr.Ancestor{
		daemon.PID: {{Owner: script, Child: born(20)}},
		worker.PID: {{Owner: daemon, Child: born(30)}, {Owner: script, Child: born(20)}},
		later.PID:  {{Owner: script, Child: born(40)}},
		elder.PID:  {{Owner: script, Child: born(5)}},
	}}
	isKin := func(o lockmgr.Owner, id *identity) bool {
		c := &caller{callers: newFS(Options{}).callers, owner: o}
		c.txnOnce.Do(func() {})
		c.once.Do(func() { c.lineage = procs.lineage[o.PID] })
		return c.kinOf(id)
	}
	opened := &identity{owner: script, since: born(10)}
	left := opened.passedTo(daemon, procs)
	leftAgain := left.passedTo(worker, procs)
	for _, x := range []struct {
		id   *identity
		who  lockmgr.Owner
		want bool
	}{
		{left, daemon, true}, {left, script, true}, {left, later, true}, {left, worker, true},
		{left, elder, false}, {left, stranger, false},
		{leftAgain, worker, true}, {leftAgain, daemon, true}, {leftAgain, script, true}, {leftAgain, later, true},
		{leftAgain, elder, false}, {leftAgain, stranger, false},
		{opened.passedTo(elder, procs), script, false}, {opened.passedTo(stranger, procs), script, false},
	} {
		if got := isKin(x.who, x.id); got != x.want {
			t.Errorf("process %d has it: process %d is kin: %v", x.id.owner.PID, x.who.PID, got)
		}
	}
	if leftAgain.passedTo(script, procs) != opened {
		t.Error("the process that has opened it, and has it again, is another owner than before")
	}
}
