package fs

import (
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"latchfs/fs/calling"
	"latchfs/fs/content"
	"latchfs/fs/deaths"
	"latchfs/fs/holders"
	"latchfs/fs/judge"
	"latchfs/fs/lostupdate"
	"latchfs/fs/sessionstate"
	"latchfs/fs/standin"
	"latchfs/fs/suid"
	"latchfs/fs/versions"
	"latchfs/journal/commit"
	"latchfs/lockmgr"
	"latchfs/lockmgr/knowledge"
	"latchfs/lockmgr/policy"
)

// sessions begins sessions, lets processes of the same owner join them, and changes the size of
// their shadows.
type sessions struct {
	fillNow   int64 // the constant of that name; simulations have all files large
	sessionNo atomic.Uint64
	epoch     string // distinguishes session ids of different runs

	*ground
	commits *commits
	judging *judging
	locks   *locks
	losses  *losses
	txns    *txns
}

// session is one owner's open-for-write of one file, from the open to the last
// close: the lock, the shadow and what is known about who writes it.
//
// Mutex order: see FS. A session's mu is held while its commit
// does I/O; nothing that serves other callers may wait for it.
type session struct {
	nodes    *nodes
	id       string
	isNew    atomic.Bool // nothing has the name but for this session
	settings policy.Settings
	began    time.Time
	txn      atomic.Pointer[txn]    // of which it is a part, or nil
	taken    atomic.Pointer[string] // how its lock was stolen, in words
	inode    *inode                 // the shadow's
	left     chan struct{}          // closed when the session is over
	sessionAuthor
	sessionPlace

	mu      sync.Mutex // guards the fields below; held during a commit
	state   sessionstate.Machine
	lock    *lockmgr.Lock
	handles map[*handle]struct{} // open for writing
	holders *holders.Set         // who may still have one of their descriptors
	next    *versions.Step       // prepared for the commit of a transaction
	sessionBase
	sessionCopy
	sessionShow
	sessionClose
}

// sessionBase is the version that a session replaces. session.mu guards it, but for baseKey,
// which does not change.
type sessionBase struct {
	baseKey     inoKey // the inode that is replaced; zero for a new file
	base        *inode // the committed file's, if the kernel knows it; changed with nodes.mu held, too
	outdated    *inode // whose pages in the kernel a commit in place has made old; nil: nobody's
	baseVersion *commit.Version
	baseNlink   uint32
	inPlace     bool
}

// sessionCopy is what a session makes of the file's content. session.mu guards it.
type sessionCopy struct {
	shadow  *commit.Shadow
	content content.Copy               // of the shadow
	suid    suid.Writing               // the setuid and setgid bits, as far as the shadow does not tell
	writing lostupdate.Writing         // on which version its writers base what they write
	fresh   bool                       // begun truncated or new, and nobody has opened it yet
	toll    deaths.Toll[content.Stamp] // of those that had the shadow open
	judged  judge.Accepted             // of the shadow
}

// sessionShow is what others see of a session's work, before its end and after. session.mu
// guards it.
type sessionShow struct {
	copied  bool          // a copy was published under a rename; see endings.publishCopy
	saved   content.Saved // which contents were synced and published
	appears *time.Timer   // makes a new file visible that is still open; nil: not running
	grows   bool          // it has appeared, or is about to, before its close
	shown   standin.Attrs // of the shadow
}

// sessionAuthor is who writes what a session makes.
type sessionAuthor struct {
	who      atomic.Pointer[calling.Identity]
	opener   lockmgr.Owner // who began it
	writer   knowledge.Who // who learns what the session makes
	uid, gid uint32
	named    atomic.Pointer[string] // the program that writes it: see program
}

// sessionPlace is where a session is. nodes.mu guards it, but for what is atomic.
type sessionPlace struct {
	moving  atomic.Int32    // operations that give its file another name: see moves.keepFromEnding
	parent  *inode          // the directory of dentry; pinned
	dentry  *dentry         // its name, with a reference; of one that is over, the last
	walkers int             // callers on their way to the shadow
	besides []inoKey        // numbers of other nodes at which it is open: see sessions.attachBeside
	over    bool            // no longer the session of its name
	told    []lockmgr.Owner // processes that could not create the file because of it
	removed bool            // its own family has removed the file
}

// sessionClose is how far a session is from its last close. session.mu guards it, but for
// what is atomic.
type sessionClose struct {
	working   atomic.Pointer[chan struct{}] // closed when what takes its time is over; nil: nothing does
	passed    bool                          // a handle's writes go past us, and so do their errors
	closed    bool                          // a descriptor was closed, so there was one
	output    bool                          // it is, or was, some process's standard output or error
	stamp     shadowStamp                   // at the last heartbeat
	by        *holders.Closer               // whose close ends the session, while it does
	lingering *time.Timer                   // waits for the RELEASE of a session with nothing to commit; nil: nothing does
	used      usage                         // by an operation that came to the daemon
	idle      atomic.Bool                   // nothing written and every descriptor closed: RELEASE is due
	patience  atomic.Int32                  // how often late may look again
}

// sessionOn returns the running session that a write to n under this name would
// meet: one on the name, or one on another name of the same inode.
func (ns *nodes) sessionOn(n, dir *inode, name string) *session {
	ns.mu.Lock()
	defer ns.mu.Unlock()
	if s := ns.nameLocked(dir, name).sess; s != nil {
		return s
	}
	if n == nil {
		return nil
	}
	return n.shadow
}

// sessionAt returns the running session on a name.
func (ns *nodes) sessionAt(dir *inode, name string) *session {
	ns.mu.Lock()
	defer ns.mu.Unlock()
	return ns.nameLocked(dir, name).sess
}

// leaveLocked ends the session's claim on its name. nodes.mu is held.
func (s *session) leaveLocked() {
	if s.over {
		return
	}
	s.over = true
	close(s.left)
	if s.base != nil && s.base.shadow == s {
		s.base.shadow = nil
	}
	s.leaveNameLocked()
	s.parent.inside--
}

// hasLostName reports whether the session is not that of its name any more: it has ended, its
// family has taken the name away, or its lock was stolen.
func (s *session) hasLostName() bool {
	s.nodes.mu.Lock()
	defer s.nodes.mu.Unlock()
	return s.over
}

// path is the session's current name relative to the root.
func (s *session) path() string {
	s.nodes.mu.Lock()
	defer s.nodes.mu.Unlock()
	return s.dentry.Path()
}

// where returns the session's current directory and name.
func (s *session) where() (*inode, string) {
	s.nodes.mu.Lock()
	defer s.nodes.mu.Unlock()
	return s.parent, s.dentry.Name()
}

// pinPlace is where a session is, its directory pinned; nil if the session is forgotten: the
// directory may be, too.
func (ns *nodes) pinPlace(s *session) (dir *inode, name string) {
	ns.mu.Lock()
	defer ns.mu.Unlock()
	if _, is := ns.sessions[s]; !is {
		return nil, ""
	}
	s.parent.pins++
	return s.parent, s.dentry.Name()
}

// fillLocked gives a lazily made shadow the old content, before its first change.
func (s *session) fillLocked() unix.Errno { return s.fillToLocked(math.MaxInt64) }

// fillToLocked is fillLocked for a shadow that is cut to size bytes next, before s.mu is given
// back: on a full disk there may be no room for more of them.
func (s *session) fillToLocked(size int64) unix.Errno {
	e := errnoOf(s.content.FillTo(size))
	if e != 0 {
		s.content.Fail(e) // the change that it was for is not done
	}
	return e
}

// heldLock is the session's lock; nil of no session.
func (s *session) heldLock() *lockmgr.Lock {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lock
}

func (s *session) String() string {
	return fmt.Sprintf("session %s on %q", s.id, s.path())
}
