package fs

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"latchfs/journal/commit"
	"latchfs/lockmgr"
	"latchfs/lockmgr/policy"
)

// fillNow is the size up to which the old content is copied into a shadow at
// open. A larger file that cannot be cloned is copied at the first write, for
// many programs open for writing and write nothing.
const fillNow = 16 << 20

// session is one owner's open-for-write of one file, from the open to the last
// close: the lock, the shadow and what is known about who writes it.
//
// Mutex order: session.mu, then FS.mu. A session's mu is held while its commit
// does I/O; nothing that serves other callers may wait for it.
type session struct {
	f        *FS
	id       string
	isNew    bool // the name did not exist when the session began
	settings policy.Settings
	who      atomic.Pointer[identity]
	fsetid   bool   // the writer may keep setuid and setgid bits (CAP_FSETID)
	baseKey  inoKey // the inode that is replaced; zero for a new file
	uid, gid uint32
	program  string
	began    time.Time

	// Guarded by FS.mu.
	node    *node
	parent  *node
	name    string
	walkers int  // callers on their way to the shadow
	over    bool // no longer the session of its name

	mu          sync.Mutex
	lock        *lockmgr.Lock
	shadow      *commit.Shadow
	base        *node // the committed inode's node, if the kernel knows it
	baseFD      int   // the committed file while the shadow is not filled, else -1
	baseVersion *commit.Version
	baseMode    uint32
	baseNlink   uint32
	inPlace     bool
	handles     map[*handle]struct{} // open for writing
	seen        map[int32]lockmgr.Owner
	filled      bool
	wrote       bool // the daemon itself changed the content
	truncated   bool // by the open that began it
	closed      bool // a descriptor was closed, so there was one
	killedBy    int  // signal
	failed      unix.Errno
	meta        []func(fd int) error
	detached    bool       // the name was taken away by its own owner
	published   bool       // a copy went out under a rename; see publishCopy
	sealed      cacheStamp // size and mtime of what was published
	synced      cacheStamp // size and mtime at the last fsync
	live        bool       // went live: its handles write the published file itself
	ended       bool
	lingering   *time.Timer // waits for the RELEASE of a session with nothing to commit
	result      unix.Errno
	shown       atomic.Pointer[shownAttr]
	idle        atomic.Bool  // nothing written and every descriptor closed: RELEASE is due
	patience    atomic.Int32 // how often late may look again
}

// shownAttr is how the attributes of the shadow differ from what fstat says. It
// has the number of the inode that it stands for: programs compare what they
// stat before the open with what they fstat after it.
type shownAttr struct {
	nlink    uint32
	dev, ino uint64 // 0: its own
	// As long as the shadow has the times fresh, nothing was written, and it
	// shows those of the file it stands for.
	fresh, mtime, ctime unix.Timespec
}

// adjust turns the shadow's attributes into what its owner expects to see: an
// unnamed inode has no links, the file that it stands for has.
func (s *session) adjust(st *unix.Stat_t) {
	if a := s.shown.Load(); a != nil {
		st.Nlink = uint64(a.nlink)
		if a.ino != 0 {
			st.Dev, st.Ino = a.dev, a.ino
		}
		if a.fresh != (unix.Timespec{}) && st.Mtim == a.fresh {
			st.Mtim, st.Ctim = a.mtime, a.ctime
		}
	}
}

// nameState is what is special about a name while a session changes it or
// callers wait to create it.
type nameState struct {
	sess  *session
	stale int // callers who were told to walk again
}

func (f *FS) nameStateLocked(k dkey) *nameState {
	ns := f.names[k]
	if ns == nil {
		ns = &nameState{}
		f.names[k] = ns
	}
	return ns
}

func (f *FS) gcNameLocked(k dkey) {
	if ns := f.names[k]; ns != nil && ns.sess == nil && ns.stale == 0 {
		delete(f.names, k)
	}
}

// sessionOn returns the running session that a write to n under this name would
// meet: one on the name, or one on another name of the same inode.
func (f *FS) sessionOn(n, dir *node, name string) *session {
	f.mu.Lock()
	defer f.mu.Unlock()
	if ns := f.names[dkey{dir.id, name}]; ns != nil && ns.sess != nil {
		return ns.sess
	}
	if n == nil {
		return nil
	}
	return n.shadow
}

// sessionAt returns the running session on a name.
func (f *FS) sessionAt(dir *node, name string) *session {
	f.mu.Lock()
	defer f.mu.Unlock()
	if ns := f.names[dkey{dir.id, name}]; ns != nil {
		return ns.sess
	}
	return nil
}

// begin starts a session for c on name in dir, under a lock already held. st is
// the committed file, nil if the name is free.
func (f *FS) begin(c *caller, l *lockmgr.Lock, dir *node, name string, st *unix.Stat_t, o beginOptions) (*session, unix.Errno) {
	s := &session{
		f: f, id: f.newSessionID(), settings: o.settings, uid: c.uid, gid: c.gid, began: time.Now(),
		parent: dir, name: name, lock: l, isNew: st == nil,
		baseFD: -1, handles: map[*handle]struct{}{}, seen: map[int32]lockmgr.Owner{},
	}
	s.patience.Store(10)
	s.who.Store(&identity{c.owner, l.Request().Since})
	s.program = c.program()
	if !c.foreign() {
		s.seen[c.owner.PID] = c.owner
	}
	s.fsetid = !o.killSuid && s.keepsSuid(c, st)
	if err := f.coverToken(l.Token()); err != nil {
		return nil, errnoOf(err)
	}
	if e := s.makeShadow(c, st, o); e != 0 {
		return nil, e
	}
	if e := s.enter(); e != 0 {
		s.closeBase()
		s.discard(s.shadow)
		return nil, e
	}
	if !s.baseIsCurrent() {
		// A relative's session ended between our look at the file and now.
		f.mu.Lock()
		s.node.sess = nil
		s.finishLocked()
		f.mu.Unlock()
		s.closeBase()
		s.discard(s.shadow)
		return nil, unix.EEXIST
	}
	if lb, ok := l.Request().Label.(*label); ok {
		lb.session.Store(&s.id)
	}
	return s, 0
}

// keepsSuid reports whether the writer's changes leave setuid bits and file
// capabilities alone (CAP_FSETID). Without such bits root is believed.
func (s *session) keepsSuid(c *caller, st *unix.Stat_t) bool {
	if st != nil && st.Mode&(unix.S_ISUID|unix.S_ISGID) != 0 {
		return s.f.proc.HasCap(uint32(c.tid), capFsetid)
	}
	return c.uid == 0
}

type beginOptions struct {
	settings policy.Settings
	trunc    bool
	killSuid bool
	mode     uint32 // for a new file, umask applied
}

// makeShadow creates the private copy and, unless the caller truncates, gives
// it the old content.
func (s *session) makeShadow(c *caller, st *unix.Stat_t, o beginOptions) unix.Errno {
	f := s.f
	dirfd := f.fdOf(s.parent)
	so := commit.ShadowOptions{Dir: dirfd, DirPath: f.nodePath(s.parent), Name: s.name, Base: -1, Mode: o.mode, UID: -1, GID: -1}
	s.shown.Store(&shownAttr{nlink: 1})
	if st == nil {
		if f.privileged {
			so.UID, so.GID = int(c.uid), int(c.gid)
			if g, ok := f.setgidGroup(dirfd); ok {
				so.GID = g
			}
		}
		sh, err := f.store.NewShadow(so)
		if err != nil {
			return errnoOf(err)
		}
		s.shadow, s.filled = sh, true
		return errnoOf(sh.Mark())
	}
	basefd, err := unix.Openat(dirfd, s.name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_CLOEXEC|unix.O_NOATIME, 0)
	if err == unix.EPERM {
		basefd, err = unix.Openat(dirfd, s.name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	}
	if err != nil {
		return errnoOf(err)
	}
	defer func() {
		if s.baseFD != basefd {
			unix.Close(basefd)
		}
	}()
	v := commit.VersionOf(st)
	s.baseKey = inoKey{v.Dev, v.Ino}
	s.baseVersion, s.baseMode, s.baseNlink = &v, st.Mode, uint32(st.Nlink)
	s.shown.Store(&shownAttr{nlink: uint32(st.Nlink), dev: uint64(st.Dev), ino: st.Ino})
	s.inPlace = st.Nlink > 1 || f.isMountpoint(s.parent, s.name)
	so.Base = basefd
	sh, err := f.store.NewShadow(so)
	if err != nil {
		return errnoOf(err)
	}
	// Its directory may not be ours to write, or its owner not ours to set.
	s.inPlace = s.inPlace || sh.MustInPlace() != nil
	s.shadow = sh
	e := s.fillShadow(basefd, st, o.trunc)
	var made unix.Stat_t
	if e == 0 && !s.truncated && unix.Fstat(sh.FD(), &made) == nil {
		a := *s.shown.Load()
		a.fresh, a.mtime, a.ctime = made.Mtim, st.Mtim, st.Ctim
		s.shown.Store(&a)
	}
	if e == 0 && !s.filled {
		s.baseFD = basefd
	}
	return e
}

func (s *session) fillShadow(basefd int, st *unix.Stat_t, trunc bool) unix.Errno {
	switch {
	case trunc:
		s.filled = true
		s.truncated = st.Size > 0
		if s.truncated {
			now := []unix.Timespec{{Nsec: unix.UTIME_OMIT}, {Nsec: unix.UTIME_NOW}}
			if err := unix.UtimesNanoAt(unix.AT_FDCWD, procSelf(s.shadow.FD()), now, 0); err != nil {
				return errnoOf(err)
			}
		}
	case st.Size == 0:
		s.filled = true
	case st.Size <= fillNow:
		if err := s.shadow.Fill(basefd); err != nil {
			return errnoOf(err)
		}
		s.filled = true
	default:
		if unix.IoctlFileClone(s.shadow.FD(), basefd) == nil {
			s.filled = true
		} else if err := unix.Ftruncate(s.shadow.FD(), st.Size); err != nil {
			return errnoOf(err)
		}
	}
	return errnoOf(s.shadow.Mark())
}

// enter gives the session its node and makes it the session of its name.
func (s *session) enter() unix.Errno {
	f := s.f
	var st unix.Stat_t
	if err := unix.Fstat(s.shadow.FD(), &st); err != nil {
		return errnoOf(err)
	}
	fd, err := unix.Openat(f.procfd, procName(s.shadow.FD()), unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return errnoOf(err)
	}
	key := inoKey{uint64(st.Dev), st.Ino}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.meetsLocked(s) {
		unix.Close(fd)
		return unix.EEXIST
	}
	s.node = f.newNodeLocked(fd, key, unix.S_IFREG)
	s.node.sess = s
	s.node.pins++ // until the session is over
	f.setNameLocked(s.node, s.parent, s.name)
	s.parent.pins++
	s.parent.inside++
	f.nameStateLocked(dkey{s.parent.id, s.name}).sess = s
	f.sessions[s] = struct{}{}
	if s.baseVersion != nil {
		if b := f.byIno[inoKey{s.baseVersion.Dev, s.baseVersion.Ino}]; b != nil {
			s.base = b
			b.pins++
			b.shadow = s
		}
	}
	return 0
}

// closeBase gives the committed file's descriptor back.
func (s *session) closeBase() {
	if s.baseFD >= 0 {
		unix.Close(s.baseFD)
		s.baseFD = -1
	}
}

// baseIsCurrent reports whether the name still leads to what the session was
// begun on. From the moment that the session has its name nobody else of the
// family begins one.
func (s *session) baseIsCurrent() bool {
	var st unix.Stat_t
	err := unix.Fstatat(s.f.fdOf(s.parent), s.name, &st, unix.AT_SYMLINK_NOFOLLOW)
	if err == unix.ENOENT {
		return s.isNew
	}
	return err == nil && s.baseKey == inoKey{uint64(st.Dev), st.Ino}
}

// meetsLocked reports whether a relative, who shares the lock, has begun a
// session on the same file in the meantime. FS.mu is held.
func (f *FS) meetsLocked(s *session) bool {
	if ns := f.names[dkey{s.parent.id, s.name}]; ns != nil && ns.sess != nil {
		return true
	}
	b := f.byIno[s.baseKey]
	return b != nil && b.shadow != nil
}

// leaveLocked ends the session's claim on its name. FS.mu is held.
func (s *session) leaveLocked() {
	if s.over {
		return
	}
	s.over = true
	f := s.f
	if s.base != nil && s.base.shadow == s {
		s.base.shadow = nil
	}
	k := dkey{s.parent.id, s.name}
	if ns := f.names[k]; ns != nil && ns.sess == s {
		ns.sess = nil
		f.gcNameLocked(k)
	}
	s.parent.inside--
	f.unpinLocked(s.parent)
}

// finishLocked forgets the session altogether. FS.mu is held.
func (s *session) finishLocked() {
	f := s.f
	if _, ok := f.sessions[s]; !ok {
		return
	}
	delete(f.sessions, s)
	s.leaveLocked()
	if s.base != nil {
		f.unpinLocked(s.base)
	}
	f.unpinLocked(s.node)
}

// path is the session's current name relative to the root.
func (s *session) path() string {
	s.f.mu.Lock()
	defer s.f.mu.Unlock()
	return pathLocked(s.parent, s.name)
}

// at returns the session's node: its own, or the committed file's that it has
// taken over.
func (s *session) at() *node {
	s.f.mu.Lock()
	defer s.f.mu.Unlock()
	return s.node
}

// where returns the session's current directory and name.
func (s *session) where() (*node, string) {
	s.f.mu.Lock()
	defer s.f.mu.Unlock()
	return s.parent, s.name
}

// walkerGone notes that a caller who was led to the shadow will not come.
func (s *session) walkerGone() {
	s.f.mu.Lock()
	s.walkers--
	s.f.mu.Unlock()
	s.endIfIdle(nil)
}

// note records that a process uses the session's handle.
func (s *session) noteLocked(o lockmgr.Owner) {
	if o.PID != 0 {
		s.seen[o.PID] = o
	}
}

// fill gives a lazily made shadow the old content, before its first change.
func (s *session) fillLocked() unix.Errno {
	if s.filled || s.ended {
		return 0
	}
	if err := s.shadow.Fill(s.baseFD); err != nil {
		s.failed = errnoOf(err)
		return s.failed
	}
	if err := s.shadow.Mark(); err != nil {
		return errnoOf(err)
	}
	s.filled = true
	s.closeBase()
	return 0
}

func (s *session) String() string {
	return fmt.Sprintf("session %s on %q", s.id, s.path())
}
