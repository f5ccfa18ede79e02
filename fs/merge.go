package fs

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"latchfs/fs/lostupdate"
	"latchfs/fs/merging"
	"latchfs/lockmgr/policy"
)

// Under the policy "merge" a writer who has read an earlier version is let through
// where that version's content is still there: what it has written is joined with
// the current version when its session ends, under the lock that it has held since.
// mergenames.go does the same for a rename.

// openBases lets what replaced versions held be found. What is known, and the history, are
// there.
func (f *FS) openBases() {
	f.bases.Known = f.knowledge
	if f.versions != nil {
		f.bases.Versions = f.versions
	}
}

// mergeFile is the file st with the name p, as package merging needs it.
func (f *FS) mergeFile(p place, st *unix.Stat_t) merging.File {
	return merging.File{Dir: f.fdOf(p.dir), Name: p.name, Stat: st}
}

// mergeTarget is that as what a change is to be merged with; c is nil of a change by a
// session.
func (f *FS) mergeTarget(c *caller, p place, st *unix.Stat_t) *merging.Target {
	return &merging.Target{
		File: f.mergeFile(p, st), Bases: &f.bases,
		IsMounted: func() bool { return f.isMountpoint(p.dir, p.name) },
		IsStaged:  func() bool { return c != nil && f.txnOf(c) != nil },
	}
}

// holdBase prepares to keep what the file st, which has the name p and is about to be
// replaced, holds: keep does that, once it is replaced.
func (f *FS) holdBase(p place, st *unix.Stat_t) (keep func(replaced bool)) {
	if st == nil {
		return func(bool) {}
	}
	path := f.path(p.dir, p.name)
	set := f.settings(path)
	return f.bases.Hold(f.mergeFile(p, st), path, &set)
}

// mergesCut prepares to merge what is written after a cut to nothing, which is all
// of the content, like what follows an open that truncates. s.mu is held.
func (s *session) mergesCut(x *lostupdate.Loss) *lostupdate.Merge {
	var st unix.Stat_t
	dir, name := s.where()
	if s.inPlace || s.txn.Load() != nil || unix.Fstatat(s.f.fdOf(dir), name, &st, unix.AT_SYMLINK_NOFOLLOW) != nil {
		return nil
	}
	return x.Merge(s.f.mergeTarget(nil, place{dir, name, nil}, &st))
}

var _ merging.Draft = sessionDraft{}

// Theirs implements merging.Draft.
func (d sessionDraft) Theirs() merging.File {
	dir, name := d.s.where()
	return d.s.f.mergeFile(place{dir, name, nil}, statOf(d.s.baseVersion))
}

// InPlace implements merging.Draft.
func (d sessionDraft) InPlace() bool { return d.s.inPlace }

// Rewrite implements merging.Draft.
func (d sessionDraft) Rewrite(do func() error) error {
	return d.s.f.retryWithRoom(func() error { return d.s.asWriter(do) })
}

// mergeLocked makes the shadow of a session that began on a version its writer did
// not know the merged content. s.mu is held; the answer is that of decideLocked.
func (s *session) mergeLocked() unix.Errno {
	d := sessionDraft{s}
	if !s.writing.Merges() || s.baseVersion == nil {
		return 0
	}
	if err := d.CheckBase(); err != nil {
		return s.publishFailed(err)
	}
	changed, err := merging.Join(s.writing.Merge(), d)
	var n *lostupdate.NotMerged
	switch {
	case errors.As(err, &n):
		reason := n.Error()
		n.Loss.Refuse()
		return s.rejectFor(unix.EBUSY, reason, n)
	case err != nil:
		return s.rejectLocked(errnoOf(err), err.Error())
	case changed:
		s.content.Write()
		// Its pages are what the writer wrote. The kernel waits for whoever reads or writes
		// one, and that request may wait for s.mu.
		go s.f.notifyInode(s.inode, 0, -1)
	}
	return 0
}

// hintOf is what to do about a refused change, if it was refused for that; id is that
// of the bytes that are kept.
func hintOf(why error, id string) string {
	var n *lostupdate.NotMerged
	if !errors.As(why, &n) {
		return ""
	}
	if id == "" {
		return joinByHand
	}
	return fmt.Sprintf("`latchfs rejected diff %s` shows what was written beside the file as it is now. %s", id, joinByHand)
}

// holdBase prepares to keep what the session is about to replace.
func (s *session) holdBase(dir *inode, name string) (keep func(replaced bool)) {
	var st unix.Stat_t
	if s.baseVersion == nil || s.settings.LostUpdate != policy.Merge || s.inPlace ||
		unix.Fstatat(s.f.fdOf(dir), name, &st, unix.AT_SYMLINK_NOFOLLOW) != nil {
		return func(bool) {}
	}
	return s.f.holdBase(place{dir, name, nil}, &st)
}

// unmergeLocked gives the shadow of a session that is refused after all back what its
// writer has written.
func (s *session) unmergeLocked() {
	if err := merging.TakeBack(s.writing.Merge(), s.shadow.FD()); err != nil {
		s.f.log.Errorf("what was written to %q is lost, but for what was merged of it: %v", s.path(), err)
	}
}
