package commit

import (
	"errors"

	"golang.org/x/sys/unix"

	"latchfs/journal/commit/internal/disk"
	"latchfs/journal/commit/internal/lazy"
)

// settled is what Auto means for this publication: Full where something is replaced that
// a crash must not take, or was synced under another name; else Auto.
func (sh *Shadow) settled(o PublishOptions) Durability {
	replaces := func() bool { return o.Base != nil || sh.s.lazies.IsGoing(o.DirInode, o.Name) }
	if o.Durability == "" || o.Durability == Auto && (replaces() || sh.name.Intent().Synced && !sh.appearsByItself(o)) {
		return Full
	}
	return o.Durability
}

// prepareLazy prepares a lazy publication of the shadow, which has the status st; nil if the
// content is to be synced.
func (sh *Shadow) prepareLazy(o PublishOptions, st *unix.Stat_t) *lazy.Commit {
	// The log of btrfs does not keep the order of names that this relies on.
	// What was synced has a name already that a recovery knows.
	if o.Durability != Lazy && o.Durability != Auto || sh.name.Intent().Synced || sh.forgetsUnnamed() && !sh.s.lazyAnywhere {
		return nil
	}
	to := lazy.Target{Dir: o.Dir, Inode: o.DirInode, DirPath: o.DirPath, Name: o.Name, KeepID: o.Keep.ID, Anew: o.Base == nil}
	if o.Base != nil {
		to.OldIno = o.Base.Ino
	}
	return sh.s.lazies.Prepare(sh.fd, st, sh.birth, to)
}

// placeMarker says beside the target what it is about to become. Where the
// filesystem has no symbolic links the shadow is synced instead.
func (sh *Shadow) placeMarker(o PublishOptions, old string) error {
	if sh.lazy == nil {
		return nil
	}
	if sh.shared == nil {
		sh.shared = disk.Share(sh.fd)
	}
	if sh.lazy.Place(sh.s.lazies, sh.shared, o.Dir, old) == nil {
		return nil
	}
	sh.lazy = nil
	return sh.sync()
}

// unmark takes the marker away after a publication that did not happen.
func (sh *Shadow) unmark() {
	if sh.lazy != nil {
		sh.lazy.Remove(sh.s.lazies)
		sh.lazy = nil
	}
}

// settleLater leaves the old version where it can be put back from: in the
// history, or else under the reserved name until the new one is on disk.
func (sh *Shadow) settleLater(o PublishOptions, as Runner) {
	s, k := sh.s, o.Keep.Of(o.Base.Ino)
	if k.ID != "" && !k.Copy {
		kept, err := s.keeper.Move(as, sh.name.Dir(), sh.name.Intent().Shadow, k)
		if err == nil {
			sh.kept = kept
			return
		}
	}
	if k.ID != "" {
		sh.kept = s.keeper.KeepCopyOf(sh.name.Dir(), sh.name.Intent().Shadow, k) == nil
	}
	sh.lazy.StandsBy(sh.name.Intent())
	sh.name.HandOver()
}

// SettleBefore settles what is new in a directory in which something is to be replaced,
// before the caller syncs its names; path is relative to the data root. It returns what
// could not be put on the disk, now or earlier in the background.
func (s *Store) SettleBefore(dir int, path string) error {
	var lost *lazy.LostError
	if err := s.lazies.SettleDirBefore(dir, path); errors.As(err, &lost) {
		return lost
	}
	return nil // what could not be put away is tried again
}

// syncName makes the name durable that was just published: now if the close waits for
// that, or in time for the durability.
func (sh *Shadow) syncName(o PublishOptions, waits bool) error {
	switch {
	case waits:
		err := sh.s.lazies.SyncNames(o.DirInode, func() error { return sh.s.disk.SyncDir(o.Dir, sh.fd) })
		sh.secured(err)
		return err
	case o.Durability == Auto && sh.lazy == nil:
		return sh.s.lazies.NamesAppear(o.DirInode, o.DirPath, sh.linked.asOf, func() (int, error) {
			return unix.Openat(o.Dir, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		})
	}
	return nil
}
