package fs

import (
	"time"

	"golang.org/x/sys/unix"

	"latchfs/fs/bases"
	"latchfs/fs/lostupdate"
	"latchfs/journal/commit"
	"latchfs/lockmgr/knowledge"
)

// This file notes who has read and made which versions (docs/lost-updates.md); losses.go asks
// for that before something is replaced. An open for reading counts as a read:
// neither reads in passthrough nor mappings show themselves.

// stampOfVersion and stampOfFile are what tells a version from all others of its
// path. The time of change of status does not belong to it: chmod makes no version.
func stampOfVersion(v *commit.Version) knowledge.Stamp {
	return knowledge.Stamp{Dev: v.Dev, Ino: v.Ino, Size: v.Size, Mtime: v.Mtime.Nano()}
}

func stampOfFile(st *unix.Stat_t) knowledge.Stamp {
	return bases.StampOf(st)
}

func versionPtr(st *unix.Stat_t) *commit.Version {
	if st == nil {
		return nil
	}
	v := commit.VersionOf(st)
	return &v
}

// statOf is what stat(2) says of a regular file that is the version v.
func statOf(v *commit.Version) *unix.Stat_t {
	if v == nil {
		return nil
	}
	return &unix.Stat_t{Dev: v.Dev, Ino: v.Ino, Size: v.Size, Mtim: v.Mtime, Mode: unix.S_IFREG}
}

func isDirectory(st *unix.Stat_t) bool { return st != nil && st.Mode&unix.S_IFMT == unix.S_IFDIR }

// fileAt is the file st as what a path holds; nil is none.
func fileAt(path string, st *unix.Stat_t) lostupdate.File {
	if st == nil {
		return lostupdate.File{Path: path}
	}
	return lostupdate.File{Path: path, Stamp: stampOfFile(st), Linked: st.Nlink > 1}
}

// noteRead notes that the sender of an OPEN has opened the version that n is. It
// returns what that has changed, nil if it was no news.
func (lo *losses) noteRead(in *Request, n *inode) *knowledge.Sight {
	if lo.rules.knowledge == nil {
		return nil
	}
	look := lo.updates.NewLook(in.TID)
	lo.nodes.mu.Lock()
	fd, kept := n.fd, n.kept || n.saved
	dir, name := lo.astray.nameReadLocked(n, in.TID)
	if dir == nil || fd < 0 || !n.isRegular() || n.told.Covers(look) {
		lo.nodes.mu.Unlock()
		return nil
	}
	path := pathLocked(dir, name)
	lo.nodes.mu.Unlock()
	set := lo.rules.settings(path)
	var st unix.Stat_t
	if !lo.updates.Applies(&set) || unix.Fstat(fd, &st) != nil {
		return nil
	}
	if kept && st.Nlink > 0 {
		st.Nlink-- // the history's link, which is there before a save takes the name
	}
	lo.noteGrownAt(path, &st)
	file := fileAt(path, &st)
	th, err := lo.callers.proc.Opener(in.TID) // which callerOf then believes
	if err == nil && !lo.updates.IsNews(look, &file, th.Owner) {
		lo.nodes.mu.Lock()
		n.told = look
		lo.nodes.mu.Unlock()
		return nil
	}
	who, ok := lo.learnersOf(lo.callers.callerOf(in), &set)
	if !ok {
		return nil
	}
	return lo.updates.Saw(&file, who, func() { lo.lookAt(dir, name, knowledge.Key(path)) })
}

// lookAt tells the table which version a name holds now.
func (lo *losses) lookAt(dir *inode, name string, key knowledge.Key) {
	var st unix.Stat_t
	var stamp knowledge.Stamp
	switch err := unix.Fstatat(lo.nodes.fdOf(dir), name, &st, unix.AT_SYMLINK_NOFOLLOW); {
	case err == nil:
		stamp = stampOfFile(&st)
	case err != unix.ENOENT:
		return
	}
	lo.rules.knowledge.Found(time.Now(), key, stamp)
}

// noteOwnRead notes that somebody of the session's family reads the shadow, which
// has what the base has. s.mu is not held.
func (lo *losses) noteOwnRead(s *session, c *caller) {
	if !lo.updates.Applies(&s.settings) {
		return
	}
	who, ok := lo.learnersOf(c, &s.settings)
	if !ok {
		return
	}
	s.mu.Lock()
	if s.baseVersion == nil {
		s.mu.Unlock()
		return
	}
	file := lo.baseFile(s)
	s.mu.Unlock()
	lo.updates.SawCurrent(&file, who)
}

// authorOf is the caller as the author of a version.
func authorOf(c *caller, op string) knowledge.Author {
	return knowledge.Author{PID: c.Owner().PID, Program: c.Program(), Actor: c.Actor(), UID: c.UID(), Operation: op}
}

// madeBy is the session's writer as an author, with those who learn what it makes.
func (lo *losses) madeBy(s *session) (knowledge.Who, knowledge.Author) {
	by := knowledge.Author{PID: s.who.Load().Owner().PID, Program: s.program(), UID: s.uid, Operation: s.operation()}
	if lb, ok := s.lock.Request().Label.(*label); ok {
		by.Actor = lb.shownActor()
	}
	return lo.learners(s), by
}

// expectCommit notes that what is behind fd is about to become what path holds: another
// thread of the writer, who shares its lock, may meet it there before it is told of.
func (lo *losses) expectCommit(s *session, path string, fd int) {
	var st unix.Stat_t
	if !lo.updates.Applies(&s.settings) || s.writing.Joined() != nil || unix.Fstat(fd, &st) != nil {
		return
	}
	stamp := stampOfFile(&st)
	who, by := lo.madeBy(s)
	if s.inPlace {
		stamp = knowledge.Stamp{} // it gets its time when it is written
		lo.updates.BeginsInPlace(stampOfVersion(s.baseVersion), who, by)
	}
	lo.rules.knowledge.Expect(knowledge.Key(path), stamp, who, by)
}

// notCommitted takes back what expectCommit has noted. A commit in place that has failed may
// have touched the file all the same, and that was the session's doing.
func (lo *losses) notCommitted(s *session, path string) {
	if !lo.updates.Applies(&s.settings) {
		return
	}
	if s.inPlace {
		dir, name := s.where()
		lo.lookAt(dir, name, knowledge.Key(path))
		lo.updates.GivesUpInPlace(stampOfVersion(s.baseVersion))
	}
	lo.rules.knowledge.Expected(knowledge.Key(path))
}

// learners is who writes the session, with those who learn what it learns: as they
// were when it began, for the writer may be dying.
func (lo *losses) learners(s *session) knowledge.Who {
	o := s.who.Load().Owner()
	if s.writer.Self == o || s.writer.Self == lostupdate.Stranger && o.PID == 0 || s.txn.Load() != nil {
		return s.writer
	}
	who, ok := lo.updates.LearnersOf(o) // it was handed on
	if !ok {
		return knowledge.Who{}
	}
	return who
}
