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
	f.recorder.bases.Known = f.rules.knowledge
	if f.disk.versions != nil {
		f.recorder.bases.Versions = f.disk.versions
	}
}

// mergeFile is the file st with the name p, as package merging needs it.
func (jd *judging) mergeFile(p place, st *unix.Stat_t) merging.File {
	return merging.File{Dir: jd.nodes.fdOf(p.dir), Name: p.name, Stat: st}
}

// mergeTarget is mergeFile as what a change is to be merged with; c is nil of a change by a
// session.
func (jd *judging) mergeTarget(c *caller, p place, st *unix.Stat_t) *merging.Target {
	return &merging.Target{
		File: jd.mergeFile(p, st), Bases: &jd.recorder.bases,
		IsMounted: func() bool { return jd.nodes.isMountpoint(p.dir, p.name) },
		IsStaged:  func() bool { return c != nil && jd.callers.txnOf(c) != nil },
	}
}

// holdBase prepares to keep what the file st, which has the name p and is about to be
// replaced, holds: keep does that, once it is replaced.
func (jd *judging) holdBase(p place, st *unix.Stat_t) (keep func(replaced bool)) {
	if st == nil {
		return func(bool) {}
	}
	path := jd.nodes.path(p.dir, p.name)
	set := jd.rules.settings(path)
	return jd.recorder.bases.Hold(jd.mergeFile(p, st), path, &set)
}

// mergesCut prepares to merge what is written after a cut to nothing, which is all
// of the content, like what follows an open that truncates. s.mu is held.
func (jd *judging) mergesCut(s *session, x *lostupdate.Loss) *lostupdate.Merge {
	var st unix.Stat_t
	dir, name := s.where()
	if s.inPlace || s.txn.Load() != nil || unix.Fstatat(jd.nodes.fdOf(dir), name, &st, unix.AT_SYMLINK_NOFOLLOW) != nil {
		return nil
	}
	return x.Merge(jd.mergeTarget(nil, place{dir, name, nil}, &st))
}

var _ merging.Draft = sessionDraft{}

// Theirs implements merging.Draft.
func (d sessionDraft) Theirs() merging.File {
	dir, name := d.s.where()
	return d.judging.mergeFile(place{dir, name, nil}, statOf(d.s.baseVersion))
}

// InPlace implements merging.Draft.
func (d sessionDraft) InPlace() bool { return d.s.inPlace }

// Rewrite implements merging.Draft.
func (d sessionDraft) Rewrite(do func() error) error {
	return d.disk.retryWithRoom(func() error { return d.s.asWriter(do) })
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

// holdBaseOf prepares to keep what the session is about to replace.
func (jd *judging) holdBaseOf(s *session, dir *inode, name string) (keep func(replaced bool)) {
	var st unix.Stat_t
	if s.baseVersion == nil || s.settings.LostUpdate != policy.Merge || s.inPlace ||
		unix.Fstatat(jd.nodes.fdOf(dir), name, &st, unix.AT_SYMLINK_NOFOLLOW) != nil {
		return func(bool) {}
	}
	return jd.holdBase(place{dir, name, nil}, &st)
}
