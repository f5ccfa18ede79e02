package records

import (
	"errors"

	"latchfs/fs/appends"
	"latchfs/lockmgr"
	"latchfs/lockmgr/proc"
)

// Procs tells of processes. *proc.Reader says what it answers.
type Procs interface {
	Syscall(tid uint32) (call proc.Call, ok bool)
	Process(pid int32) (proc.Thread, error)
	Opens(pid int32, f proc.File) (writable, readable int, err error)
}

// Show appends the line that is held back, for its own family is about to look at the file, or
// to change it otherwise than by appending; on is Asked if it asks for the attributes of the file
// that the appender has opened. Half of a line that is judged goes on waiting for its end.
func (a *Appender) Show(on appends.Occasion) {
	if !a.c.Host.JudgesLines() {
		a.queue.Flush(on)
	}
}

// LineGoesOn reports whether a close by a process may leave an unfinished line, and nothing
// else, for a later one: a shell that redirects one command closes a copy of its
// descriptor.
func (a *Appender) LineGoesOn(by lockmgr.Owner) bool {
	if !a.queue.HoldsOnlyLine() || !a.c.Host.JudgesLines() {
		return false
	}
	file := a.c.Host.File()
	for _, pid := range []int32{by.PID, a.c.Owner.PID} {
		if pid == 0 {
			continue
		}
		if w, _, err := a.c.Procs.Opens(pid, file); err == nil && w > 0 || errors.Is(err, proc.ErrBusy) {
			return true
		}
	}
	return false
}
