package fs

import (
	"time"

	"golang.org/x/sys/unix"

	"latchfs/fs/calling"
	"latchfs/fs/content"
	"latchfs/fs/holders"
	"latchfs/fs/lostupdate"
	"latchfs/fs/sessionstate"
	"latchfs/fs/suid"
	"latchfs/fs/transaction"
	"latchfs/journal/commit"
	"latchfs/lockmgr"
	"latchfs/lockmgr/policy"
)

// fillNow is the size up to which the old content is copied into a shadow at
// open. A larger file that cannot be cloned is copied at the first write, for
// many programs open for writing and write nothing.
const fillNow = 16 << 20

// begin starts a session for c on name in dir, under a lock already held. st is
// the committed file, nil if the name is free. The session counts c as a walker.
//
// The lock keeps out other owners, but not other processes of the same owner. When one of
// these has changed the file, or begun a session on it, since the caller looked, the error is
// EEXIST, and the caller has to look again; it is ESTALE when one has made the file live.
func (ss *sessions) begin(c *caller, l *lockmgr.Lock, dir *inode, name string, st *unix.Stat_t, o beginOptions) (*session, unix.Errno) {
	if e := ss.mayBegin(c, dir, name, st, &o); e != 0 {
		return nil, e
	}
	t := ss.callers.txnOf(c)
	if t != nil && t.IsOver() {
		return nil, ss.locks.refuse(&demand{c: c, op: opOpen, path: ss.nodes.path(dir, name)}, transaction.ErrOver)
	}
	s := ss.newSession(c, l, dir, st, &o)
	if t != nil {
		s.txn.Store(t)
		s.who.Store(calling.NewIdentity(t.Owner(), t.Since()))
	}
	if err := ss.disk.coverToken(l.Token()); err != nil {
		return nil, errnoOf(err)
	}
	s.dentry = ss.nodes.getName(dir, name)
	e := ss.makeShadow(s, c, name, st, o)
	if e == 0 {
		e = ss.enter(s)
	}
	if e != 0 {
		ss.nodes.putName(s.dentry)
		s.content.CloseOld()
		if s.shadow != nil {
			ss.disk.discard(s.shadow)
		}
		return nil, e
	}
	if !ss.txns.baseIsCurrent(s) {
		// A session of the same owner ended between the caller's look at the file and now.
		s.mu.Lock()
		old, unfilled := s.content.TakeOld()
		ss.nodes.mu.Lock()
		s.inode.sess = nil
		if unfilled { // a process of the owner may have opened it to read it
			s.inode.standsFor = old
		}
		ss.commits.finishLocked(s)
		ss.nodes.mu.Unlock()
		s.mu.Unlock()
		ss.disk.discard(s.shadow)
		return nil, unix.EEXIST
	}
	if lb, ok := l.Request().Label.(*label); ok {
		lb.session.Store(s)
		if t != nil {
			lb.c.Remember() // it may end before the transaction is decided
		}
	}
	ss.txns.coverGone(s)
	return s, 0
}

// newSession is a session of c that has neither a name nor a shadow yet.
func (ss *sessions) newSession(c *caller, l *lockmgr.Lock, dir *inode, st *unix.Stat_t, o *beginOptions) *session {
	s := &session{
		nodes: ss.nodes, id: ss.newSessionID(), settings: o.settings, sessionAuthor: sessionAuthor{uid: c.UID(), gid: c.GID()}, began: time.Now(),
		sessionPlace: sessionPlace{parent: dir}, lock: l,
		sessionCopy: sessionCopy{content: content.New()}, left: make(chan struct{}), state: sessionstate.New(), handles: map[*handle]struct{}{},
	}
	s.holders = holders.New(holders.Config{
		Procs: ss.callers.proc, Looks: ss.callers.looks, File: writtenFile{ss.handles, s}, UID: c.UID(), Since: l.Request().Since,
		Doubts: c.UID() != ownIdentity.UID,
	})
	s.holders.Note(c.Owner())
	s.patience.Store(10)
	s.isNew.Store(st == nil)
	s.opener = c.Owner()
	s.who.Store(calling.NewIdentity(c.Owner(), l.Request().Since))
	s.writer, _ = ss.losses.learnersOf(c, &o.settings)
	s.writing = lostupdate.NewWriting(st != nil && (o.blind || o.reads), st != nil && o.adds)
	s.writing.MergeWith(o.merge)
	s.nameWriter(c.Program())
	s.suid = suid.New(c.GID())
	if st != nil {
		s.suid.BeginOn(st, c.InGroup)
	}
	s.suid.Keeps(!o.killSuid && keepsSuid(c, st, o.mode))
	s.fresh = o.trunc || st == nil
	return s
}

// access are the options of a session that an open with these flags begins.
func (o beginOptions) access(flags uint32) beginOptions {
	o.flags = flags
	o.trunc = flags&unix.O_TRUNC != 0
	o.reads = flags&unix.O_ACCMODE == unix.O_RDWR && !o.trunc
	o.adds = flags&unix.O_APPEND != 0 && !o.trunc
	o.blind = !o.trunc && !o.reads && !o.adds
	return o
}

// mayBegin decides whether a session may replace the file st, as far as its beginning
// tells. For an open for reading and writing, attach decides. EEXIST is as in begin.
func (ss *sessions) mayBegin(c *caller, dir *inode, name string, st *unix.Stat_t, o *beginOptions) unix.Errno {
	if st == nil {
		return ss.losses.mayMake(c, opCreate, place{dir, name, nil}, o.flags&unix.O_EXCL != 0)
	}
	if o.trunc || o.cuts {
		p := place{dir, name, nil}
		x, e := ss.losses.wouldLoseAsked(c, o.op(), p, st, o.settings.Mode == policy.Atomic)
		if x != nil && ss.isChanged(p, st) {
			return unix.EEXIST
		}
		if x != nil && o.trunc {
			o.merge = x.Merge(ss.judging.mergeTarget(c, p, st))
		}
		if x == nil || o.merge != nil {
			return e
		}
		return errnoFor(x.Answer())
	}
	if o.blind && lostupdate.RefusesStranger(c.Foreign(), &o.settings) && ss.losses.updates.Applies(&o.settings) {
		return ss.losses.refuseStranger(c, opOpen, ss.nodes.path(dir, name))
	}
	return 0
}

// isChanged reports whether the file that has the name is not, or not as, st shows it.
func (ss *sessions) isChanged(p place, st *unix.Stat_t) bool {
	var now unix.Stat_t
	err := unix.Fstatat(ss.nodes.fdOf(p.dir), p.name, &now, unix.AT_SYMLINK_NOFOLLOW)
	return err == nil && stampOfFile(&now) != stampOfFile(st)
}

func (o *beginOptions) op() string {
	if o.cuts {
		return opTruncate
	}
	return opOpen
}

// keepsSuid reports whether the caller's changes leave setuid bits and file
// capabilities alone (CAP_FSETID). Without such bits, in the old file or in the mode of
// a new one, root is believed.
func keepsSuid(c *caller, st *unix.Stat_t, mode uint32) bool {
	if st != nil {
		mode = st.Mode
	}
	if mode&suid.Bits != 0 {
		return c.HasCap(unix.CAP_FSETID)
	}
	return c.UID() == 0
}

// beginOptions say how a session begins.
type beginOptions struct {
	settings policy.Settings
	trunc    bool
	cuts     bool // it is truncate(2)
	blind    bool // for writing alone, and not truncated
	adds     bool // for appending alone
	reads    bool // for reading and writing
	killSuid bool
	flags    uint32            // of the open
	merge    *lostupdate.Merge // what is written is to be merged; nil: it is not
	mode     uint32            // for a new file, umask applied
}

// makeShadow creates the private copy and, unless the caller truncates, gives
// it the old content.
func (ss *sessions) makeShadow(s *session, c *caller, name string, st *unix.Stat_t, o beginOptions) unix.Errno {
	dirfd := ss.nodes.fdOf(s.parent)
	so := commit.ShadowOptions{
		Dir: dirfd, DirPath: ss.nodes.nodePath(s.parent), Name: name, Base: -1, Mode: o.mode, UID: -1, GID: -1, As: s.asWriter,
	}
	s.shown.ShowNew()
	if st == nil {
		sh, err := ss.newShadow(so)
		if err != nil {
			return errnoOf(err)
		}
		s.shadow = sh
		s.content.Begin(sh)
		s.content.NoteFilled()
		s.suid.Has(o.mode)
		s.showBits()
		return errnoOf(sh.Mark())
	}
	var basefd int
	err := ss.nodes.trim.Spare(func() (err error) {
		basefd, err = commit.OpenUnnoticed(dirfd, name)
		return err
	})
	if err != nil {
		return errnoOf(err)
	}
	defer func() {
		if s.content.Old() != basefd {
			unix.Close(basefd)
		}
	}()
	if e := mayReplace(basefd, st); e != 0 {
		return e // EEXIST: the name has got another file since the caller's look
	}
	v := commit.VersionOf(st)
	s.baseKey = inoKey{v.Dev, v.Ino}
	s.baseVersion, s.baseNlink = &v, uint32(st.Nlink)
	s.suid.Has(st.Mode)
	s.shown.StandFor(st)
	s.showBits()
	s.inPlace = st.Nlink > 1 || ss.nodes.isMountpoint(s.parent, name)
	so.Base = basefd
	sh, err := ss.newShadow(so)
	if err != nil {
		return errnoOf(err)
	}
	// Its directory may not be ours to write, or its owner not ours to set.
	s.inPlace = s.inPlace || sh.MustInPlace() != nil
	s.shadow = sh
	s.content.Begin(sh)
	e := ss.fillShadow(s, basefd, st, o.trunc)
	var made unix.Stat_t
	if e == 0 && !s.content.IsChanged() && !s.content.HasMeta() && unix.Fstat(sh.FD(), &made) == nil {
		s.shown.ShowTimes(st, made.Mtim)
	}
	if e == 0 && !s.content.IsFilled() {
		s.content.FillFrom(basefd)
	}
	return e
}

func (ss *sessions) newShadow(o commit.ShadowOptions) (sh *commit.Shadow, err error) {
	err = ss.nodes.trim.Spare(func() (err error) {
		sh, err = ss.disk.store.NewShadow(o)
		return err
	})
	return sh, err
}

func (ss *sessions) fillShadow(s *session, basefd int, st *unix.Stat_t, trunc bool) unix.Errno {
	switch {
	case trunc:
		s.content.BeginCut(st.Size > 0 || s.suid.Loses(st))
		if err := touch(s.shadow.FD()); err != nil {
			return errnoOf(err)
		}
		if !s.content.IsChanged() {
			// Nothing is cut off, and the version stays; but the file has been written, as
			// make(1) asks of a stamp.
			s.content.NoteMeta(touch)
		}
	case st.Size == 0:
		s.content.NoteFilled()
	case st.Size <= ss.fillNow:
		err := s.shadow.Fill(basefd)
		if isNoRoom(err) { // a program that opens the file to cut it needs no room
			if err = unix.Ftruncate(s.shadow.FD(), 0); err == nil {
				return ss.fillLater(s, st.Size)
			}
		}
		if err != nil {
			return errnoOf(err)
		}
		s.content.NoteFilled()
	default:
		if unix.IoctlFileClone(s.shadow.FD(), basefd) != nil {
			return ss.fillLater(s, st.Size)
		}
		s.content.NoteFilled()
	}
	return errnoOf(s.shadow.Mark())
}

// touch makes now the time at which the file behind fd was last written.
func touch(fd int) error {
	now := []unix.Timespec{{Nsec: unix.UTIME_OMIT}, {Nsec: unix.UTIME_NOW}}
	return unix.UtimesNanoAt(unix.AT_FDCWD, procSelf(fd), now, 0)
}

// fillLater gives the empty shadow the size of the old content alone. The shadow gets the
// content before it is changed for the first time.
func (ss *sessions) fillLater(s *session, size int64) unix.Errno {
	if err := unix.Ftruncate(s.shadow.FD(), size); err != nil {
		return errnoOf(err)
	}
	return errnoOf(s.shadow.Mark())
}

// enter gives the session its inode and makes it the session of its name. EEXIST and ESTALE
// are as in begin.
func (ss *sessions) enter(s *session) unix.Errno {
	var st unix.Stat_t
	if err := unix.Fstat(s.shadow.FD(), &st); err != nil {
		return errnoOf(err)
	}
	fd, err := ss.nodes.trim.OpenAt(ss.disk.procfd, procName(s.shadow.FD()), unix.O_PATH)
	if err != nil {
		return errnoOf(err)
	}
	key := inoKey{uint64(st.Dev), st.Ino}
	s.stamp = stampOf(&st)
	ss.nodes.mu.Lock()
	defer ss.nodes.mu.Unlock()
	if ss.meetsLocked(s) {
		unix.Close(fd)
		return unix.EEXIST
	}
	if t := s.txn.Load(); t != nil {
		if e := t.admitsLocked(s); e != 0 {
			unix.Close(fd)
			return e
		}
	}
	if b := ss.nodes.inodes[s.baseKey]; b != nil && b.live || s.baseVersion != nil && s.dentry.State.live != notLive {
		unix.Close(fd)
		return unix.ESTALE
	}
	s.inode = ss.nodes.newInodeLocked(fd, key, unix.S_IFREG)
	s.inode.sess = s
	s.walkers = 1  // its beginner: another process of the owner may join, and be done, before that one arrives
	s.inode.pins++ // until the session is over
	ss.nodes.setNameLocked(s.inode, s.parent, s.dentry.Name())
	s.parent.pins++
	s.parent.inside++
	s.dentry.State.sess = s
	ss.nodes.sessions[s] = struct{}{}
	ss.callers.descriptors.Charge(s.uid, perSession)
	if s.baseVersion != nil {
		if b := ss.nodes.inodes[inoKey{s.baseVersion.Dev, s.baseVersion.Ino}]; b != nil {
			s.base = b
			b.pins++
			b.shadow = s
		}
	}
	return 0
}

// meetsLocked reports whether another process of the owner, which shares the lock, has begun
// a session on the same file in the meantime. nodes.mu is held.
func (ss *sessions) meetsLocked(s *session) bool {
	if s.dentry.State.sess != nil {
		return true
	}
	b := ss.nodes.inodes[s.baseKey]
	return b != nil && b.shadow != nil
}
