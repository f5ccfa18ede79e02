package fs

import (
	"time"

	"latchfs/fs/transaction"
	"latchfs/journal/audit"
	"latchfs/journal/commit"
	"latchfs/lockmgr"
)

// txnEngine is the filesystem as a transaction needs it.
type txnEngine struct{ t *txn }

// txnStore is the store as a transaction needs it.
type txnStore struct {
	*commit.Txn
	recovery *recovery
}

var (
	_ transaction.Engine  = txnEngine{}
	_ transaction.Name    = (*stagedName)(nil)
	_ transaction.Store   = txnStore{}
	_ transaction.Process = (*caller)(nil)
)

// HasLock implements transaction.Engine.
func (e txnEngine) HasLock() bool { return e.t.callers.ctl.Claims.LockOf(e.t.cl).Held() }

// HoldPaths implements transaction.Engine.
func (e txnEngine) HoldPaths() { e.t.nodes.ns.RLock() }

// ReleasePaths implements transaction.Engine.
func (e txnEngine) ReleasePaths() { e.t.nodes.ns.RUnlock() }

// Files implements transaction.Engine.
func (e txnEngine) Files() []transaction.File {
	all := e.t.files()
	files := make([]transaction.File, len(all))
	for i, s := range all {
		files[i] = txnFile{e.t, s}
	}
	return files
}

// Names implements transaction.Engine.
func (e txnEngine) Names() []transaction.Name {
	list := e.t.list()
	names := make([]transaction.Name, len(list))
	for i, sn := range list {
		names[i] = sn
	}
	return names
}

// MarkRenamed implements transaction.Engine.
func (e txnEngine) MarkRenamed() (undo func()) { return e.t.markRenamed() }

// FollowRenamed implements transaction.Engine.
func (e txnEngine) FollowRenamed() { e.t.followHeirs() }

// Release implements transaction.Engine.
func (e txnEngine) Release(l *lockmgr.Lock) { e.t.rules.table.Release(l) }

// Ended implements transaction.Engine.
func (e txnEngine) Ended(end transaction.End) {
	t := e.t
	event := "txn_committed"
	detail := map[string]any{
		"transaction": t.Label(), "removed": end.Removed, "program": claimant(t.cl).Program(), "uid": t.cl.By.UID(),
	}
	if !end.Committed {
		event, detail["reason"] = "txn_rolled_back", end.Reason
	}
	t.reports.event(audit.Event{Time: time.Now(), Event: event, PID: t.Owner().PID, Token: t.ID(), Detail: detail})
	for _, s := range t.robbed() {
		go t.endings.endAtRelease(s) // the paths are held here
	}
}

// NotTakenBack implements transaction.Engine.
func (e txnEngine) NotTakenBack(err error) {
	e.t.disk.log.Warnf("rolling back a transaction: %v", err)
}

// Path implements transaction.Name.
func (sn *stagedName) Path() string { return sn.t.nodes.path(sn.dir, sn.name) }

// IsGone implements transaction.Name.
func (sn *stagedName) IsGone() bool { return sn.did.IsGone() }

// IsReplaced implements transaction.Name.
func (sn *stagedName) IsReplaced() bool { return sn.t.nodes.sessionAt(sn.dir, sn.name) != nil }

// Recover implements transaction.Store.
func (st txnStore) Recover() error {
	r, err := st.recovery.disk.store.Recover()
	if err == nil {
		st.recovery.keptLate(r)
	}
	return err
}
