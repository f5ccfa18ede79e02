package fs

import (
	"errors"

	"latchfs/fs/judge"
	"latchfs/fs/lostupdate"
	"latchfs/fs/merging"
	"latchfs/journal/commit"

	"golang.org/x/sys/unix"
)

// acceptLocked decides whether what was written may be published; where the writer does not know
// the version that it replaces, the two are merged first. If not, the session is rolled back, and
// the errno says so. s.mu is held.
func (cm *commits) acceptLocked(s *session) unix.Errno {
	if e, reason := cm.checkLocked(s); e != 0 {
		return cm.rejectLocked(s, e, reason)
	}
	if e := cm.mergeLocked(s); e != 0 {
		return e
	}
	if e := cm.judgeLocked(s); e != 0 {
		return e
	}
	return cm.mayFileLocked(s)
}

// mayFileLocked refuses what the session is about to commit if that is to have the name of
// a claim file and is another claim's.
func (cm *commits) mayFileLocked(s *session) unix.Errno {
	dir, name := s.where()
	lb, ok := s.lock.Request().Label.(*label)
	if !ok {
		return 0
	}
	err := cm.claimFiles.clerk.May(lb.c, cm.claimFiles.claimName(dir, name), func() (int, error) {
		return unix.FcntlInt(uintptr(s.shadow.FD()), unix.F_DUPFD_CLOEXEC, 0)
	})
	if err != nil {
		return cm.rejectLocked(s, unix.EBUSY, err.Error())
	}
	return 0
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
	case asked && !cm.locks.renewForCommit(s): // it may have taken long
		return cm.rejectLocked(s, unix.ESTALE, s.theft())
	}
	return 0
}
