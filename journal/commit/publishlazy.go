package commit

import (
	"golang.org/x/sys/unix"

	"latchfs/journal"
	"latchfs/journal/commit/internal/disk"
	"latchfs/journal/commit/internal/lazy"
)

// waitsForNothing reports whether the publication is not to wait for the disk.
func (o *PublishOptions) waitsForNothing() bool {
	return o.Durability == Lazy || o.Durability == Auto && o.Base == nil
}

// waitsForAll reports whether the new version, if it is not published lazily, is to be
// on disk with its name.
func (o *PublishOptions) waitsForAll() bool {
	return o.Durability == Full || o.Durability == Auto || o.Durability == ""
}

// prepareLazy prepares a lazy publication; nil if it is to be synced.
func (sh *Shadow) prepareLazy(o PublishOptions) *lazy.Commit {
	// The log of btrfs does not keep the order of names that this relies on.
	// What was synced has a name already that a recovery knows.
	if !o.waitsForNothing() || sh.intent.Synced || disk.ForgetsUnnamed(sh.fd) && !sh.s.lazyAnywhere {
		return nil
	}
	to := lazy.Target{
		Dir: o.Dir, DirPath: o.DirPath, Name: o.Name, KeepID: o.Keep.ID, Anew: o.Durability == Auto,
	}
	if o.Base != nil {
		to.OldIno = o.Base.Ino
	}
	return sh.s.lazies.Prepare(sh.fd, to)
}

// placeMarker says beside the target what it is about to become. Where the
// filesystem has no symbolic links the shadow is synced instead.
func (sh *Shadow) placeMarker(o PublishOptions, old string) error {
	if sh.lazy == nil || sh.lazy.Place(sh.s.lazies, sh.fd, o.Dir, old) == nil {
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
		kept, err := s.keeper.Move(as, sh.dir, sh.intent.Shadow, k)
		if err == nil {
			sh.kept = kept
			return
		}
	}
	if k.ID != "" {
		sh.kept = s.keeper.KeepCopyOf(sh.dir, sh.intent.Shadow, k) == nil
	}
	sh.lazy.StandsBy(sh.intent)
	unix.Close(sh.dir)
	sh.intent, sh.dir = journal.Intent{}, -1
}
