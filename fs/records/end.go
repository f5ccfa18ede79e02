package records

import (
	"time"

	"golang.org/x/sys/unix"

	"latchfs/fs/appends"
	"latchfs/fs/syscalls"
)

// end is an Appender as its queue knows it.
type end Appender

var _ appends.End = (*end)(nil)

func (n *end) appender() *Appender { return (*Appender)(n) }

// TryLock implements appends.End.
func (n *end) TryLock(w appends.Writer) (unlock func(), err error) {
	_, unlock, err = n.c.Host.TryLock(w)
	return unlock, err
}

// Lock implements appends.End.
func (n *end) Lock(w appends.Writer, giveUp <-chan struct{}) (unlock func(), err error) {
	return n.c.Host.Lock(w, giveUp)
}

// Errno implements appends.End.
func (n *end) Errno(err error) unix.Errno { return n.c.Host.Errno(err) }

// Patience implements appends.End.
func (n *end) Patience() time.Duration { return n.c.Host.Patience() }

// Keep implements appends.End.
func (n *end) Keep(b []byte, e unix.Errno, reason string) { n.c.Host.Keep(b, e, reason) }

// JudgesLines implements appends.End. Half of a line that is judged is not shown to anybody:
// it waits for its end, or the end of its writer.
func (n *end) JudgesLines() bool { return n.c.Host.JudgesLines() }

// HoldsLine implements appends.End: whoever asks for the file's attributes has its own lines
// appended first.
func (n *end) HoldsLine(holds bool) {
	n.room.holdsLine(n.appender(), holds)
	if holds {
		n.c.Host.HoldsLine()
	}
}

// InOwnSession implements appends.End.
func (n *end) InOwnSession(w appends.Writer) bool { return n.c.Host.InOwnSession(w) }

// HasOpen implements appends.End.
func (n *end) HasOpen() bool { return n.appender().hasOpen() }

// CutOpen implements appends.End.
func (n *end) CutOpen() []byte { return n.appender().cutOpen() }

// Append implements appends.End.
func (n *end) Append(w appends.Writer, b []byte, on appends.Occasion) unix.Errno {
	return n.appender().append(w, b, on)
}

// IsWorking implements appends.End.
func (n *end) IsWorking(thread uint32) bool {
	if thread == 0 {
		return false
	}
	if call, ok := n.c.Procs.Syscall(thread); ok {
		return syscalls.Writes(call)
	}
	_, err := n.c.Procs.Process(int32(thread))
	return err == nil
}
