package fs

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"latchfs/fs/control"
	"latchfs/fs/ctl"
	"latchfs/journal/commit"
	"latchfs/lockmgr"
)

// txn is a transaction: everything that a process and its heirs write is staged,
// shown to them alone, and published as a whole or not at all (DESIGN §7).
//
// A file that one of them writes is an ordinary session, but for three things: it
// is the transaction's owner's, so that all of them join it; it outlives its last
// close; and it ends with all others. What is removed, and what is made that has
// no private copy (directories, links), is a name in stagedNames.
type txn struct {
	f     *FS
	id    uint64 // the token of its claim, so never used again
	label string // by what programs know the claim
	cl    *ctl.Claim
	owner lockmgr.Owner
	up    []lockmgr.Ancestor
	since lockmgr.Birth
	over  atomic.Bool // nothing is staged any more
	lost  atomic.Bool // a lock of its was stolen

	mu     sync.Mutex // guards what follows, and is held by each change of names
	store  *commit.Txn
	locks  []*lockmgr.Lock // on names that were changed
	reason string          // why it is over

	names  map[*dentry]*stagedName // guarded by FS.mu
	staged int                     // guarded by FS.mu: how many names it has ever staged
	closed bool                    // guarded by FS.mu: it is being decided, and gets no more sessions
}

// stagedName is a name that a transaction changes without a session.
type stagedName struct {
	t     *txn
	dir   *inode // pinned
	name  string
	at    *dentry        // of name, with a reference while it is staged
	gone  bool           // removed for its members; else made, and hidden from others
	base  commit.Version // of what is to be removed
	isDir bool
	heir  *session // which a member gave another name; nil: what had the name is gone for good
	by    *caller  // who has made or removed it
	nth   int      // in the order in which the members did that, from 0

	op     string       // by which it was made
	was    *unix.Stat_t // what is to be removed; nil: a file, which base tells
	target string       // where the symbolic link leads that is to be removed

	// At the commit:
	next    *succession
	removal *commit.Removal
	to      place               // where the heir is published; its directory is pinned
	renamed func(replaced bool) // to be called when it is known whether it was
}

var (
	// errTxnOver refuses what a member does after its transaction has ended
	// without it.
	errTxnOver = errors.New("the transaction of this process is over: it was rolled back")
	errCommit  = errors.New("the transaction was refused")
)

// txns are the transactions under way.
type txns struct {
	n   atomic.Int32
	mu  sync.Mutex // guards all
	all []*txn
}

// beginTxn makes a claim, which has its lock, a transaction.
func (f *FS) beginTxn(cl *ctl.Claim) *txn {
	l := f.ctl.Claims.LockOf(cl)
	r := l.Request()
	t := &txn{
		f: f, id: l.Token(), label: cl.ID(), cl: cl, owner: r.Owner, up: r.Lineage, since: r.Since,
		store: f.store.NewTxn(l.Token()), names: map[*dentry]*stagedName{},
	}
	cl.SetTxn(ctlTxn{t})
	f.txns.mu.Lock()
	f.txns.all = append(f.txns.all, t)
	f.txns.mu.Unlock()
	f.txns.n.Add(1)
	return t
}

// forget lets the members be ordinary processes again.
func (t *txn) forget() {
	ts := &t.f.txns
	ts.mu.Lock()
	defer ts.mu.Unlock()
	if i := slices.Index(ts.all, t); i >= 0 {
		ts.all = slices.Delete(ts.all, i, i+1)
		ts.n.Add(-1)
	}
}

func (f *FS) runningTxns() []*txn {
	f.txns.mu.Lock()
	defer f.txns.mu.Unlock()
	return slices.Clone(f.txns.all)
}

// txnOf is the transaction that the caller is part of: as an heir of who began it,
// or by its environment.
func (f *FS) txnOf(c *caller) *txn {
	if f.txns.n.Load() == 0 || c.foreign() {
		return nil
	}
	c.txnOnce.Do(func() {
		f.joinGuard(c)
		for _, t := range f.runningTxns() {
			if c.descendsFrom(&identity{t.owner, t.since}) {
				c.txn = t
			}
		}
		if c.txn == nil {
			c.txn = f.txnByName(c)
		}
	})
	return c.txn
}

// txnByName is the transaction that the caller's environment names, whoever its
// ancestors are by now: guard may have been killed.
func (f *FS) txnByName(c *caller) *txn {
	id := f.proc.EnvOf(c.owner, []string{control.SessionEnv})
	if id == "" {
		return nil
	}
	cl := f.ctl.Claims.ByID(id)
	if cl == nil || cl.By.UID() != c.uid {
		return nil
	}
	if t, ok := cl.Txn().(ctlTxn); ok && slices.Contains(f.runningTxns(), t.txn) {
		return t.txn
	}
	return nil
}

// txnFor is txnOf for a request, with its caller. Without any transaction it costs
// nothing.
func (f *FS) txnFor(h *fuse.InHeader) (*txn, *caller) {
	if f.txns.n.Load() == 0 {
		return nil, nil
	}
	c := f.callerOf(h)
	return f.txnOf(c), c
}

// forebears are whose locks do not keep a member out that asks in the transaction's
// name: those of the transaction's ancestors, and what the member or the processes
// between have locked themselves, with flock(2) for instance.
func (t *txn) forebears(c *caller) []lockmgr.Ancestor {
	up := []lockmgr.Ancestor{{Owner: c.owner, Child: t.f.proc.Now()}}
	return append(append(up, c.ancestors()...), t.up...)
}

// stages reports whether what happens to a path is part of the transaction: live
// files are not staged by anybody, but for names that lead to something staged: a
// live file that was moved away or to which something was moved.
func (t *txn) stages(dir *inode, name string) bool {
	f := t.f
	if !f.isLiveName(dir, name) || f.stagedAt(dir, name) != nil {
		return true
	}
	s := f.sessionAt(dir, name)
	return s != nil && s.txn.Load() == t
}

// held reports whether the session is kept open by its transaction.
func (s *session) held() bool {
	t := s.txn.Load()
	return t != nil && !t.over.Load()
}

// sessions are those of the transaction, in the order in which they began.
func (t *txn) sessions() []*session {
	t.f.mu.Lock()
	defer t.f.mu.Unlock()
	return t.sessionsLocked()
}

// finalSessions is sessions for the last time: it gets no others any more, for
// nobody would end them.
func (t *txn) finalSessions() []*session {
	t.f.mu.Lock()
	defer t.f.mu.Unlock()
	t.closed = true
	return t.sessionsLocked()
}

// sessionsLocked is sessions with FS.mu held.
func (t *txn) sessionsLocked() []*session {
	f := t.f
	var list []*session
	for s := range f.sessions {
		if s.txn.Load() == t && !s.over {
			list = append(list, s)
		}
	}
	slices.SortFunc(list, func(a, b *session) int { return a.began.Compare(b.began) })
	return list
}

// refusedTxn says why a transaction was not committed.
type refusedTxn struct {
	path   string // "" if it is about no file
	errno  unix.Errno
	reason string
}

func (e *refusedTxn) Error() string {
	if e.path == "" {
		return e.reason
	}
	return fmt.Sprintf("%s: %s", e.path, e.reason)
}

func (e *refusedTxn) Is(target error) bool { return target == errCommit }

// commit publishes everything. A *refusedTxn says that nothing was, and why; any
// other error that it was, but is not known to be on disk.
func (t *txn) commit() error {
	f := t.f
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.over.Load() {
		return &refusedTxn{reason: t.reason, errno: unix.EBUSY}
	}
	refused := t.judge()
	// No directory changes its path between what the journal says and what happens.
	f.ns.RLock()
	defer f.ns.RUnlock()
	all := t.finalSessions()
	for _, s := range all {
		s.mu.Lock()
	}
	err := refused
	if err == nil {
		err = t.publishLocked(all)
	}
	if errors.Is(err, errCommit) {
		t.rollbackLocked(all, err.Error())
	} else {
		t.tellNames()
		t.over.Store(true)
		for _, s := range all {
			s.endPublished(err)
		}
	}
	for _, s := range all {
		s.mu.Unlock()
	}
	t.endLocked(!errors.Is(err, errCommit))
	return err
}
