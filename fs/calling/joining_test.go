package calling

import (
	"slices"
	"testing"

	"latchfs/lockmgr"
)

// A process that does not descend from the holder of a lock is as a descendant that is born
// now, if its environment names the lock. It is asked once.
func TestJoinGuard(t *testing.T) {
	s := onStage(t, &process{pid: 7, up: []int32{3}, env: "lock-1"})
	s.guards["lock-1"] = Guard{UID: 1000, Owner: owner(50)}
	c := s.room.Caller(sender(7))
	s.asked = nil
	if !c.JoinGuard() {
		t.Error("it is no news")
	}
	joined := lockmgr.Ancestor{Owner: owner(50), Child: s.Now()}
	if g := c.Guard(); g == nil || *g != joined {
		t.Errorf("joined: %+v", g)
	}
	if up := c.Ancestors(); len(up) != 2 || up[0].Owner != owner(3) || up[1] != joined {
		t.Errorf("the ancestors: %+v", up)
	}
	if !c.BelongsTo(NewIdentity(owner(50), born(999))) {
		t.Error("it does not share what the holder has")
	}
	if c.JoinGuard() {
		t.Error("it is news again")
	}
	s.wantAsked("environment 7", "lineage 7")
	if want := []string{"7 joins lock-1"}; !slices.Equal(s.joined, want) {
		t.Errorf("told of %q", s.joined)
	}
}

// Without any lock to join no environment is looked at, and without a lock of that name no
// ancestor.
func TestJoinGuardThatIsNotThere(t *testing.T) {
	s := onStage(t, &process{pid: 7, env: "lock-1"}, &process{pid: 8})
	c := s.room.Caller(sender(7))
	s.asked = nil
	if c.JoinGuard() {
		t.Error("joined no lock")
	}
	s.wantAsked()
	s.guards["another"] = Guard{UID: 1000, Owner: owner(50)}
	if c.JoinGuard() || c.Guard() != nil {
		t.Error("joined a lock of another name")
	}
	s.wantAsked("environment 7")
	if s.room.Caller(sender(8)).JoinGuard() {
		t.Error("joined a lock without a name")
	}
	if s.room.Itself().JoinGuard() {
		t.Error("a caller that cannot be seen has joined a lock")
	}
	s.wantAsked("thread 8", "environment 8")
	if len(s.joined) > 0 {
		t.Errorf("told of %q", s.joined)
	}
}

// A setuid program has its environment from another user.
func TestJoinGuardOfAnotherUser(t *testing.T) {
	s := onStage(t, &process{pid: 7, env: "lock-1"})
	s.guards["lock-1"] = Guard{UID: 1001, Owner: owner(50)}
	c := s.room.Caller(sender(7))
	if c.JoinGuard() || c.Guard() != nil || len(s.joined) > 0 {
		t.Errorf("joined %v, told of %q", c.Guard(), s.joined)
	}
}

// A descendant of the holder, and the holder, join nothing; but where whoever asked for the
// lock had joined another one before, they join that.
func TestJoinGuardOfAnAncestor(t *testing.T) {
	s := onStage(t, &process{pid: 7, up: []int32{3}, env: "lock-1"}, &process{pid: 3, env: "lock-1"})
	for _, pid := range []int32{7, 3} {
		s.guards["lock-1"] = Guard{UID: 1000, Owner: owner(3)}
		if c := s.room.Caller(sender(pid)); c.JoinGuard() || c.Guard() != nil {
			t.Errorf("process %d has joined %+v", pid, c.Guard())
		}
		s.guards["lock-1"] = Guard{UID: 1000, Owner: owner(3), Before: &lockmgr.Ancestor{Owner: owner(3)}}
		if c := s.room.Caller(sender(pid)); c.JoinGuard() || c.Guard() != nil {
			t.Errorf("process %d has joined its ancestor: %+v", pid, c.Guard())
		}
		s.guards["lock-1"] = Guard{UID: 1000, Owner: owner(3), Before: &lockmgr.Ancestor{Owner: owner(50)}}
		if c := s.room.Caller(sender(pid)); !c.JoinGuard() || c.Guard() == nil || c.Guard().Owner != owner(50) {
			t.Errorf("process %d has joined %+v", pid, c.Guard())
		}
	}
	if len(s.joined) != 6 {
		t.Errorf("told of %q", s.joined)
	}
}

// Members of a transaction are the descendants of its owner, those that name it, and the
// descendants of a holder that they have joined.
func TestTxn(t *testing.T) {
	s := onStage(t, &process{pid: 1}, &process{pid: 4, up: []int32{1}}, &process{pid: 2, up: []int32{1}},
		&process{pid: 5, env: "txn-1"}, &process{pid: 6, env: "lock-1"})
	c := s.room.Caller(sender(4))
	if c.Txn() != nil {
		t.Error("a transaction without any")
	}
	s.wantAsked("thread 4")
	txn := s.begin(1, 30, "txn-1")
	s.guards["lock-1"] = Guard{UID: 1000, Owner: owner(1)}
	for pid, want := range map[int32]bool{1: true, 4: true, 2: false, 5: true, 6: true} {
		if got := s.room.Caller(sender(pid)).Txn() == txn; got != want {
			t.Errorf("process %d is a member: %v", pid, got)
		}
	}
	if s.room.Itself().Txn() != nil {
		t.Error("a caller that cannot be seen is a member")
	}
	if c.Txn() != txn {
		t.Error("who asked before the transaction began is none of its members")
	}
	s.asked = nil
	if c.Txn() != txn {
		t.Error("it is no member any more")
	}
	s.wantAsked()
	s.running.Forget(txn)
	if c.Txn() != nil {
		t.Error("it is a member of a transaction that is over")
	}
}
