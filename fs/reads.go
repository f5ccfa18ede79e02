package fs

import (
	"strconv"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"latchfs/fs/bases"
	"latchfs/journal/commit"
	"latchfs/lockmgr"
	"latchfs/lockmgr/knowledge"
	"latchfs/lockmgr/policy"
)

// This file notes who has read and made which versions (DESIGN §6); updates.go asks
// for that before something is replaced. An open for reading counts as a read:
// neither reads in passthrough nor mappings show themselves.

// sameRead is how long a process that has read a version is not told of it again.
const sameRead = time.Second

// stranger stands for all callers that cannot be told apart, where the policy takes
// them together.
var stranger = lockmgr.Owner{PID: -1}

// tracks reports whether it matters under these settings who has read what.
func (f *FS) tracks(set *policy.Settings) bool {
	return f.knowledge != nil && set.Mode == policy.Atomic && set.LostUpdate != policy.IgnoreLost
}

// stampOfVersion and stampOfFile are what tells a version from all others of its
// path. The time of change of status does not belong to it: chmod makes no version.
func stampOfVersion(v *commit.Version) knowledge.Stamp {
	return knowledge.Stamp{Dev: v.Dev, Ino: v.Ino, Size: v.Size, Mtime: v.Mtime.Nano()}
}

func stampOfFile(st *unix.Stat_t) knowledge.Stamp {
	return bases.StampOf(st)
}

// linkKey is the key under which the versions of a file with several names are
// counted beside those of each name.
func linkKey(st knowledge.Stamp) knowledge.Key {
	return knowledge.Key("//" + strconv.FormatUint(st.Dev, 16) + ":" + strconv.FormatUint(st.Ino, 16)) // no path has that
}

// learners is the caller with those who learn what it learns; false of one who
// learns nothing, and is nobody: an interactive shell, or a stranger whom the policy ignores.
func (c *caller) learners(set *policy.Settings) (knowledge.Who, bool) {
	switch {
	case !c.foreign():
		return c.f.learnersOf(c.owner)
	case set.Strangers == policy.OneStranger:
		return knowledge.Who{Self: stranger}, true
	}
	return knowledge.Who{}, false
}

func (f *FS) learnersOf(o lockmgr.Owner) (knowledge.Who, bool) {
	if o.PID <= 0 {
		return knowledge.Who{}, false
	}
	family := f.proc.Family(o)
	if family.Interactive {
		return knowledge.Who{}, false
	}
	who := knowledge.Who{Self: o, Relatives: family.Relatives, Above: family.Above}
	if len(who.Relatives) == 0 {
		who.Shell = family.Shell
	}
	return who, true
}

// told is when a thread opened a version of which there was nothing new to tell it.
// While nobody learns anything, nor changes a file, that stays so: who polls a file
// is not looked up each time.
type told struct {
	tid  uint32
	at   time.Time
	news uint64 // of the table of what is known
}

// toldFor is how long a thread id is believed to be the same thread, and nobody to
// have changed the file around the mount.
const toldFor = 10 * time.Millisecond

func (t *told) holds(tid uint32, now time.Time, news uint64) bool {
	return t.tid == tid && t.news == news && now.Sub(t.at) < toldFor
}

// noteRead notes that the sender of an OPEN has opened the version that n is. It
// returns what that has changed, nil if it was no news.
func (f *FS) noteRead(in *fuse.InHeader, n *inode) *knowledge.Sight {
	if f.knowledge == nil {
		return nil
	}
	now, news := time.Now(), f.knowledge.News()
	f.mu.Lock()
	fd, kept := n.fd, n.kept || n.saved
	dir, name := f.nameReadLocked(n, in.Pid)
	if dir == nil || fd < 0 || !n.isRegular() || n.told.holds(in.Pid, now, news) {
		f.mu.Unlock()
		return nil
	}
	path := pathLocked(dir, name)
	f.mu.Unlock()
	set := f.settings(path)
	var st unix.Stat_t
	if !f.tracks(&set) || unix.Fstat(fd, &st) != nil {
		return nil
	}
	if kept && st.Nlink > 0 {
		st.Nlink-- // the history's link, which is there before a save takes the name
	}
	f.noteGrownAt(path, &st)
	stamp, key := stampOfFile(&st), knowledge.Key(path)
	th, err := f.proc.Opener(in.Pid) // which callerOf then believes
	if err == nil && st.Nlink <= 1 && f.knowledge.Knows(now, key, stamp, th.Owner, sameRead) {
		f.mu.Lock()
		n.told = told{in.Pid, now, news}
		f.mu.Unlock()
		return nil
	}
	who, ok := f.callerOf(in).learners(&set)
	if !ok {
		return nil
	}
	now = time.Now() // what it finds there is not older than that
	sight := f.knowledge.Before(now, key, who)
	if !f.knowledge.Saw(now, key, stamp, who) {
		// It was put there around the mount, or is no longer there.
		f.lookAt(dir, name, key)
		f.knowledge.Saw(now, key, stamp, who)
	}
	if st.Nlink > 1 {
		f.knowledge.Saw(now, linkKey(stamp), stamp, who)
	}
	return sight
}

// lookAt tells the table which version a name holds now.
func (f *FS) lookAt(dir *inode, name string, key knowledge.Key) {
	var st unix.Stat_t
	var stamp knowledge.Stamp
	switch err := unix.Fstatat(f.fdOf(dir), name, &st, unix.AT_SYMLINK_NOFOLLOW); {
	case err == nil:
		stamp = stampOfFile(&st)
	case err != unix.ENOENT:
		return
	}
	f.knowledge.Found(time.Now(), key, stamp)
}

// noteOwnRead notes that somebody of the session's family reads the shadow, which
// has what the base has. s.mu is not held.
func (s *session) noteOwnRead(c *caller) {
	f := s.f
	if !f.tracks(&s.settings) {
		return
	}
	who, ok := c.learners(&s.settings)
	s.mu.Lock()
	base := s.baseVersion
	s.mu.Unlock()
	if ok && base != nil {
		f.sawVersion(s.path(), base, s.inPlace, who)
	}
}

// sawVersion notes a read of the current version of a path whose lock is held.
func (f *FS) sawVersion(path string, v *commit.Version, linked bool, who knowledge.Who) {
	now, stamp, key := time.Now(), stampOfVersion(v), knowledge.Key(path)
	f.knowledge.Found(now, key, stamp)
	f.knowledge.Saw(now, key, stamp, who)
	if linked {
		f.knowledge.Saw(now, linkKey(stamp), stamp, who)
	}
}

// author is the caller as the author of a version.
func (c *caller) author(op string) knowledge.Author {
	return knowledge.Author{PID: c.owner.PID, Program: c.program(), Actor: c.f.actorOf(&label{c: c}), UID: c.uid, Operation: op}
}

// noteLeaving notes that path is about to hold another file than the one with stamp:
// what is known of that under any of its names, if it has had several, is known of the
// path from now on.
func (f *FS) noteLeaving(path string, stamp knowledge.Stamp) {
	if f.knowledge != nil {
		f.knowledge.Share(linkKey(stamp), knowledge.Key(path))
	}
}

// madeBy is the session's writer as an author, with those who learn what it makes.
func (s *session) madeBy() (knowledge.Who, knowledge.Author) {
	by := knowledge.Author{PID: s.who.Load().owner.PID, Program: s.program(), UID: s.uid, Operation: s.operation()}
	if lb, ok := s.lock.Request().Label.(*label); ok {
		by.Actor = s.f.actorOf(lb)
	}
	return s.learners(), by
}

// expectCommit notes that what is behind fd is about to become what path holds: another
// thread of the writer, who shares its lock, may meet it there before tell.
func (s *session) expectCommit(path string, fd int) {
	var st unix.Stat_t
	if !s.f.tracks(&s.settings) || s.merged() != nil || unix.Fstat(fd, &st) != nil {
		return
	}
	stamp := stampOfFile(&st)
	if s.inPlace {
		stamp = knowledge.Stamp{} // it gets its time when it is written
	}
	who, by := s.madeBy()
	s.f.knowledge.Expect(knowledge.Key(path), stamp, who, by)
}

// notCommitted takes that back. A commit in place that has failed may have touched the
// file all the same, and that was the session's doing.
func (s *session) notCommitted(path string) {
	if !s.f.tracks(&s.settings) {
		return
	}
	if s.inPlace {
		dir, name := s.where()
		s.f.lookAt(dir, name, knowledge.Key(path))
	}
	s.f.knowledge.Expected(knowledge.Key(path))
}

// learners is who writes the session, with those who learn what it learns: as they
// were when it began, for the writer may be dying.
func (s *session) learners() knowledge.Who {
	o := s.who.Load().owner
	if s.writer.Self == o || s.writer.Self == stranger && o.PID == 0 || s.txn.Load() != nil {
		return s.writer
	}
	who, ok := s.f.learnersOf(o) // it was handed on
	if !ok {
		return knowledge.Who{}
	}
	return who
}
