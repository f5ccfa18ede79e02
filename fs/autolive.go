package fs

import (
	"math"

	"latchfs/fs/sessionstate"
	"latchfs/journal/audit"
	"latchfs/lockmgr"

	"golang.org/x/sys/unix"
)

// autoLive makes a file live whose users treat it as a database. Where the
// commit writes into the file in place the shadow cannot become the file under
// its writer, who keeps the file to itself until the close.
func (cm *commits) autoLive(s *session, why string) unix.Errno {
	s.mu.Lock()
	stays := s.state.Is(sessionstate.Live) || s.inPlace || s.writing.Merges() || s.txn.Load() != nil || cm.judging.judges(s)
	s.mu.Unlock()
	if stays {
		return 0
	}
	if dev, ino, ok := s.shown.File(); ok {
		// A database compares the inode numbers of descriptor and name.
		cm.nodes.mu.Lock()
		s.inode.shownAs = inoKey{dev, ino}
		cm.nodes.mu.Unlock()
	}
	// Marked only when the shadow has become the file: whoever opens the name
	// before that waits for the lock, and must not get the old inode.
	e := cm.goLive(s, func() {
		s.inode.live = true
		if s.grows {
			s.inode.grower = s
		}
		cm.nodes.setLiveLocked(s.dentry, liveByUse)
	})
	if e != 0 {
		return e
	}
	cm.reports.sessionEvent(s, "auto_live", func(ev *audit.Event) { ev.Detail["reason"] = why })
	return 0
}

// goLive publishes the shadow at once and ends the session; what its handles
// write from now on goes straight into the file. mark, if not nil, is called
// under nodes.mu when that is so and before anybody else gets the lock.
func (cm *commits) goLive(s *session, mark func()) unix.Errno {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.state.Is(sessionstate.Writing) {
		return s.state.Result()
	}
	if len(s.handles) > 0 { // the shadow becomes the file; if there is no room for it, the session goes on
		if err := s.content.FillTo(math.MaxInt64); err != nil {
			return errnoOf(err)
		}
	}
	s.become(sessionstate.GoingLive)
	defer s.beginWork()()
	dirty, err := s.content.Dirty()
	s.writing.Publish(dirty)
	e := errnoOf(err)
	switch {
	case err != nil:
	case dirty || s.isNew.Load() || len(s.handles) > 0:
		e = cm.decideLocked(s)
	default:
		e = cm.applyMetaLocked(s)
	}
	if e == 0 {
		cm.recorder.changed(s.inode, true)
	}
	if e == 0 && mark != nil {
		cm.nodes.mu.Lock()
		mark()
		key := s.inode.key.lockKey()
		path := s.dentry.Path()
		cm.nodes.mu.Unlock()
		// flock and fcntl locks of the owner's processes were the name's and are the inode's now.
		cm.rules.table.RenameFiles(fileRename(lockmgr.Key(path), key, nil))
	}
	return cm.endWith(s, e)
}
