package fs

import (
	"slices"

	"golang.org/x/sys/unix"

	"latchfs/fs/content"
	"latchfs/fs/deaths"
	"latchfs/fs/refusals"
	"latchfs/lockmgr"
	"latchfs/lockmgr/policy"
)

// A process that dies by a signal with a file open has not finished the file. The policy's
// on-kill says what becomes of the file (docs/policy.md).

// deathOf is the death of the sender of a FLUSH that is dying by a signal.
func deathOf(c *caller, sig int) *deaths.Death {
	return &deaths.Death{Owner: c.Owner(), Signal: unix.Signal(sig), Program: c.Program(), Lineage: c.Ancestors()}
}

// isBystander reports whether a process that is being killed has merely inherited a descriptor
// of the shadow: it has not opened that, and written nothing since it was forked. What
// others have written to the file is as good as it was. s.mu is held.
func (en *endings) isBystander(s *session, o lockmgr.Owner) bool {
	if s.holders.CanMap() || s.toll.MayHaveWritten(o.PID) {
		return false
	}
	if written, known := en.callers.proc.HasWritten(o.PID); known {
		return !written
	}
	// An ordinary user's daemon may not ask that of a process that is dying; but all that is
	// written comes to it.
	return !s.passed
}

// isHeir reports whether a process has merely inherited its descriptor of the shadow: it has
// neither opened that nor is it the session's owner. s.mu is held.
func (s *session) isHeir(o lockmgr.Owner) bool {
	return o != s.opener && o != s.who.Load().Owner() && !s.toll.HasOpened(o.PID)
}

// isDismissed reports whether an heir was a worker that its own program has most likely asked
// to stop, as Python's multiprocessing.Pool does at its end: it runs the program of its parent,
// which goes on and knows what it has in the file.
func (en *endings) isDismissed(d *deaths.Death) bool {
	return d.Signal == unix.SIGTERM && en.callers.proc.RunsAsParent(d.Owner.PID)
}

// noteWriterLocked notes who is about to change the content of a shadow: who has sent the
// request. s.mu is held.
func (co *contents) noteWriterLocked(s *session, by *Request) {
	s.toll.Wrote(by.TID, func() int32 {
		th, err := co.callers.proc.Thread(by.TID)
		if err != nil {
			return 0
		}
		return th.TGID
	})
}

// isStep reports whether an heir was a step of the program that has opened the shadow, which goes
// on. A file that may be changed in its middle is not whole for what others write to it after
// the death. s.mu is held.
func isStep(s *session, d *deaths.Death) bool {
	ofOpener := func(a lockmgr.Ancestor) bool { return a.Owner == s.opener }
	return !s.holders.CanMap() && slices.ContainsFunc(d.Lineage, ofOpener)
}

// noteKilledLocked notes that a process was killed with the shadow open. s.mu is held.
func (en *endings) noteKilledLocked(s *session, d *deaths.Death) {
	writer, isHeir := s.who.Load().Owner(), s.isHeir(d.Owner)
	switch {
	case isHeir && en.isDismissed(d):
	case en.isBystander(s, d.Owner):
		s.toll.NoteIdle(d, writer)
	case isHeir && d.WasStopped() && isStep(s, d):
		s.toll.NoteHeir(d, writer, s.stampLocked())
	default:
		s.toll.Note(d, writer, s.stampLocked())
	}
}

// isUnfinishedLocked reports whether the death of a writer keeps what it has written
// from becoming the file. s.mu is held.
func (s *session) isUnfinishedLocked() bool {
	now := s.stampLocked()
	s.toll.Count(now, now.Size == 0, s.settings.OnKill == policy.Rollback, s.who.Load().Owner())
	return s.toll.KeepsOut(s.settings.OnKill, deaths.File{
		IsNew: s.isNew.Load(), WasSynced: s.saved.WasSynced(),
		IsSynced: func() bool { return s.saved.IsSynced(s.stampLocked()) },
	})
}

// stampLocked tells the content of the shadow from what it was; zero if that cannot
// be seen.
func (s *session) stampLocked() content.Stamp { return content.Look(s.shadow.FD()) }

// stamped is stampLocked where s.mu is not held.
func (s *session) stamped() content.Stamp {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stampLocked()
}

// toldLocked is what a close by a process is told of how the session ended.
func (en *endings) toldLocked(s *session, o lockmgr.Owner) unix.Errno {
	if !s.toll.Tells(o == s.opener, s.output) {
		return 0
	}
	if s.writtenLate() {
		return unix.ESTALE // nobody will find it in the file; RELEASE keeps it aside
	}
	return s.state.Result()
}

// concernDeadLocked makes the refusal one of what the killed process has written, of
// which size bytes were there: it concerns those to whom the process belonged. s.mu
// is held.
func (cm *commits) concernDeadLocked(s *session, x *refusals.Refusal, size int64) {
	d := s.toll.Worst()
	x.Owner, x.Lineage = d.Owner, d.Lineage
	x.Reason += ", so " + deaths.Outcome(size, s.isNew.Load())
	if x.Kept != "" {
		x.Hint = "To make them the file after all: latchfs rejected restore " + x.Kept
	}
}
