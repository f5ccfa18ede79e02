package fs

import (
	"errors"

	"golang.org/x/sys/unix"

	"latchfs/fs/judge"
	"latchfs/lockmgr/proc"
)

// JudgesLines implements appends.End. Half of a line that is judged is not shown to anybody:
// it waits for its end, or the end of its writer.
func (a *appender) JudgesLines() bool { return a.f.judge.JudgesLines(a.f.nodePath(a.h.n)) }

// lineGoesOn reports whether a close may leave an unfinished line, and nothing
// else, for a later one: a shell that redirects one command closes a copy of its
// descriptor.
func (a *appender) lineGoesOn(c *caller) bool {
	if !a.queue.HoldsOnlyLine() || !a.JudgesLines() {
		return false
	}
	file := a.f.procFile(a.h.n)
	for _, pid := range []int32{c.owner.PID, a.c.owner.PID} {
		if pid == 0 {
			continue
		}
		if w, _, err := a.f.proc.Opens(pid, file); err == nil && w > 0 || errors.Is(err, proc.ErrBusy) {
			return true
		}
	}
	return false
}

// judgeBatch judges whole lines that are about to be appended to a.fd, as far as a
// file is appended to that is judged at all: see judge.ByLines. What is refused is
// kept aside.
func (a *appender) judgeBatch(b []byte) unix.Errno {
	err := a.f.judge.Lines(append(a.f.otherPaths(a.h.n), a.f.nodePath(a.h.n)), a.fd, b)
	if err == nil {
		return 0
	}
	e := judge.Errno(err)
	a.keepBytes(b, e, judge.Reason(err), err)
	return e
}

// judgeCut judges whether a.fd may be cut off at a size, or made longer by zeros.
func (a *appender) judgeCut(size int64) unix.Errno {
	path := a.f.nodePath(a.h.n)
	if err := a.f.judge.Cut(path, a.fd, size); err != nil {
		return a.f.refuseContent(a.c, &judge.Refusal{Op: opTruncate, Path: path, Err: err})
	}
	return 0
}
