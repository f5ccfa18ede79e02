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
	f := sn.t.f
	o := commit.RemoveOptions{
		Dir: f.nodes.fdOf(sn.dir), DirPath: f.nodes.nodePath(sn.dir), Name: sn.name, Base: sn.base, IsDir: sn.did == transaction.RemovedDir,
	}
	if !o.IsDir {
		sn.next = f.recorder.stepNow(sn.dir, sn.name, sn.Path())
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
	f, path := t.f, sn.Path()
	switch {
	case !sn.did.IsGone():
		f.recorder.changes.Made(byCaller{f.recorder, sn.by}, sn.op, path, t.Label())
		f.claimFiles.clerk.Made(sn.by, f.claimFiles.claimName(sn.dir, sn.name))
	case sn.removal == nil:
	case sn.did == transaction.RemovedDir && sn.isThere(): // somebody has put a live file there, and it stays
	case sn.did == transaction.RemovedDir:
		f.recorder.changes.Gone(byCaller{f.recorder, sn.by}, path, sn.was, "", t.Label())
		f.claimFiles.filed.Gone(f.claimFiles.claimName(sn.dir, sn.name).Place())
	default:
		t.tellRemoval(sn)
	}
}

// isThere reports whether what was to be removed has its name still.
func (sn *stagedName) isThere() bool {
	var st unix.Stat_t
	err := unix.Fstatat(sn.t.f.nodes.fdOf(sn.dir), sn.name, &st, unix.AT_SYMLINK_NOFOLLOW)
	return err == nil && uint64(st.Dev) == sn.base.Dev && st.Ino == sn.base.Ino
}

// tellRemoval tells that a file or a link has been removed.
func (t *txn) tellRemoval(sn *stagedName) {
	f := t.f
	f.nodes.paths.RLock()
	ch := f.recorder.changesBy(sn.by, opUnlink, place{dir: sn.dir, name: sn.name}, t.ID())
	f.nodes.paths.RUnlock()
	ch.Was, ch.Target, ch.Txn = sn.was, sn.target, t.Label()
	if ch.Was == nil {
		ch.Was = statOf(&sn.base)
	}
	ch.Version = changes.IsFile(ch.Was)
	ch.Step, ch.Kept = sn.next, sn.removal.Kept()
	f.recorder.changes.Tell(ch)
}

// End implements transaction.Name.
func (sn *stagedName) End(committed bool) {
	f := sn.t.f
	if committed && sn.did.IsGone() && sn.renamed == nil {
		sn.forgetRemoved()
	}
	f.txns.unstage(sn)
	f.names.dropName(sn.dir, sn.name)
	f.commits.markerMoved(sn.name)
	f.nodes.unpin(sn.dir)
}

// forgetRemoved tells the inode that was removed, if we know it, that it has lost the name.
func (sn *stagedName) forgetRemoved() {
	f := sn.t.f
	f.nodes.mu.Lock()
	n := f.nodes.inodes[inoKey{sn.base.Dev, sn.base.Ino}]
	f.nodes.mu.Unlock()
	f.names.unlinked(n, sn.key(), n != nil && f.nodes.unnamed(n))
}

// changedInTxn reports whether the session has anything to publish.
func (s *session) changedInTxn() bool {
	if s.isNew.Load() || s.content.HasMeta() {
		return true
	}
	dirty, err := s.content.Dirty()
	return err != nil || dirty
}
