package sessionstate

import (
	"slices"

	"golang.org/x/sys/unix"
)

// Machine is where one session is in its life, and what those are told who close its
// descriptors when it has ended. Whoever calls it holds the session's mutex, but for Freed.
type Machine struct {
	now    State
	result unix.Errno
	freed  chan struct{} // closed when the session's lock is free
}

// New is a session that writes.
func New() Machine { return Machine{freed: make(chan struct{})} }

// Is reports whether the session is in a state.
func (m *Machine) Is(st State) bool { return m.now == st }

// HasEnded reports whether nobody joins the session any more; see State.HasEnded.
func (m *Machine) HasEnded() bool { return m.now.HasEnded() }

// IsNobodys reports whether what is written comes to no file; see State.IsNobodys.
func (m *Machine) IsNobodys() bool { return m.now.IsNobodys() }

// String is the name of the state.
func (m *Machine) String() string { return m.now.String() }

// Become is the only way from one state to another. It goes also where it may not, for what
// was done was done; and tells of that by an OrderError.
func (m *Machine) Become(to State) error {
	from := m.now
	m.now = to
	if !slices.Contains(next[from], to) {
		return &OrderError{From: from, To: to}
	}
	return nil
}

// AfterTry is what becomes of a session whose commit was tried. e is what came of it:
// a commit that is not known to be on disk has an error, too. published says that what was
// written is the file, whatever e is.
func (m *Machine) AfterTry(e unix.Errno, published bool) State {
	switch {
	case e != 0 && !published:
		return RolledBack
	case e == 0 && m.now == GoingLive:
		return Live
	}
	return Committed
}

// Answer notes what those are told who close a descriptor from now on.
func (m *Machine) Answer(e unix.Errno) { m.result = e }

// Result is what they are told; 0 as long as the session goes on.
func (m *Machine) Result() unix.Errno { return m.result }

// Free lets those go on who wait for the session's lock, which is released. A session has
// one end, so that this comes once.
func (m *Machine) Free() { close(m.freed) }

// Freed is closed when the session's lock is free. At the end of the mount it may stay open.
func (m *Machine) Freed() <-chan struct{} { return m.freed }
