package holders

import (
	"slices"
	"testing"

	"latchfs/lockmgr"
	"latchfs/lockmgr/proc"
)

// A child that has inherited the descriptor holds the file after its parent has closed its
// own, and is the one whose file it is from then on. It is looked at once.
func TestForkBeforeClose(t *testing.T) {
	w := newWorld(t, 10, 11)
	s := w.opened(10, false)
	w.procs[11].fds = 1
	by := w.closes(s, 10)
	w.want("the parent has closed", s.Find(owner(10), by), true, 11)
	w.wantAsked("the parent has closed", "opens 11", "opens of closer 10")
	w.dies(10)
	by = w.closes(s, 11)
	w.want("the child has closed", s.Find(owner(11), by), false, 0)
	if seen := s.Seen(); !slices.Equal(seen, []lockmgr.Owner{owner(11)}) {
		t.Errorf("seen: %v", seen)
	}
}

// Whoever has inherited the descriptor stays in the set when its parent is dead and another
// process closes its own.
func TestOrphanHolds(t *testing.T) {
	w := newWorld(t, 10, 11)
	s := w.opened(10, false)
	w.start(20, 1).fds = 1
	s.Note(owner(20))
	w.procs[11].fds = 1
	w.closes(s, 10)
	w.dies(10)
	w.want("another one closes", s.Find(owner(20), w.closes(s, 20)), true, 11)
}

// A child that exits has no descriptor any more, whatever is seen of it, and the owner is
// looked at, whoever closes.
func TestChildExits(t *testing.T) {
	w := newWorld(t, 10, 11)
	s := w.opened(10, false)
	w.procs[11].exiting = true
	by := w.closes(s, 11)
	w.procs[11].fds = 1
	w.want("the owner has it", s.Find(owner(10), by), true, 0)
	w.wantAsked("the child closes", "opens 10")
	w.procs[10].fds = 0
	w.want("the owner has closed it", s.Find(owner(10), by), false, 0)
}

// The children of a process that exits are known from its close on, though it is dead before
// it is asked who they were.
func TestForkBeforeExit(t *testing.T) {
	for _, late := range []bool{false, true} {
		w := newWorld(t, 10, 11, 12)
		s := w.opened(10, false)
		w.procs[10].exiting, w.procs[10].fds = true, 2 // they are gone by the time of the FLUSH
		if !late {
			w.procs[12].fds = 1
		}
		by := w.closes(s, 10)
		w.dies(10)
		w.procs[12].fds = 1 // passed to it by whoever has it
		w.want("after the exit", s.Find(owner(10), by), true, 12)
	}
}

// Somebody who forked after a process of the set was noted is a member by descent.
func TestForkAfterOpen(t *testing.T) {
	w := newWorld(t, 10)
	s := w.opened(10, false)
	w.start(20, 1)
	s.Note(owner(20))
	w.start(21, 20).fds = 1
	by := w.closes(s, 10)
	w.want("a child of another one holds it", s.Find(owner(10), by), true, 21)
	w.procs[21].fds = 0
	w.want("nobody does", s.Find(owner(10), by), false, 0)
	w.want("nor if nobody closes", s.Find(owner(10), nil), false, 0)
	w.procs[21].fds = 1
	w.want("now it does, and nobody closes", s.Find(owner(10), nil), true, 21)
}

// Of two descriptors the second still holds the file, and it stays its owner's.
func TestDup(t *testing.T) {
	w := newWorld(t, 10)
	s := w.opened(10, false)
	w.procs[10].fds = 2
	by := w.closes(s, 10)
	w.want("one of two is closed", s.Find(owner(10), by), true, 0)
	by = w.closes(s, 10)
	w.want("both are closed", s.Find(owner(10), by), false, 0)
	w.wantAsked("two closes", "opens of closer 10", "opens of closer 10")
	by.Program = "" // it may be in execve, of which the quick look cannot tell
	s.Find(owner(10), by)
	s.Find(owner(10), nil)
	w.wantAsked("the closer may be in execve, and there is none", "opens 10", "opens 10")
}

// A process in execve holds the file until it can be looked at.
func TestExec(t *testing.T) {
	w := newWorld(t, 10, 11)
	s := w.opened(10, false)
	w.procs[10].inExec = true
	by := w.closes(s, 10)
	w.want("the owner is in it", s.Find(owner(10), by), true, 0)
	w.procs[10].inExec, w.procs[11].inExec = false, true
	by = w.closes(s, 10)
	w.want("its child is in it", s.Find(owner(10), by), true, 11)
	w.procs[11].nameless = true
	by = w.closes(s, 10)
	w.want("its child is in it, and may be anybody", s.Find(owner(10), by), true, 0)
	w.procs[11].inExec = false
	by = w.closes(s, 10)
	w.want("nobody is in it", s.Find(owner(10), by), false, 0)
}

// Who was given the descriptor over a socket is not of the set, and is found among all.
func TestPassedByASocket(t *testing.T) {
	w := newWorld(t, 10)
	s := w.opened(10, false)
	w.start(50, 1).fds = 1
	by := w.closes(s, 10)
	w.want("the sender has closed", s.Find(owner(10), by), false, 0)
	if o, ok := s.Anybody(); !ok || o != owner(50) {
		t.Errorf("among all %v was found, %v", o, ok)
	}
	s.Note(owner(50)) // it writes
	w.want("after a request of the receiver", s.Find(owner(10), nil), true, 50)
	w.procs[50].fds = 0
	if o, ok := s.Anybody(); ok {
		t.Errorf("nobody has it, and %v was found", o)
	}
}

// Who died is forgotten, and so is one whose pid another process has now.
func TestTheDeadAreForgotten(t *testing.T) {
	w := newWorld(t, 10)
	s := w.opened(10, false)
	w.start(20, 1)
	s.Note(owner(20))
	w.dies(20)
	stranger := w.start(20, 1)
	stranger.birth, stranger.fds = 99, 1
	w.want("a stranger has the pid", s.Find(owner(10), w.closes(s, 10)), false, 0)
	if seen := s.Seen(); !slices.Equal(seen, []lockmgr.Owner{owner(10)}) {
		t.Errorf("seen: %v", seen)
	}
}

// A process of which nothing is known is nobody's member, and has no children. Its own file it
// holds in doubt.
func TestForeign(t *testing.T) {
	w := newWorld(t, 10)
	s := w.opened(10, false)
	w.procs[10].fds = 0
	by := &Closer{Owner: lockmgr.Owner{Start: 5}}
	s.Note(by.Owner)
	s.NoteChildren(by)
	w.wantAsked("the close of a foreigner")
	w.want("its close, of a file of its own", s.Find(by.Owner, by), true, 0)
	w.wantAsked("the look after it")
	if !s.IsUnseen() {
		t.Error("the file of a foreigner is not unseen")
	}
	w.want("of another's file", s.Find(owner(10), by), false, 0)
	if s.IsUnseen() {
		t.Error("another's file is unseen")
	}
	if seen := s.Seen(); len(seen) != 1 {
		t.Errorf("seen: %v", seen)
	}
}

// A process that is not shown to the daemon holds the file in doubt, until it exits. It is not
// found among all, for nearly all might hold the file then.
func TestHidden(t *testing.T) {
	w := newWorld(t, 10)
	s := w.opened(10, true)
	w.procs[10].hidden = true
	w.want("a close", s.Find(owner(10), w.closes(s, 10)), true, 0)
	if !s.IsUnseen() {
		t.Error("it is not unseen")
	}
	s.StopAwaiting()
	if s.IsUnseen() {
		t.Error("it is unseen although nobody waits any more")
	}
	s.c.Doubts = false
	w.want("a close of one that hides itself from its own user", s.Find(owner(10), w.closes(s, 10)), false, 0)
	s.c.Doubts = true
	w.procs[10].exiting = true
	w.want("its end", s.Find(owner(10), w.closes(s, 10)), false, 0)
	if s.IsUnseen() {
		t.Error("it is unseen, and nobody may hold it")
	}
	w.procs[10].exiting = false
	if o, ok := s.Anybody(); ok {
		t.Errorf("among all %v was found", o)
	}
	w.start(50, 1).fds = 1
	if o, ok := s.Anybody(); !ok || o != owner(50) {
		t.Errorf("among all %v was found, %v", o, ok)
	}
}

// A process that is not shown holds the file until it has closed what it has opened, whatever its
// children close, and whoever else may have the file.
func TestHiddenOpener(t *testing.T) {
	for what, doubts := range map[string]bool{"its own user": false, "another user": true} {
		w := newWorld(t, 10, 20, 30)
		s := w.opened(10, true)
		s.NoteOpen(owner(10), false)
		s.c.Doubts = doubts
		s.c.Since.Tick = 99 // they are older: none has inherited a descriptor
		w.procs[10].hidden, w.procs[20].hidden = true, true
		w.want(what+": a close of its child", s.Find(owner(10), w.closes(s, 20)), true, 0)
		w.want(what+": one of two closes", s.Find(owner(10), w.closes(s, 10)), true, 0)
		w.want(what+": a close of its child after that", s.Find(owner(10), w.closes(s, 30)), true, 0)
		if s.IsUnseen() {
			t.Errorf("%s: it is in doubt whether it holds the file", what)
		}
		w.want(what+": the other of two closes", s.Find(owner(10), w.closes(s, 10)), doubts, 0)
		w.want(what+": one close more", s.Find(owner(10), w.closes(s, 10)), doubts, 0)
		s.NoteOpen(owner(10), false)
		w.procs[20].hidden = false
		w.want(what+": a child's close, opened anew", s.Find(owner(10), w.closes(s, 20)), true, 0)
	}
}

// Of a process that is unknown the closes cannot be counted.
func TestUnknownOpener(t *testing.T) {
	w := newWorld(t, 10)
	s := w.opened(10, false)
	s.c.Doubts = false
	s.NoteOpen(lockmgr.Owner{}, false)
	w.start(20, 10).hidden = true
	w.want("a close beside a hidden child that has opened nothing", s.Find(owner(10), w.closes(s, 10)), false, 0)
}

// A child that is not shown holds the file in doubt if it may have inherited a descriptor of it, or
// has used one. The file is its own only when its owner is gone.
func TestHiddenChild(t *testing.T) {
	for what, c := range map[string]struct {
		since uint64
		used  bool
		held  bool
	}{
		"younger than the file":     {since: 15, held: true},
		"older":                     {since: 25},
		"older, which has used it":  {since: 25, used: true, held: true},
		"younger, that has used it": {since: 15, used: true, held: true},
	} {
		w := newWorld(t, 10, 20)
		s := w.opened(10, false)
		s.c.Since.Tick = c.since
		w.procs[20].hidden = true
		if c.used {
			s.Note(owner(20))
		}
		w.want("a close beside a child "+what, s.Find(owner(10), w.closes(s, 10)), c.held, 0)
		if s.IsUnseen() != c.held {
			t.Errorf("%s: unseen is %v", what, s.IsUnseen())
		}
		by := w.closes(s, 10)
		if s.IsHeldAfter(by) != c.held {
			t.Errorf("%s: held is %v", what, !c.held)
		}
		w.procs[10].exiting = true
		next := int32(0)
		if c.held {
			next = 20
		}
		w.want("the end of the owner beside a child "+what, s.Find(owner(10), w.closes(s, 10)), c.held, next)
		w.procs[10].exiting = false
		w.start(30, 10).fds = 1
		w.want("a close beside two children, one of them "+what, s.Find(owner(10), w.closes(s, 10)), true, 30)
		if s.IsUnseen() {
			t.Errorf("%s: unseen, and one is seen to hold it", what)
		}
	}
}

// Whoever may hold the file of a dead owner has it from then on.
func TestHiddenChildOfTheDead(t *testing.T) {
	w := newWorld(t, 10, 20)
	s := w.opened(10, false)
	w.procs[20].hidden = true
	s.Note(owner(20))
	by := w.closes(s, 20)
	w.procs[10].fds = 0
	w.want("while the owner lives", s.Find(owner(10), by), true, 0)
	w.dies(10)
	w.want("when it is dead", s.Find(owner(10), by), true, 20)
}

// A mapping without a descriptor holds the file, if the file could be mapped at all.
func TestMappedOnly(t *testing.T) {
	for _, reads := range []bool{false, true} {
		w := newWorld(t, 10, 11)
		s := w.opened(10, reads)
		w.procs[11].mapped = true
		by := w.closes(s, 10)
		if !reads {
			w.want("opened to write alone", s.Find(owner(10), by), false, 0)
			if s.IsMapped() || s.IsOnlyMapped() {
				t.Error("it is mapped, and nobody could")
			}
			w.wantAsked("opened to write alone", "opens 11", "opens of closer 10", "opens 11")
			continue
		}
		w.want("a child has it mapped", s.Find(owner(10), by), true, 11)
		if !s.IsOnlyMapped() || !s.IsMapped() {
			t.Error("nobody has it mapped")
		}
		w.procs[11].mapped = false
		by = w.closes(s, 10)
		w.want("no more", s.Find(owner(10), by), false, 0)
		if s.IsMapped() {
			t.Error("somebody has it mapped still")
		}
		w.procs[11].memBusy = true
		if !s.IsMapped() {
			t.Error("what cannot be seen is not taken for mapped")
		}
		w.procs[11].memBusy, w.procs[10].mapped = false, true
		w.want("the owner has it mapped", s.Find(owner(10), by), true, 0)
		s.NoteOpen(owner(10), false)
		if s.IsOnlyMapped() {
			t.Error("it was opened again, and is only mapped")
		}
		w.want("opened to write alone since", s.Find(owner(10), nil), true, 0)
	}
}

// A file of which nobody is the owner any more is held by whoever holds it.
func TestIsHeldAfter(t *testing.T) {
	w := newWorld(t, 10, 11)
	s := w.opened(10, false)
	want := func(when string, by *Closer, held bool) {
		t.Helper()
		if s.IsHeldAfter(by) != held {
			t.Errorf("%s: held %v", when, !held)
		}
	}
	w.procs[10].fds = 2
	by := w.closes(s, 10)
	want("the closer has another descriptor", by, true)
	w.procs[10].exiting = true
	by = w.closes(s, 10)
	w.procs[10].fds = 1
	want("it exits, which has closed it", by, false)
	w.procs[11].fds = 1
	want("a child has been given it", by, true)
	by = w.closes(s, 10)
	w.asked = nil
	want("a child has inherited it", by, true)
	w.wantAsked("a child has inherited it") // it was looked at just before
}

// Looks are charged to a user who has a limit. Beyond it nobody is looked at, and the file
// is held.
func TestLooksAreCharged(t *testing.T) {
	w := newWorld(t, 10, 11)
	s := w.openedAs(user, 10, false)
	by := w.closes(s, 10)
	w.wantAsked("within the limit", "descriptors 11", "opens 11")
	w.want("beyond the limit", s.Find(owner(10), by), true, 0)
	w.wantAsked("beyond the limit", "descriptors 10")
	by = w.closes(s, 10)
	if s.HasLeft(owner(10)) || !s.IsHeldAfter(by) {
		t.Error("beyond the limit somebody has left")
	}
	if o, ok := s.Anybody(); ok {
		t.Errorf("beyond the limit %v was found", o)
	}
	if slices.ContainsFunc(w.asked, func(what string) bool { return what[:5] == "opens" }) {
		t.Errorf("beyond the limit it was asked %q", w.asked)
	}

	s = w.openedAs(user, 10, false) // another file: a limit of its own in this test
	w.procs[10].exiting = true
	by = w.closes(s, 10) // the child is looked at, and does not hold it
	w.want("beyond the limit for the child of one that exits", s.Find(owner(10), by), true, 0)
	w.procs[11].fds = 1
	by.held = []int32{11}
	w.want("which was seen to hold it before", s.Find(owner(10), by), true, 11)
}

// A look is put off where it could find nobody but the owner.
func TestCanFindOnlyTheOwner(t *testing.T) {
	for what, change := range map[string]func(w *world, s *Set, by *Closer){
		"":                            func(*world, *Set, *Closer) {},
		"it exits":                    func(_ *world, _ *Set, by *Closer) { by.Exiting = true },
		"it is killed":                func(_ *world, _ *Set, by *Closer) { by.Killed = true },
		"it may be in execve":         func(_ *world, _ *Set, by *Closer) { by.Program = "" },
		"the file can be mapped":      func(_ *world, s *Set, _ *Closer) { s.NoteOpen(owner(10), true) },
		"another one has it as well":  func(_ *world, s *Set, _ *Closer) { s.Note(owner(20)) },
		"it has children":             func(w *world, s *Set, by *Closer) { w.start(11, 10); s.NoteChildren(by) },
		"somebody else closes":        func(_ *world, _ *Set, by *Closer) { by.Owner = owner(20) },
		"the owner was another there": func(_ *world, s *Set, _ *Closer) { s.Note(lockmgr.Owner{PID: 10}) },
	} {
		w := newWorld(t, 10)
		s := w.opened(10, false)
		by := w.closes(s, 10)
		change(w, s, by)
		if got := s.CanFindOnly(owner(10), by); got != (what == "") {
			t.Errorf("%q: %v", what, got)
		}
		if s.CanFindOnly(owner(20), by) {
			t.Errorf("%q: the owner is another one, who was never seen", what)
		}
	}
}

// A look that was put off is pending until it is made, or not needed.
func TestPendingLook(t *testing.T) {
	w := newWorld(t, 10)
	s := w.opened(10, false)
	if _, ok := s.PendingLook(); ok || s.EndPendingLook() {
		t.Error("a look is pending that was not put off")
	}
	s.PutOffLook(owner(10))
	if o, ok := s.PendingLook(); !ok || o != owner(10) {
		t.Errorf("pending: %v, %v", o, ok)
	}
	if s.HasLeft(owner(10)) {
		t.Error("it has left, and has a descriptor")
	}
	w.procs[10].fds = 0
	if !s.HasLeft(owner(10)) {
		t.Error("it has not left, and has no descriptor")
	}
	w.procs[10].inExec = true
	if s.HasLeft(owner(10)) {
		t.Error("it has left, and cannot be looked at")
	}
	if !s.EndPendingLook() || s.EndPendingLook() {
		t.Error("a look ends once")
	}
	if _, ok := s.PendingLook(); ok {
		t.Error("a look is pending that has ended")
	}
}

var _ Procs = (*proc.Reader)(nil)
