package fs

import (
	"errors"
	"time"

	"golang.org/x/sys/unix"

	"latchfs/fs/content"
	"latchfs/fs/lockwait"
	"latchfs/fs/sessionstate"
	"latchfs/journal/audit"
	"latchfs/journal/commit"
)

// lateGrace is how long RELEASE may take after a commit. If it takes longer, a process that the
// holder set missed must have the descriptor.
const lateGrace = lockwait.Grace

// late looks after a session whose RELEASE has not followed its commit: a process that the
// holder set missed still has the descriptor. The published inode is exchanged for a copy, so
// that late writes go to an orphan.
func (cm *commits) late(s *session) {
	s.mu.Lock()
	gone := len(s.handles) == 0
	s.mu.Unlock()
	if gone {
		return
	}
	if _, found := s.holders.Anybody(); !found && s.patience.Add(-1) > 0 {
		// Most likely RELEASE is only slow to come.
		time.AfterFunc(lateGrace, func() { cm.late(s) })
		return
	}
	cm.setApart(s)
}

// setApart exchanges the published inode for a copy. It takes the name's lock
// like anybody else: where that is held, the holder will replace the inode.
func (cm *commits) setApart(s *session) {
	dir, name := cm.nodes.pinPlace(s)
	if dir == nil {
		return // RELEASE has come meanwhile
	}
	defer cm.nodes.unpin(dir)
	c := cm.callers.room.Itself()
	l, err := cm.locks.acquire(cm.locks.fileDemand(c, opOpen, 0, place{dir, name, nil}), true)
	if err != nil {
		return
	}
	defer cm.rules.table.Release(l)
	s.mu.Lock()
	dir, name = cm.setApartLocked(s)
	s.mu.Unlock()
	if dir != nil {
		cm.names.dropName(dir, name)
		cm.nodes.unpin(dir)
	}
}

// setApartLocked does the exchange, and returns the name that leads elsewhere now, its
// directory pinned.
func (cm *commits) setApartLocked(s *session) (*inode, string) {
	if len(s.handles) == 0 || !s.state.Is(sessionstate.Committed) || s.state.Result() != 0 {
		return nil, ""
	}
	dir, name := s.where()
	var st unix.Stat_t
	if unix.Fstatat(cm.nodes.fdOf(dir), name, &st, unix.AT_SYMLINK_NOFOLLOW) != nil {
		return nil, ""
	}
	cm.nodes.mu.Lock()
	same := s.inode.key == inoKey{uint64(st.Dev), st.Ino}
	cm.nodes.mu.Unlock()
	if !same || st.Nlink > 1 {
		return nil, ""
	}
	ended := cm.names.markReplaced(s.inode.key, s.inode) // who has opened it to read locks the name
	err := cm.exchangeLocked(s, dir, name, &st)
	ended(err == nil)
	if err != nil {
		cm.disk.log.Warnf("%q is still open somewhere after its commit and cannot be set apart: %v", s.path(), err)
		return nil, ""
	}
	s.saved.Publish(content.StampOf(&st))
	cm.nodes.mu.Lock()
	s.inode.seal = setApart
	cm.nodes.mu.Unlock()
	s.become(sessionstate.Apart)
	cm.reports.sessionEvent(s, "late", func(ev *audit.Event) {
		ev.Detail["reason"] = "a process outside the holder set still has the descriptor; its later writes are kept aside"
	})
	cm.nodes.pin(dir)
	return dir, name
}

// writtenLate reports whether the inode was written after its publication and
// is no longer what its name leads to, so that nobody would find the bytes.
func (s *session) writtenLate() bool {
	var st unix.Stat_t
	s.nodes.mu.Lock()
	seal := s.inode.seal
	s.nodes.mu.Unlock()
	if s.state.Is(sessionstate.Live) || seal == unsealed || s.state.Result() != 0 || !s.saved.IsPublished() || s.shadow.FD() < 0 || unix.Fstat(s.shadow.FD(), &st) != nil {
		return false
	}
	return st.Nlink == 0 && s.saved.Published() != content.StampOf(&st)
}

// exchangeLocked puts a copy of the published inode in its place.
func (cm *commits) exchangeLocked(s *session, dir *inode, name string, st *unix.Stat_t) error {
	cp, err := s.shadow.Clone(cm.nodes.fdOf(dir))
	if err != nil {
		return err
	}
	defer cm.disk.discard(cp)
	o := cm.publishOptions(s, dir, name)
	o.Base = versionPtr(st)
	v, err := cp.Publish(o)
	if err != nil && !errors.Is(err, commit.ErrNotDurable) {
		return err
	}
	cm.recorder.restamped(cm.nodes.path(dir, name), st, statOf(&v))
	cm.kernel.forgetAttrs(s.inode)
	if err != nil { // the copy has the name all the same
		cm.disk.log.Errorf("%q: %v", s.path(), err)
	}
	return nil
}
