package fs

import (
	"fmt"

	"golang.org/x/sys/unix"

	"latchfs/fs/changes"
	"latchfs/fs/transaction"
	"latchfs/journal/commit"
)

// Prepare implements transaction.Name.
func (sn *stagedName) Prepare() (err error) {
	o := commit.RemoveOptions{
		Dir: sn.t.nodes.fdOf(sn.dir), DirPath: sn.t.nodes.nodePath(sn.dir), Name: sn.name, Base: sn.base, IsDir: sn.did == transaction.RemovedDir,
	}
	if !o.IsDir {
		sn.next = sn.t.recorder.stepNow(sn.dir, sn.name, sn.Path())
		sn.next.KeepAloneNow()
		o.Keep = sn.next.Keep()
	}
	if sn.removal, err = sn.t.store.Remove(o); err != nil {
		return fmt.Errorf("cannot be removed: %w", err)
	}
	return nil
}

// Tell implements transaction.Name. What has replaced a removed file tells of that itself.
func (sn *stagedName) Tell() {
	t := sn.t
	path := sn.Path()
	switch {
	case !sn.did.IsGone():
		t.recorder.changes.Made(byCaller{t.recorder, sn.by}, sn.op, path, t.Label())
		t.claimFiles.clerk.Made(sn.by, t.claimFiles.claimName(sn.dir, sn.name))
	case sn.removal == nil:
	case sn.did == transaction.RemovedDir && sn.isThere(): // somebody has put a live file there, and it stays
	case sn.did == transaction.RemovedDir:
		t.recorder.changes.Gone(byCaller{t.recorder, sn.by}, path, sn.was, "", t.Label())
		t.claimFiles.filed.Gone(t.claimFiles.claimName(sn.dir, sn.name).Place())
	default:
		t.tellRemoval(sn)
	}
}

// isThere reports whether what was to be removed has its name still.
func (sn *stagedName) isThere() bool {
	var st unix.Stat_t
	err := unix.Fstatat(sn.t.nodes.fdOf(sn.dir), sn.name, &st, unix.AT_SYMLINK_NOFOLLOW)
	return err == nil && uint64(st.Dev) == sn.base.Dev && st.Ino == sn.base.Ino
}

// tellRemoval tells that a file or a link has been removed.
func (t *txn) tellRemoval(sn *stagedName) {
	t.nodes.paths.RLock()
	ch := t.recorder.changesBy(sn.by, opUnlink, place{dir: sn.dir, name: sn.name}, t.ID())
	t.nodes.paths.RUnlock()
	ch.Was, ch.Target, ch.Txn = sn.was, sn.target, t.Label()
	if ch.Was == nil {
		ch.Was = statOf(&sn.base)
	}
	ch.Version = changes.IsFile(ch.Was)
	ch.Step, ch.Kept = sn.next, sn.removal.Kept()
	t.recorder.changes.Tell(ch)
}

// End implements transaction.Name.
func (sn *stagedName) End(committed bool) {
	if committed && sn.did.IsGone() && sn.renamed == nil {
		sn.forgetRemoved()
	}
	sn.t.txns.unstage(sn)
	sn.t.names.dropName(sn.dir, sn.name)
	sn.t.commits.markerMoved(sn.name)
	sn.t.nodes.unpin(sn.dir)
}

// forgetRemoved tells the inode that was removed, if we know it, that it has lost the name.
func (sn *stagedName) forgetRemoved() {
	sn.t.nodes.mu.Lock()
	n := sn.t.nodes.inodes[inoKey{sn.base.Dev, sn.base.Ino}]
	sn.t.nodes.mu.Unlock()
	sn.t.names.unlinked(n, sn.key(), n != nil && sn.t.nodes.unnamed(n))
}

// changedInTxn reports whether the session has anything to publish.
func (s *session) changedInTxn() bool {
	if s.isNew.Load() || s.content.HasMeta() {
		return true
	}
	dirty, err := s.content.Dirty()
	return err != nil || dirty
}
