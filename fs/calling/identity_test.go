package calling

import "testing"

// The process with its descendants that are born after a moment share what it has.
func TestBelongsTo(t *testing.T) {
	s := onStage(t,
		&process{pid: 1},
		&process{pid: 2, up: []int32{1}},
		&process{pid: 4, up: []int32{2, 1}}, // born later than 3, of a child that was born before
		&process{pid: 5, up: []int32{1}},
		&process{pid: 6, up: []int32{5, 1}},
		&process{pid: 9})
	id := NewIdentity(owner(1), born(30))
	if id.Owner() != owner(1) || id.Since() != born(30) || id.From() != nil {
		t.Errorf("%+v", id)
	}
	for pid, want := range map[int32]bool{1: true, 2: false, 4: false, 5: true, 6: true, 9: false} {
		if got := s.room.Caller(sender(pid)).BelongsTo(id); got != want {
			t.Errorf("process %d: %v", pid, got)
		}
	}
	if s.room.Caller(sender(1)).BelongsTo(nil) {
		t.Error("it belongs to nobody")
	}
}

// A process that has the id of another one, which has ended, does not share what that had.
func TestBelongsToAnotherOfTheSameID(t *testing.T) {
	s := onStage(t, &process{pid: 1}, &process{pid: 2, up: []int32{1}})
	before := owner(1)
	before.Start--
	for pid := range int32(3) {
		if s.room.Caller(sender(pid)).BelongsTo(NewIdentity(before, born(0))) {
			t.Errorf("process %d belongs to it", pid)
		}
	}
}

// Whoever leaves a session to a process that it has started shares it still, and so do the
// other descendants; of a session that somebody else has got it is a stranger.
func TestPassedTo(t *testing.T) {
	const script, daemon, worker, later, elder, stranger, other, unseen = 1, 20, 30, 40, 5, 60, 2, 70
	s := onStage(t,
		&process{pid: script},
		&process{pid: daemon, up: []int32{script}},
		&process{pid: worker, up: []int32{daemon, script}},
		&process{pid: later, up: []int32{script}},
		&process{pid: elder, up: []int32{script}},
		&process{pid: other}, &process{pid: stranger, up: []int32{other}}, &process{pid: unseen})
	opened := NewIdentity(owner(script), born(100))
	left := opened.PassedTo(owner(daemon), s)
	leftAgain := left.PassedTo(owner(worker), s)
	for _, x := range []struct {
		id   *Identity
		pid  int32
		want bool
	}{
		{left, daemon, true}, {left, script, true}, {left, later, true}, {left, worker, true},
		{left, elder, false}, {left, stranger, false},
		{leftAgain, worker, true}, {leftAgain, daemon, true}, {leftAgain, script, true}, {leftAgain, later, true},
		{leftAgain, elder, false}, {leftAgain, stranger, false},
		{opened.PassedTo(owner(elder), s), script, false}, {opened.PassedTo(owner(stranger), s), script, false},
		{opened.PassedTo(owner(unseen), s), script, true}, {leftAgain.PassedTo(owner(unseen), s), worker, true}, {opened.PassedTo(owner(unseen), s), stranger, false},
	} {
		if got := s.room.Caller(sender(x.pid)).BelongsTo(x.id); got != x.want {
			t.Errorf("process %d has it: process %d shares it: %v", x.id.Owner().PID, x.pid, got)
		}
	}
	if left.Owner() != owner(daemon) || left.Since() != s.Now() || left.From() != opened {
		t.Errorf("%+v", left)
	}
	if leftAgain.PassedTo(owner(script), s) != opened {
		t.Error("the process that has opened it, and has it again, is another owner than before")
	}
	// The worker descends from the script alone, as the one between has ended.
	s.procs[worker].up = []int32{script}
	if got := left.PassedTo(owner(worker), s); got.From() != opened {
		t.Errorf("from a descendant that has ended: %+v", got.From())
	}
}

// The sessions of a transaction are those of its owner: all members share them, whoever their
// ancestors are.
func TestMemberSharesSessions(t *testing.T) {
	s := onStage(t, &process{pid: 1}, &process{pid: 5, env: "txn-1"}, &process{pid: 6})
	s.begin(1, 15, "txn-1")
	of := NewIdentity(owner(1), born(15))
	if !s.room.Caller(sender(5)).BelongsTo(of) {
		t.Error("a member does not share the sessions")
	}
	if s.room.Caller(sender(6)).BelongsTo(of) {
		t.Error("a stranger shares them")
	}
	for name, id := range map[string]*Identity{
		"that were begun before": NewIdentity(owner(1), born(14)),
		"of another process":     NewIdentity(owner(2), born(15)),
		"that were left to it":   {owner: owner(1), since: born(15), from: NewIdentity(owner(3), born(0))},
	} {
		if s.room.Caller(sender(5)).BelongsTo(id) {
			t.Errorf("a member shares the sessions %s", name)
		}
	}
}
