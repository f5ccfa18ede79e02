package fs

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"latchfs/fs/bases"
	"latchfs/fs/lostupdate"
	"latchfs/journal/commit"
	"latchfs/lockmgr/knowledge"
	"latchfs/lockmgr/policy"
)

// Under the policy "merge" a writer who has read an earlier version is let through
// where that version's content is still there: what it has written is joined with
// the current version when its session ends, under the lock that it has held since.
// mergenames.go does the same for a rename.

// mergeTarget is the file st with the name p, with which a change of the caller is to be
// merged; c is nil of a change by a session.
type mergeTarget struct {
	c  *caller
	f  *FS
	p  place
	st *unix.Stat_t
}

// KeepsInode implements lostupdate.Target.
func (t *mergeTarget) KeepsInode() bool {
	return t.st.Nlink > 1 || t.f.isMountpoint(t.p.dir, t.p.name)
}

// InTransaction implements lostupdate.Target.
func (t *mergeTarget) InTransaction() bool { return t.c != nil && t.f.txnOf(t.c) != nil }

// Stamp implements lostupdate.Target.
func (t *mergeTarget) Stamp() knowledge.Stamp { return stampOfFile(t.st) }

// Base implements lostupdate.Target.
func (t *mergeTarget) Base(path string, b *knowledge.Basis) ([]byte, bool) {
	return t.f.baseContent(path, b)
}

// Beginning implements lostupdate.Target.
func (t *mergeTarget) Beginning(size int64) ([]byte, bool) { return t.f.beginning(t.p, t.st, size) }

// beginning reads the first bytes of the file that has the name p, which must be st.
func (f *FS) beginning(p place, st *unix.Stat_t, size int64) ([]byte, bool) {
	fd, err := commit.OpenUnnoticed(f.fdOf(p.dir), p.name)
	if err != nil {
		return nil, false
	}
	defer unix.Close(fd)
	data, is, err := bases.Read(fd)
	if err != nil || stampOfFile(is) != stampOfFile(st) || int64(len(data)) < size {
		return nil, false
	}
	return data[:size:size], true
}

// mergesCut prepares to merge what is written after a cut to nothing, which is all
// of the content, like what follows an open that truncates. s.mu is held.
func (s *session) mergesCut(x *lostupdate.Loss) *lostupdate.Merge {
	var st unix.Stat_t
	dir, name := s.where()
	if s.inPlace || s.txn.Load() != nil || unix.Fstatat(s.f.fdOf(dir), name, &st, unix.AT_SYMLINK_NOFOLLOW) != nil {
		return nil
	}
	return x.Merge(&mergeTarget{nil, s.f, place{dir, name, nil}, &st})
}

// mergeLocked makes the shadow of a session that began on a version its writer did
// not know the merged content. s.mu is held; the answer is that of decideLocked.
func (s *session) mergeLocked() unix.Errno {
	g := s.merge
	if g == nil || s.baseVersion == nil {
		return 0
	}
	dir, name := s.where()
	o := s.publishOptions(dir, name)
	if err := s.shadow.CheckBase(o); err != nil {
		return s.publishFailed(err)
	}
	theirs, err := s.f.readVersion(place{dir, name, nil}, s.baseVersion)
	if err != nil {
		return s.rejectLocked(errnoOf(err), "the file cannot be read, to be merged with: "+err.Error())
	}
	mine, _, err := bases.Read(s.shadow.FD())
	if err != nil {
		return s.rejectLocked(errnoOf(err), "what was written cannot be read, to be merged: "+err.Error())
	}
	var merged []byte
	if merged, err = g.Join(theirs, mine); s.inPlace {
		err = g.Refuse(lostupdate.KeepsInode)
	}
	if err != nil {
		return s.rejectMerge(err)
	}
	if g.Mine() == nil {
		return 0
	}
	err = s.f.retryWithRoom(func() error {
		return s.asWriter(func() error { return writeAllOf(s.shadow.FD(), merged) })
	})
	if err != nil {
		return s.rejectLocked(errnoOf(err), "the merged content cannot be written: "+err.Error())
	}
	s.wrote = true
	// Its pages are what the writer wrote. The kernel waits for whoever reads or writes
	// one, and that request may wait for s.mu.
	go s.f.notifyInode(s.inode, 0, -1)
	return 0
}

// rejectMerge refuses a session whose change cannot be merged.
func (s *session) rejectMerge(err error) unix.Errno {
	var n *lostupdate.NotMerged
	if !errors.As(err, &n) {
		return s.rejectLocked(errnoOf(err), err.Error())
	}
	reason := n.Error()
	n.Loss.Refuse()
	return s.rejectFor(unix.EBUSY, reason, n)
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

// merged is what the shadow was joined with: the version that it replaces; nil: nothing.
func (s *session) merged() *lostupdate.Merge {
	if s.merge == nil || !s.merge.IsJoined() {
		return nil
	}
	return s.merge
}

// unmergeLocked gives the shadow of a session that is refused after all back what its
// writer has written.
func (s *session) unmergeLocked() {
	if s.merge == nil || s.merge.Mine() == nil {
		return
	}
	mine := s.merge.TakeMine()
	if err := writeAllOf(s.shadow.FD(), mine); err != nil {
		s.f.log.Errorf("what was written to %q is lost, but for what was merged of it: %v", s.path(), err)
	}
}

// readVersion reads the file that has the name p, which must be v.
func (f *FS) readVersion(p place, v *commit.Version) ([]byte, error) {
	fd, err := commit.OpenUnnoticed(f.fdOf(p.dir), p.name)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	data, st, err := bases.Read(fd)
	if err == nil && stampOfFile(st) != stampOfVersion(v) {
		err = unix.EBUSY
	}
	return data, err
}

// writeAllOf makes data the content of a file. Where there is no room for it the file
// is as it was, on filesystems that can set room aside.
func writeAllOf(fd int, data []byte) error {
	if len(data) > 0 {
		err := unix.Fallocate(fd, unix.FALLOC_FL_KEEP_SIZE, 0, int64(len(data)))
		if err != nil && err != unix.EOPNOTSUPP && err != unix.ENOSYS {
			return err
		}
	}
	for n := 0; n < len(data); {
		m, err := unix.Pwrite(fd, data[n:], int64(n))
		if err != nil && err != unix.EINTR {
			return err
		}
		n += max(m, 0)
	}
	return unix.Ftruncate(fd, int64(len(data)))
}
