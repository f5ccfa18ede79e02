package fs

import (
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"latchfs/fs/holders"
	"latchfs/fs/sessionstate"
	"latchfs/lockmgr"
	"latchfs/lockmgr/knowledge"
	"latchfs/lockmgr/policy"
)

// A new file appears at its close, so that nobody finds half of it. Two kinds are
// waited for while they are written, and appear before (DESIGN §4.1): the output of
// a program that goes on, and what a program syncs and keeps open. Such a file is live
// from then on, until its writers have closed it.

// syncedWait is how long a new file may stay hidden after its first fsync. A careful
// save closes the file at once.
const syncedWait = 200 * time.Millisecond

// noteOutput finds out whether the shadow is some process's standard output or error,
// after a close by o that has left the session open: a shell opens the file, makes
// it descriptor 1 (dup2) and closes the first descriptor.
func (s *session) noteOutput(o lockmgr.Owner) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state.HasEnded() || s.output {
		return
	}
	file, owner := writtenFile{s}.AsOpen(), s.who.Load().owner
	for _, pid := range slices.Compact([]int32{o.PID, owner.PID}) {
		s.output = s.output || pid > 0 && s.f.proc.IsOutput(pid, file)
	}
	if s.output && s.settings.Grow > 0 {
		s.appearLocked(time.Until(s.began.Add(s.settings.Grow)), "output that is still open after "+s.settings.Grow.String())
	}
}

// appearLocked makes the file appear after a while if it is new and still open then.
// s.mu is held.
func (s *session) appearLocked(after time.Duration, why string) {
	if !s.isNew.Load() || s.appears != nil {
		return
	}
	s.appears = time.AfterFunc(max(after, 0), func() { s.appear(why) })
}

// appear makes a new file visible and live, unless something speaks against it.
func (s *session) appear(why string) {
	s.mu.Lock()
	s.appears = nil
	s.grows = s.isNew.Load() && s.state.Is(sessionstate.Writing) && len(s.handles) > 0 &&
		s.content.Failed() == 0 && s.keepsLock() && !s.isUnfinishedLocked()
	grows := s.grows
	s.mu.Unlock()
	f, path := s.f, s.path()
	if grows && f.settings(path).Mode == policy.Atomic && f.judge.Rules(path) == nil && !f.isClosing() {
		if e := s.autoLive(why); e != 0 {
			f.log.Warnf("%q cannot appear before it is closed: %v", path, e)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.grows = s.grows && s.state.Is(sessionstate.Live)
}

// closedWhileGrowing is the end of a descriptor of a file that has appeared. After
// the last the file is an ordinary one.
func (s *session) closedWhileGrowing(by *holders.Closer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.holders.Note(by.Owner)
	if !s.hasUnclosedLocked() && !s.holders.IsHeldAfter(by) {
		s.settleLocked()
	}
}

// settleLocked makes the file that has grown an ordinary one, or leaves that to the
// last close of those who have opened it to write meanwhile. s.mu is held.
func (s *session) settleLocked() {
	f, n := s.f, s.inode
	s.noteGrown(false)
	f.mu.Lock()
	defer f.mu.Unlock()
	n.grower = nil
	by := notLive
	if n.liveWriters > 0 {
		n.carried = true
		by = liveByHandle
	} else {
		n.live = false
	}
	if n.dentry != nil {
		f.setLiveLocked(n.dentry, by)
	}
}

// noteGrown tells the history, and what is known of read versions, how far the file
// has grown; grows says that it will go on.
func (s *session) noteGrown(grows bool) {
	f, n := s.f, s.inode
	dir, name := f.nameOf(n)
	var st unix.Stat_t
	if dir == nil || unix.Fstatat(f.fdOf(dir), name, &st, unix.AT_SYMLINK_NOFOLLOW) != nil ||
		n.key != (inoKey{uint64(st.Dev), st.Ino}) {
		return // removed, or replaced
	}
	f.changed(n, grows)
	for _, path := range append(f.otherPaths(n), f.path(dir, name)) {
		s.wroteVersion(path, &st)
	}
}

// noteWrittenOn is the end of a descriptor of a file that was committed while it was open, so that it
// could get a further name. What was written since is its writer's. A file that is live has no
// versions.
func (s *session) noteWrittenOn() {
	s.f.mu.Lock()
	live := s.inode.live
	s.f.mu.Unlock()
	if !live {
		s.noteGrown(false)
	}
}

// wroteVersion notes that the session's writer has made st what path holds, if that
// is news.
func (s *session) wroteVersion(path string, st *unix.Stat_t) {
	f := s.f
	if !f.updates.Applies(&s.settings) {
		return
	}
	key, stamp := knowledge.Key(path), stampOfFile(st)
	if _, known := f.knowledge.Current(key); known != stamp {
		who, by := s.madeBy()
		f.knowledge.Changed(time.Now(), key, stamp, who, by)
	}
}

// noteGrownAt notes that path holds st, before somebody is noted to have read or
// replaced that, if it is a file that grows: nothing else tells of its writes.
func (f *FS) noteGrownAt(path string, st *unix.Stat_t) {
	if n := f.inodeFor(st); n != nil {
		f.mu.Lock()
		s := n.grower
		f.mu.Unlock()
		if s != nil {
			s.wroteVersion(path, st)
		}
	}
}
