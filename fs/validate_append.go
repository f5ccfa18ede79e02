package fs

import (
	"errors"

	"golang.org/x/sys/unix"

	"latchfs/fs/appends"
	"latchfs/lockmgr/proc"
)

// otherNamesJudgeRecords is judgesRecords for the further names of a file.
func (f *FS) otherNamesJudgeRecords(n *inode) bool {
	for _, path := range f.otherPaths(n) {
		if !judgesRecords(f.validation(path)) {
			return false
		}
	}
	return true
}

// JudgesLines implements appends.End. Half of a line that is judged is not shown to anybody:
// it waits for its end, or the end of its writer.
func (a *appender) JudgesLines() bool {
	v := a.f.validation(a.f.nodePath(a.h.n))
	return v != nil && len(v.Formats) > 0
}

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
// file is appended to that is judged at all: see judgesRecords. What is refused is
// kept aside.
func (a *appender) judgeBatch(b []byte) unix.Errno {
	err := a.verdict(b)
	if err == nil {
		return 0
	}
	e := judgeErrno(err)
	a.keepBytes(b, e, judgeReason(err), err)
	return e
}

// verdict is the error of the first of the file's names under which b may not be appended.
func (a *appender) verdict(b []byte) error {
	for _, path := range append(a.f.otherPaths(a.h.n), a.f.nodePath(a.h.n)) {
		v := a.f.validation(path)
		if v == nil {
			continue
		}
		if err := appends.Judge(v, a.fd, b); err != nil {
			return err
		}
	}
	return nil
}

// judgeCut judges whether a.fd may be cut off at a size, or made longer by zeros.
func (a *appender) judgeCut(size int64) unix.Errno {
	path := a.f.nodePath(a.h.n)
	v := a.f.validation(path)
	if v == nil {
		return 0
	}
	if err := appends.JudgeCut(v, a.fd, size); err != nil {
		return a.f.refuseContent(a.c, opTruncate, path, "", err)
	}
	return 0
}
