package fs

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"latchfs/fs/disclosure"
	"latchfs/fs/reach"
	"latchfs/journal/commit"
	"latchfs/journal/history"
	"latchfs/lockmgr/policy"
)

// openHistory opens the store of earlier versions, and finds out about those
// whose successor's record a crash has taken.
func (f *FS) openHistory() error {
	b := f.policy.HistoryBounds()
	s, err := history.Open(f.state, history.Options{MaxBytes: b.MaxBytes, MaxAge: b.MaxAge, Logf: f.log.Warnf, Removing: f.store.SettleKept})
	if err != nil {
		return fmt.Errorf("history of %s: %w", f.opts.Dir, err)
	}
	f.history = s
	f.source.Versions = disclosure.Versions{Root: f.root(), Store: s}
	for _, v := range s.Dangling() {
		f.settleDangling(v)
	}
	return nil
}

// settleDangling looks at the path of a version that is in the history and the
// last one of its path all the same.
func (f *FS) settleDangling(v history.Version) {
	var st unix.Stat_t
	dir, e := f.root().OpenParent(nil, v.Path)
	if e == 0 {
		e = errnoOf(unix.Fstatat(dir, baseName(v.Path), &st, unix.AT_SYMLINK_NOFOLLOW))
		unix.Close(dir)
	}
	now := history.StateOf(&st)
	switch {
	case e == unix.ENOENT || e == unix.ENOTDIR:
		f.history.Absent(v.Path)
	case e != 0 || st.Mode&unix.S_IFMT != unix.S_IFREG:
	case now.Ino == v.State.Ino && now.Size == v.State.Size && now.Mtime == v.State.Mtime:
		f.history.Drop(v.Content) // put there for a commit in place that did not come
	default:
		f.history.Add(foundVersion(v.Path, &st, -1))
	}
}

// giveRoom is asked by the store of shadows for space: earlier versions go before
// a write of today is refused.
func (f *FS) giveRoom(error) bool {
	const atOnce = 1 << 20
	return f.history != nil && f.history.Free(atOnce) > 0
}

// retryWithRoom runs a change again that found no room, as long as some can be
// made.
func (f *FS) retryWithRoom(do func() error) error {
	for {
		err := do()
		if !isNoRoom(err) || !f.store.GiveRoom(err) {
			return err
		}
	}
}

// isNoRoom reports whether err says that the disk is full, or a quota.
func isNoRoom(err error) bool {
	e := errnoOf(err)
	return e == unix.ENOSPC || e == unix.EDQUOT
}

// keepsHistory reports whether the versions of a path are recorded.
func (f *FS) keepsHistory(set policy.Settings) bool {
	return f.history != nil && set.Mode == policy.Atomic && set.History > 0
}

// succession is a change of what a path holds: from one version to the next. Its
// methods may be called on nil, for a path without a history.
type succession struct {
	f    *FS
	path string
	most int
	ref  history.Ref // the version that is there before; zero if none
	old  inoKey      // its inode; zero if none
	keep commit.Keep
	// reach says who can reach the name, if there is something to keep.
	reach history.Reach
}

// succeed prepares a change of what name in dir holds. st is the file that it
// holds now, nil if none. The name's lock is held, so that nobody comes between.
func (f *FS) succeed(dir *inode, name, path string, set policy.Settings, st *unix.Stat_t) *succession {
	if !f.keepsHistory(set) {
		return nil
	}
	sn := &succession{f: f, path: path, most: set.History}
	if st == nil || st.Mode&unix.S_IFMT != unix.S_IFREG {
		sn.ref.Number = f.history.Absent(path)
		return sn
	}
	var known bool
	if sn.ref, known = f.history.Match(path, history.StateOf(st)); !known {
		sn.ref = f.discover(dir, name, path, st)
	}
	sn.old = inoKey{uint64(st.Dev), st.Ino}
	if f.history.Takes(st.Size) {
		sn.keep = commit.Keep{ID: sn.ref.Content, Copy: f.mayBeWritten(sn.old, st.Size), Ino: st.Ino}
		sn.reach = f.reachOf(dir)
	}
	return sn
}

// kept says what is to become of the file that loses its name.
func (sn *succession) kept() commit.Keep {
	if sn == nil {
		return commit.Keep{}
	}
	return sn.keep
}

// done enters the next version. kept tells whether the former one is in the
// history.
func (sn *succession) done(v history.Version, kept bool) {
	if sn == nil || v.Event != history.Commit && sn.old == (inoKey{}) {
		return // no file before, none after
	}
	v.Path, v.Base = sn.path, sn.ref.Number
	if v.Event == history.Commit && v.State.Ino == sn.old.ino {
		sn.f.history.Linked(sn.path, v.State)
	}
	if kept && !sn.keep.Copy {
		sn.f.markKept(sn.old)
	}
	sn.f.history.Add(v)
	sn.f.history.Keep(sn.path, sn.ref, sn.most)
	if kept {
		sn.f.history.Reached(sn.ref.Content, sn.reach)
	}
}

// foundAt describes a file that latchfs did not make, or forgot.
func (f *FS) foundAt(dir *inode, name, path string, st *unix.Stat_t) history.Version {
	fd, err := unix.Openat(f.fdOf(dir), name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		fd = -1
	} else {
		defer unix.Close(fd)
	}
	return foundVersion(path, st, fd)
}

func foundVersion(path string, st *unix.Stat_t, fd int) history.Version {
	return history.Version{
		Path: path, Event: history.Found, Time: time.Unix(st.Mtim.Unix()), UID: st.Uid,
		State: history.StateOf(st), Rights: rightsOf(st, fd),
	}
}

// rightsOf is who may read the file st behind fd, which may be -1.
func rightsOf(st *unix.Stat_t, fd int) history.Rights {
	r := history.Rights{UID: st.Uid, GID: st.Gid, Mode: st.Mode & 0o7777}
	r.ACL = fd < 0 || reach.HasACL(fd)
	return r
}

// releasePoll is how often somebody looks who waits for the end of a descriptor: nothing
// announces it.
const releasePoll = time.Millisecond

// mayBeWritten reports whether a copy has to be kept of the inode. Most who have
// it open for writing have closed it a moment ago: where a copy would be dear their
// RELEASE is waited for.
func (f *FS) mayBeWritten(key inoKey, size int64) bool {
	for until := time.Now().Add(lateGrace); f.hasWriters(key); time.Sleep(releasePoll) {
		if size <= commit.MaxKeptCopy || time.Now().After(until) {
			return true
		}
	}
	return false
}

// hasWriters reports whether somebody has the inode open for writing: by a
// descriptor that a session's commit has outlived, or one that appends.
func (f *FS) hasWriters(key inoKey) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := f.inodes[key]
	return n != nil && n.writers > 0
}

// markKept notes that the only name which an inode has left is the history's: to
// everybody else it has none.
func (f *FS) markKept(key inoKey) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if n := f.inodes[key]; n != nil {
		n.kept = true
	}
}

// noteKept is markKept for an inode that came to be known while it lost its name.
func (f *FS) noteKept(n *inode) {
	if f.history == nil {
		return
	}
	kept := f.history.OfInode(n.key.ino) != ""
	f.mu.Lock()
	defer f.mu.Unlock()
	n.kept = n.kept || kept && n.key.dev == f.dev
}

// unshare gives an earlier version, which somebody opens to write it, to its
// opener: the history keeps a copy.
func (f *FS) unshare(n *inode) error {
	f.mu.Lock()
	kept, ino := n.kept, n.key.ino
	f.mu.Unlock()
	if !kept {
		return nil
	}
	id := f.history.OfInode(ino)
	if id == "" {
		return nil
	}
	_, err := f.store.Unshare(id)
	f.history.Renewed(id)
	if err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	n.kept = false
	return nil
}

// made describes the version st that a session has published.
func (s *session) made(st *unix.Stat_t) history.Version {
	o := s.who.Load().owner
	h := history.Version{
		Event: history.Commit, Program: s.program(), Session: s.id,
		PID: o.PID, UID: s.uid, Token: s.lock.Token(), State: history.StateOf(st),
	}
	if lb, ok := s.lock.Request().Label.(*label); ok {
		h.Actor = s.f.actorOf(lb)
	}
	var shadow unix.Stat_t
	if unix.Fstat(s.shadow.FD(), &shadow) == nil {
		h.Rights = rightsOf(&shadow, s.shadow.FD())
	}
	return h
}

// did describes a version that a caller makes by an operation on names.
func (c *caller) did(event history.Event, op string, token uint64) history.Version {
	lb := label{c: c}
	return history.Version{
		Event: event, Operation: op, Program: c.program(), Actor: c.f.actorOf(&lb),
		PID: c.owner.PID, UID: c.uid, Token: token,
	}
}

// withFile makes v a version that is the file st.
func withFile(v history.Version, st *unix.Stat_t, r history.Rights) history.Version {
	v.State, v.Rights = history.StateOf(st), r
	return v
}

// changed tells the history that the file which n's name leads to was changed by
// us without a new version. While it is loose it goes on changing.
func (f *FS) changed(n *inode, loose bool) {
	if f.history == nil {
		return
	}
	dir, name := f.nameOf(n)
	var st unix.Stat_t
	if dir == nil || unix.Fstat(f.fdOf(n), &st) != nil {
		return
	}
	f.history.Changed(f.path(dir, name), st.Ino, history.StateOf(&st), loose)
}

func (f *FS) closeHistory() {
	if f.history == nil {
		return
	}
	if err := f.history.Close(); err != nil {
		f.log.Errorf("closing the history: %v", err)
	}
}

// join is the path of a name in the directory dir, "" for the root.
func join(dir, name string) string {
	if dir == "" {
		return name
	}
	return dir + "/" + name
}

func baseName(path string) string {
	for i := len(path) - 1; i >= 0; i-- {
		if path[i] == '/' {
			return path[i+1:]
		}
	}
	return path
}
