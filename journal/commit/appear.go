package commit

import (
	"golang.org/x/sys/unix"

	"latchfs/journal/commit/internal/disk"
)

// A program that makes a file durable syncs the file, closes it, and syncs the directory.
// The first is a commit of the filesystem's journal, with all that was done to names until
// then; the close renames the shadow. That rename need not be on disk: the record of what
// the file is called is, and a recovery gives it that name. So the sync of the directory
// has nothing to wait for, unless something else was done there since the shadow got its
// reserved name. The directory's change time tells.

// linked is what is known of a shadow's directory since the shadow got the reserved name
// with which it was synced.
type linked struct {
	losses uint64        // names that had been taken away before
	dir    disk.Inode    // the directory
	at     unix.Timespec // its change time then
	synced bool          // the shadow was synced after that, and all that was done before with it
	as     Stamped       // and as what
	asOf   unix.Timespec // the change time as which a crash leaves the names there; zero: it may lose some
}

// look notes the directory as it is when the name has been made.
func (l *linked) look(dir int) {
	var st unix.Stat_t
	if unix.Fstat(dir, &st) == nil {
		l.dir, l.at = disk.InodeOf(&st), st.Ctim
	}
}

// Stamped says what a shadow was at a moment. The zero Stamped is no shadow.
type Stamped struct {
	size  int64
	ctime unix.Timespec // of whatever was done to it, content and attributes
}

// Stamped is what the shadow is now.
func (sh *Shadow) Stamped() Stamped {
	var st unix.Stat_t
	if sh.fd < 0 || unix.Fstat(sh.fd, &st) != nil {
		return Stamped{}
	}
	return Stamped{st.Size, st.Ctim}
}

// SyncDone is called when SyncSecured has made the shadow durable, with what Recorded and
// Stamped have said before.
func (sh *Shadow) SyncDone(recorded bool, as Stamped) {
	if !recorded || sh.linked.dir == (disk.Inode{}) || sh.linked.synced {
		return
	}
	sh.linked.synced, sh.linked.as = true, as
	sh.s.lazies.LossesOnDisk(sh.linked.dir, sh.linked.losses)
}

// isAsSynced reports whether nothing was done to the shadow since it was synced.
func (sh *Shadow) isAsSynced() bool {
	return sh.linked.synced && sh.linked.as != (Stamped{}) && sh.linked.as == sh.Stamped()
}

// appear is renameNew, and finds out whether a crash leaves all names of the directory as
// they are then, and the file whole.
func (sh *Shadow) appear(o PublishOptions) error {
	if !sh.isAsSynced() || !sh.Recorded() || !sh.appearsByItself(o) || !sh.s.disk.TellsChanges() {
		return sh.renameNew(o)
	}
	var before, after unix.Stat_t
	known := false
	alone, err := sh.s.disk.Alone(func() error {
		known = unix.Fstat(sh.name.Dir(), &before) == nil
		err := sh.renameNew(o)
		known = known && unix.Fstat(sh.name.Dir(), &after) == nil
		return err
	})
	if err == nil && alone && known && disk.InodeOf(&before) == o.DirInode && before.Ctim == sh.linked.at {
		sh.linked.asOf = after.Ctim
	}
	return err
}
