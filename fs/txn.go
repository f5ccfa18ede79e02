package fs

import (
	"slices"

	"golang.org/x/sys/unix"

	"latchfs/fs/ctl"
	"latchfs/fs/transaction"
	"latchfs/fs/versions"
	"latchfs/journal/commit"
	"latchfs/lockmgr"
)

// txns finds what the transactions have staged under a name. The running ones are known to
// callers; entries begins them, and makes their changes.
type txns struct {
	*ground
}

// txn is a transaction (package transaction) with the names that it has changed.
//
// A file that one of its members writes is an ordinary session, but for three things: it is
// the transaction's owner's, so that all of them join it; it outlives its last close; and it
// ends with all others. What is removed, and what is made that has no private copy
// (directories, links), is a stagedName.
type txn struct {
	*transaction.Txn
	*entries
	cl    *ctl.Claim
	store *commit.Txn

	changed map[*dentry]*stagedName // guarded by nodes.mu
	staged  int                     // guarded by nodes.mu: how many names it has ever staged
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
func (et *entries) beginTxn(cl *ctl.Claim) {
	l := et.callers.ctl.Claims.LockOf(cl)
	r := l.Request()
	t := &txn{entries: et, cl: cl, store: et.disk.store.NewTxn(l.Token()), changed: map[*dentry]*stagedName{}}
	t.Txn = transaction.New(transaction.Config{
		Engine: txnEngine{t}, Store: txnStore{t.store, et.recovery}, ID: l.Token(), Label: cl.ID(), UID: cl.By.UID(),
		Owner: r.Owner, Lineage: r.Lineage, Since: r.Since,
	})
	cl.SetTxn(ctlTxn{t})
	et.callers.running.Enter(t.Txn)
}

// forebears are whose locks do not keep a member out that asks in the transaction's name.
func (t *txn) forebears(c *caller) []lockmgr.Ancestor {
	return t.Forebears(lockmgr.Ancestor{Owner: c.Owner(), Child: t.callers.proc.Now()}, c.Ancestors())
}

// stages reports whether what happens to a path is part of the transaction: live
// files are not staged by anybody, but for names that lead to something staged: a
// live file that was moved away or to which something was moved.
func (t *txn) stages(dir *inode, name string) bool {
	if !t.txns.isLiveName(dir, name) || t.txns.stagedAt(dir, name) != nil {
		return true
	}
	s := t.nodes.sessionAt(dir, name)
	return s != nil && s.txn.Load() == t
}

// held reports whether the session is kept open by its transaction.
func (s *session) held() bool {
	t := s.txn.Load()
	return t != nil && !t.IsOver()
}

// files are the sessions of the transaction, in the order in which they began.
func (t *txn) files() []*session { return t.filesIf(func(s *session) bool { return !s.over }) }

// robbed are those that have lost their lock or their name, and end by themselves.
func (t *txn) robbed() []*session { return t.filesIf(func(s *session) bool { return s.over }) }

// filesIf are those of its sessions of which it is true, which is asked with nodes.mu held.
func (t *txn) filesIf(is func(*session) bool) []*session {
	t.nodes.mu.Lock()
	defer t.nodes.mu.Unlock()
	var list []*session
	for s := range t.nodes.sessions {
		if s.txn.Load() == t && is(s) {
			list = append(list, s)
		}
	}
	slices.SortFunc(list, func(a, b *session) int { return a.began.Compare(b.began) })
	return list
}

// baseIsCurrent reports whether the name still leads to what the session was
// begun on, and nobody of the family has changed that. From the moment that the
// session has its name nobody else of the family begins one.
func (tx *txns) baseIsCurrent(s *session) bool {
	var st unix.Stat_t
	dir, name := s.where()
	err := unix.Fstatat(tx.nodes.fdOf(dir), name, &st, unix.AT_SYMLINK_NOFOLLOW)
	if err == unix.ENOENT {
		return s.isNew.Load()
	}
	if sn := tx.stagedAt(dir, name); sn != nil && s.txn.Load() == sn.t && s.isNew.Load() {
		return err == nil && sn.base.Ino == st.Ino
	}
	s.mu.Lock() // a process of the owner may already be changing the base's metadata
	defer s.mu.Unlock()
	return err == nil && s.baseVersion != nil && *s.baseVersion == commit.VersionOf(&st)
}

// awaitsTxn refuses to change names to which a transaction has yet to give what it has
// made of them: that would come later, and replace the change.
func (tx *txns) awaitsTxn(c *caller, op string, places []place) unix.Errno {
	if tx.disk.store == nil || !tx.disk.store.HalfDone() {
		return 0
	}
	for _, p := range places {
		path := tx.nodes.path(p.dir, p.name)
		if !tx.disk.store.AwaitsTxn(path) {
			continue
		}
		return tx.reports.refuseWith(c, op, path, unix.EIO,
			"A transaction has changed the file, and an error of the disk has kept the change from being made",
			"latchfs tries again at each open; its log has the error.")
	}
	return 0
}
