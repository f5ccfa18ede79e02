package commit

import (
	"context"
	"time"

	"golang.org/x/sys/unix"

	"latchfs/journal/commit/internal/disk"
	"latchfs/journal/commit/internal/keep"
	"latchfs/journal/commit/internal/lazy"
	"latchfs/journal/commit/internal/recovery"
	"latchfs/journal/commit/internal/rejected"
	"latchfs/journal/commit/internal/tail"
)

// What the rooms below do for whoever uses the store.

// Remove removes the regular file name from dir like unlink(2), into the history
// if k says so. as takes the name away. kept tells whether the file is there. Where it
// cannot be kept it is removed all the same.
func (s *Store) Remove(as disk.Runner, dir int, name string, k keep.Keep) (kept bool, err error) {
	return s.keeper.Remove(as, dir, name, k)
}

// RenameOver is rename(2), except that the inode which loses its name to the
// other file goes into the history.
func (s *Store) RenameOver(o keep.RenameOptions) (kept bool, err error) {
	return s.keeper.RenameOver(o)
}

// Unshare gives the content id, which has become somebody's file again, to that
// file alone: the history gets a copy, or loses it.
func (s *Store) Unshare(id string) (kept bool, err error) { return s.keeper.Unshare(id) }

// KeepCopy makes the content id of the history a copy of fd, of which something is about to be
// cut off.
func (s *Store) KeepCopy(fd int, id string) error { return s.keeper.KeepCopy(nil, fd, id) }

// DropCopy removes a copy that was kept for a cut which did not come.
func (s *Store) DropCopy(id string) error { return s.keeper.DropKept(id) }

// PutBack gives the content id, which was a file that Remove has removed, its name in
// dir back, if nothing has that name now. The history loses it.
func (s *Store) PutBack(id string, dir int, name string) error {
	return s.keeper.PutBack(id, dir, name)
}

// SetMaxIdleTails says how many files may be kept that were appended to a moment ago: each has
// a descriptor.
func (s *Store) SetMaxIdleTails(n int) { s.tails.SetMaxIdle(n) }

// Tail returns the tail of the file o.FD, to be given back with Close. Nothing is
// written before the first Append.
func (s *Store) Tail(o tail.Options) (*tail.Tail, error) { return s.tails.Open(o) }

// SettleLazy makes a lazily published file durable before something is done to
// it that a recovery could not tell from a commit that was cut short: another
// name, or other content.
func (s *Store) SettleLazy(st *unix.Stat_t) error { return s.lazies.Settle(st) }

// MoveLazy prepares a rename of a file to a name that is free, where the file was made and
// is not known to be on disk: it need not be synced for that. nil: the file is to be
// settled. Whoever gets a move ends it.
func (s *Store) MoveLazy(st *unix.Stat_t, dir int, path, name string) *lazy.Move {
	var in unix.Stat_t
	if s.lazies.Unsettled() == 0 || unix.Fstat(dir, &in) != nil || s.lazies.IsGoing(disk.InodeOf(&in), name) {
		return nil
	}
	return s.lazies.Move(st, lazy.Target{Dir: dir, Inode: disk.InodeOf(&in), DirPath: path, Name: name})
}

// SettleLazyDir does the same with all files in a directory, and makes the records durable
// that were appended to files there. It fails, too, if that has failed earlier in the
// background, and nobody has asked since.
func (s *Store) SettleLazyDir(dir int) error { return s.lazies.SettleDir(dir) }

// NamesSoon makes a directory's names durable within a second. path is that of the
// directory relative to the data root. open opens it; it is not called where the sync is on
// its way.
func (s *Store) NamesSoon(dir disk.Inode, path string, open func() (int, error)) error {
	return s.lazies.NamesSoon(dir, path, open)
}

// RecordsSoon makes what was appended to a file durable within a second. dir is the
// directory that the file is in, and path its own, relative to the data root.
func (s *Store) RecordsSoon(t *tail.Tail, dir disk.Inode, path string) error {
	return t.SyncSoon(dir, path)
}

// Lost returns, once, why a file or a directory could not be synced in the background
// since somebody has asked for the last time.
func (s *Store) Lost(in disk.Inode) error { return s.lazies.Lost(in) }

// IsMade reports whether a file was made under a name that was free, and is not known to
// be on disk.
func (s *Store) IsMade(st *unix.Stat_t) bool { return s.lazies.IsMade(st) }

// NameGone notes that a name of a directory was taken away, which NamesSoon was told of.
// Until that is on disk, Auto takes a file that is made under the name for one that
// replaces another.
func (s *Store) NameGone(dir disk.Inode, name string) { s.lazies.NameGone(dir, name) }

// SettleKept settles the commit whose old version is the content id, which is to
// be removed from the history.
func (s *Store) SettleKept(id string) { s.lazies.SettleKept(id) }

// Kept gets a value when entries were added to the rejected store, or given up
// on a full disk, since the last one was taken: time for PruneRejected.
func (s *Store) Kept() <-chan struct{} { return s.rejects.Kept() }

// PruneRejected removes from the rejected store what is older than maxAge (0: any
// age) and what is over maxBytes; see the package comment.
func (s *Store) PruneRejected(now time.Time, maxBytes int64, maxAge time.Duration) (rejected.Pruned, error) {
	return s.rejects.Prune(now, maxBytes, maxAge)
}

// ForgetRejected erases entries of the rejected store. When it returns without an error
// they are gone from the disk.
func (s *Store) ForgetRejected(ids []string) error { return s.rejects.Forget(ids) }

// Recover finishes or undoes every intent that is pending: at a start before
// anything else is done with the data root, and later to finish what InPlace
// left with ErrRedoPending. An error names what could not be put right; the
// intents concerned stay pending.
func (s *Store) Recover() (recovery.Report, error) { return s.recoverer.Recover() }

// Sweep walks the data root and removes orphaned shadows. It may run while the store
// is in use. When it has been everywhere it settles the journal.
func (s *Store) Sweep(ctx context.Context) (recovery.Report, error) { return s.recoverer.Sweep(ctx) }

// RemoveOrphan removes name from the directory dir if it is a reserved name
// that no living shadow uses: what a crash left behind.
func (s *Store) RemoveOrphan(dir int, name string) error { return s.recoverer.RemoveOrphan(dir, name) }
