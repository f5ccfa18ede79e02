package fs

import (
	"slices"

	"golang.org/x/sys/unix"

	"latchfs/fs/control"
	"latchfs/fs/ctl"
	"latchfs/fs/transaction"
	"latchfs/fs/versions"
	"latchfs/journal/commit"
	"latchfs/lockmgr"
)

// txn is a transaction (package transaction) with the names that it has changed.
//
// A file that one of its members writes is an ordinary session, but for three things: it is
// the transaction's owner's, so that all of them join it; it outlives its last close; and it
// ends with all others. What is removed, and what is made that has no private copy
// (directories, links), is a stagedName.
type txn struct {
	*transaction.Txn
	f     *FS
	cl    *ctl.Claim
	store *commit.Txn

	names  map[*dentry]*stagedName // guarded by FS.mu
	staged int                     // guarded by FS.mu: how many names it has ever staged
}

// stagedName is a name that a transaction changes without a session.
type stagedName struct {
	t    *txn
	dir  *inode // pinned
	name string
	at   *dentry // of name, with a reference while it is staged
	did  transaction.Change
	base commit.Version // of what is to be removed, or was moved
	heir *session       // what was moved
	by   *caller        // who has made, removed or moved it
	nth  int            // in the order in which the members did that, from 0

	op     string       // by which it was made
	was    *unix.Stat_t // what is to be removed; nil: a file, which base tells
	target string       // where the symbolic link leads that is to be removed

	// At the commit:
	next    *versions.Step
	removal *commit.Removal
	to      place               // where the heir is published; its directory is pinned
	renamed func(replaced bool) // to be called when it is known whether it was
}

// beginTxn makes a claim, which has its lock, a transaction.
func (f *FS) beginTxn(cl *ctl.Claim) {
	l := f.ctl.Claims.LockOf(cl)
	r := l.Request()
	t := &txn{f: f, cl: cl, store: f.store.NewTxn(l.Token()), names: map[*dentry]*stagedName{}}
	t.Txn = transaction.New(transaction.Config{
		Engine: txnEngine{t}, Store: txnStore{t.store, f}, ID: l.Token(), Label: cl.ID(), UID: cl.By.UID(),
		Owner: r.Owner, Lineage: r.Lineage, Since: r.Since,
	})
	cl.SetTxn(ctlTxn{t})
	f.txns.Enter(t.Txn)
}

// identity is whose the sessions of the transaction are.
func (t *txn) identity() identity { return identity{owner: t.Owner(), since: t.Since()} }

// txnOf is the transaction that the caller is part of: as an heir of who began it,
// or by its environment.
func (f *FS) txnOf(c *caller) *txn {
	if !f.txns.Any() || c.foreign() {
		return nil
	}
	c.txnOnce.Do(func() {
		f.joinGuard(c)
		if t := f.txns.Of(c); t != nil {
			c.txn = t.Engine().(txnEngine).t
		}
	})
	return c.txn
}

// DescendsFrom implements transaction.Process.
func (c *caller) DescendsFrom(o lockmgr.Owner, since lockmgr.Birth) bool {
	return c.descendsFrom(&identity{owner: o, since: since})
}

// TxnLabel implements transaction.Process.
func (c *caller) TxnLabel() string { return c.f.proc.EnvOf(c.owner, []string{control.SessionEnv}) }

// txnFor is txnOf for a request, with its caller. Without any transaction it costs
// nothing.
func (f *FS) txnFor(h *Request) (*txn, *caller) {
	if !f.txns.Any() {
		return nil, nil
	}
	c := f.callerOf(h)
	return f.txnOf(c), c
}

// forebears are whose locks do not keep a member out that asks in the transaction's name.
func (t *txn) forebears(c *caller) []lockmgr.Ancestor {
	return t.Forebears(lockmgr.Ancestor{Owner: c.owner, Child: t.f.proc.Now()}, c.ancestors())
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
	return t != nil && !t.IsOver()
}

// sessions are those of the transaction, in the order in which they began.
func (t *txn) sessions() []*session {
	f := t.f
	f.mu.Lock()
	defer f.mu.Unlock()
	var list []*session
	for s := range f.sessions {
		if s.txn.Load() == t && !s.over {
			list = append(list, s)
		}
	}
	slices.SortFunc(list, func(a, b *session) int { return a.began.Compare(b.began) })
	return list
}
