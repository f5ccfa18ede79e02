package fs

import (
	"errors"

	"latchfs/fs/deaths"
	"latchfs/fs/judge"
	"latchfs/fs/lostupdate"
	"latchfs/fs/merging"
	"latchfs/fs/refusals"
	"latchfs/fs/suid"
	"latchfs/journal/commit"

	"golang.org/x/sys/unix"
)

// mayFileLocked refuses what the session is about to commit if that is to have the name of
// a claim file and is another claim's.
func (cm *commits) mayFileLocked(s *session) unix.Errno {
	dir, name := s.where()
	lb, ok := s.lock.Request().Label.(*label)
	if !ok {
		return 0
	}
	err := cm.claims.clerk.May(lb.c, cm.claims.claimName(dir, name), func() (int, error) {
		return unix.FcntlInt(uintptr(s.shadow.FD()), unix.F_DUPFD_CLOEXEC, 0)
	})
	if err != nil {
		return cm.rejectLocked(s, unix.EBUSY, err.Error())
	}
	return 0
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

// cutByLocked does for the shadow's setuid and setgid bits what an open with O_TRUNC by the caller
// does.
func (cm *commits) cutByLocked(s *session, c *caller) error {
	var st unix.Stat_t
	if err := unix.Fstat(s.shadow.FD(), &st); err != nil {
		return err
	}
	if st.Mode&suid.Bits == 0 || c.keepsSuid(&st, 0) {
		return nil
	}
	return cm.dropBitsLocked(s)
}

// dropBitsLocked takes those bits off the shadow, which somebody without CAP_FSETID has cut. They
// are gone at once: fixMode leaves a new file what it has at the close.
func (cm *commits) dropBitsLocked(s *session) error {
	s.suid.CutByOrdinary()
	return cm.handles.killSuidOf(s.inode, s.shadow.FD(), s.suid.IsIn)
}

// mergeLocked makes the shadow of a session that began on a version its writer did
// not know the merged content. s.mu is held; the answer is that of decideLocked.
func (cm *commits) mergeLocked(s *session) unix.Errno {
	d := sessionDraft{cm, s}
	if !s.writing.Merges() || s.baseVersion == nil {
		return 0
	}
	if err := d.CheckBase(); err != nil {
		return cm.publishFailed(s, err)
	}
	changed, err := merging.Join(s.writing.Merge(), d)
	var n *lostupdate.NotMerged
	switch {
	case errors.As(err, &n):
		reason := n.Error()
		n.Loss.Refuse()
		return cm.rejectFor(s, unix.EBUSY, reason, n)
	case err != nil:
		return cm.rejectLocked(s, errnoOf(err), err.Error())
	case changed:
		s.content.Write()
		// Its pages are what the writer wrote. The kernel waits for whoever reads or writes
		// one, and that request may wait for s.mu.
		go cm.kernel.notifyInode(s.inode, 0, -1)
	}
	return 0
}

// unmergeLocked gives the shadow of a session that is refused after all back what its
// writer has written.
func (cm *commits) unmergeLocked(s *session) {
	if err := merging.TakeBack(s.writing.Merge(), s.shadow.FD()); err != nil {
		cm.disk.log.Errorf("what was written to %q is lost, but for what was merged of it: %v", s.path(), err)
	}
}

// judgeLocked is the validators' place among the checks of a commit: the base is
// current, and what they accept is published next.
func (cm *commits) judgeLocked(s *session) unix.Errno {
	asked, err := s.judged.Judge(cm.judging.judge, sessionDraft{cm, s})
	var conflict *commit.ConflictError
	switch {
	case errors.As(err, &conflict):
		return cm.publishFailed(s, err)
	case err != nil:
		return cm.rejectFor(s, judge.Errno(err), judge.Reason(err), err)
	case asked && !cm.locks.keepsLock(s): // it may have taken long
		return cm.rejectLocked(s, unix.ESTALE, s.theft())
	}
	return 0
}
