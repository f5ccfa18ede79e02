package calling

import (
	"slices"
	"testing"

	"latchfs/fs/control"
	"latchfs/lockmgr"
	"latchfs/lockmgr/proc"
)

// A caller is what one look at its thread has shown; nothing else is looked up.
func TestCaller(t *testing.T) {
	s := onStage(t, &process{pid: 7, comm: "sh"})
	for look, find := range map[string]func(Sender) *Caller{
		"thread 7": s.room.Caller, "opener 7": s.room.Opener,
		"closer 7": func(from Sender) *Caller {
			c, sig, exiting := s.room.Closer(from)
			if sig != 9 || !exiting {
				t.Errorf("how the process ends: %d, %v", sig, exiting)
			}
			return c
		},
	} {
		c := find(sender(7))
		tid, start := c.Thread()
		if c.TID() != 7 || tid != 7 || start != 71 || c.UID() != 1000 || c.GID() != 100 || c.Owner() != owner(7) || c.Foreign() {
			t.Errorf("%s: %+v", look, c)
		}
		if c.Comm() != "sh" || c.Program() != "sh" {
			t.Errorf("%s: the program is %q, %q", look, c.Comm(), c.Program())
		}
		s.wantAsked(look)
	}
}

// Of a thread that cannot be seen nothing is known, and no two of them are one owner.
func TestCallerThatCannotBeSeen(t *testing.T) {
	s := onStage(t)
	one, other := s.room.Caller(sender(7)), s.room.Caller(sender(7))
	s.wantAsked("thread 7", "thread 7")
	for _, c := range []*Caller{one, other} {
		if c.TID() != 0 || !c.Foreign() || c.UID() != 1000 || c.GID() != 100 {
			t.Errorf("%+v", c)
		}
	}
	if one.Owner() == other.Owner() || one.BelongsTo(NewIdentity(other.Owner(), born(0))) {
		t.Error("two of them are one owner")
	}
	if !one.BelongsTo(NewIdentity(one.Owner(), born(0))) {
		t.Error("what it has itself is not its own")
	}
	if one.Program() != "" || one.Actor() != "" || one.Describe().Program != "" || len(one.Ancestors()) > 0 {
		t.Errorf("something is known of it: %q, %q, %+v, %v", one.Program(), one.Actor(), one.Describe(), one.Ancestors())
	}
	if _, known := one.Syscall(); known {
		t.Error("its system call is known")
	}
	if one.HasCap(1) {
		t.Error("it has a capability")
	}
	if groups, known := one.Groups(); len(groups) > 0 || known {
		t.Errorf("its groups: %v, %v", groups, known)
	}
	s.wantAsked()
}

// Of a process inside execve(2) that is known which is known already.
func TestCallerInsideExecve(t *testing.T) {
	s := onStage(t, &process{pid: 7, busy: true}, &process{pid: 8, busy: true})
	s.known = owner(7)
	c := s.room.Caller(sender(7))
	if tid, start := c.Thread(); tid != 7 || start != 0 || c.Owner() != owner(7) {
		t.Errorf("one that is known: %+v", c)
	}
	if c := s.room.Caller(sender(8)); c.Foreign() || c.Owner() != (lockmgr.Owner{PID: 8}) {
		t.Errorf("one that is not: %+v", c)
	}
}

// What stands for no process is an owner of its own.
func TestCallerOfNoProcess(t *testing.T) {
	s := onStage(t)
	is := s.room.Itself()
	if !is.Foreign() || is.TID() != 0 || is.UID() != 0 || is.GID() != 0 || is.Owner() == s.room.Itself().Owner() {
		t.Errorf("the filesystem itself: %+v", is)
	}
	u := s.room.User(1000, 100)
	groups, known := u.Groups()
	if !u.Foreign() || u.UID() != 1000 || u.GID() != 100 || !slices.Equal(groups, []uint32{100}) || known || u.Owner() == is.Owner() {
		t.Errorf("a user: %+v, groups %v, %v", u, groups, known)
	}
	s.wantAsked()
}

// What is looked up is looked up once, when it is asked for.
func TestLooksOnce(t *testing.T) {
	s := onStage(t, &process{pid: 7, up: []int32{3}})
	s.labels[7] = "an actor"
	c := s.room.Caller(sender(7))
	s.asked = nil
	for range 2 {
		if call, known := c.Syscall(); !known || call.Nr != 257 {
			t.Errorf("the system call: %+v, %v", call, known)
		}
		c.Describe()
		c.Groups()
		if got := c.Actor(); got != "an actor" {
			t.Errorf("the actor: %q", got)
		}
		if up := c.Ancestors(); len(up) != 1 || up[0].Owner != owner(3) {
			t.Errorf("the ancestors: %v", up)
		}
	}
	s.wantAsked("call 7", "description 7", "groups 7", "label 7", "lineage 7")
}

// What the audit trail says of a caller is kept if it is to be said later.
func TestRemember(t *testing.T) {
	s := onStage(t, &process{pid: 7})
	s.labels[7] = "an actor"
	c := s.room.Caller(sender(7))
	c.Remember()
	s.asked = nil
	delete(s.procs, 7)
	delete(s.labels, 7)
	if c.Program() != "program 7" || c.Actor() != "an actor" {
		t.Errorf("%q, %q", c.Program(), c.Actor())
	}
	s.wantAsked()
}

// An actor that says more of itself than a request may is cut, and stays text.
func TestShortActor(t *testing.T) {
	s := onStage(t, &process{pid: 7})
	for range control.MaxLabel {
		s.labels[7] += "é"
	}
	if got := s.room.Caller(sender(7)).Actor(); len(got) > control.MaxLabel || len(got) < control.MaxLabel-2 || got[len(got)-len("…"):] != "…" {
		t.Errorf("%d bytes: %q", len(got), got)
	}
}

func TestIsDaemon(t *testing.T) {
	s := onStage(t)
	if s.room.Caller(sender(7)).IsDaemon() || s.room.Itself().IsDaemon() {
		t.Error("another one is the daemon")
	}
	c := s.room.Itself()
	c.owner.PID = pid()
	if !c.IsDaemon() {
		t.Error("this process is not the daemon")
	}
}

func TestFamily(t *testing.T) {
	s := onStage(t, &process{pid: 7, family: proc.Family{Shell: owner(3)}})
	if got := s.room.Caller(sender(7)).Family(); got.Shell != owner(3) {
		t.Errorf("%+v", got)
	}
}
