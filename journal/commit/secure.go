package commit

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"

	"latchfs/journal"
	"latchfs/journal/commit/internal/disk"
	"latchfs/journal/commit/internal/reserved"
)

// SyncOptions say what a recovery has to know of a shadow that its writer syncs.
type SyncOptions struct {
	Dir     int    // descriptor of the target's directory; O_PATH will do
	DirPath string // that directory relative to the data root, for the journal
	Name    string // the target's name in Dir
	Token   uint64 // fencing token, for the journal
	// Appears: after a crash the shadow becomes the file Name, if nothing has that name.
	// Otherwise its bytes are kept aside.
	Appears bool
}

// WriteBack sends what the open file fd holds to the disk, and does not wait until the
// disk keeps it.
func (s *Store) WriteBack(fd int) error {
	return s.disk.Do("writeback", func() error { return journal.WriteBack(fd) })
}

// Announce prepares a Secure, so that the journal comes to the disk together with the
// content (WriteBack). nil: there is nothing to prepare.
func (sh *Shadow) Announce(o SyncOptions) (*Announced, error) {
	if sh.name.Stands() || !sh.keepsOrder() {
		return nil, nil
	}
	in, err := sh.securing(o)
	if err != nil {
		return nil, err
	}
	in.InState = sh.inState
	return reserved.Announce(sh.s.disk, in)
}

// take gives the shadow the name that was announced for it.
func (sh *Shadow) take(a *Announced, dir int) error {
	if err := sh.name.Adopt(a, dir); err != nil {
		return errors.Join(err, a.Drop())
	}
	sh.linked = linked{losses: sh.s.lazies.Losses()}
	look := linked{losses: sh.linked.losses}
	alone, err := sh.s.disk.Alone(func() error {
		err := sh.name.Give(sh.fd)
		if err == nil {
			look.look(sh.name.Dir())
		}
		return err
	})
	if err != nil {
		return err
	}
	if a.IsWritten() {
		sh.recorded = a.Intent().ID
		if alone { // else it may show what is later on the disk than the name
			sh.linked = look
		}
	}
	return nil
}

// Recorded reports whether the journal was written back before the shadow got the name
// that its intent says, and the disk keeps that order: syncing the one syncs the other.
func (sh *Shadow) Recorded() bool { return sh.name.Stands() && sh.recorded == sh.name.Intent().ID }

// securing is the intent that stands for a secured shadow, but for its name.
func (sh *Shadow) securing(o SyncOptions) (journal.Intent, error) {
	in := journal.Intent{
		Kind: journal.KindShadow, Dir: o.DirPath, Name: o.Name, ShadowDir: o.DirPath, Token: o.Token,
		ShadowIno: sh.initial.Ino, Synced: true, Appears: o.Appears && !sh.inState,
	}
	var dir unix.Stat_t
	lies := sh.lies(o.Dir)
	if err := unix.Fstat(lies, &dir); err != nil {
		return in, os.NewSyscallError("fstat", err)
	}
	in.TargetIno, in.TargetBirth = dir.Ino, disk.Birth(lies)
	return in, nil
}

// Secure gives the shadow a reserved name, and an intent from which a recovery learns
// whose bytes these are. They are safe when SyncSecured has returned after it. The content is to
// be written back before, so that what has the name after a power cut is whole. a is what
// Announce has returned, or nil.
func (sh *Shadow) Secure(o SyncOptions, a *Announced) error {
	in, err := sh.securing(o)
	if err != nil {
		return errors.Join(err, a.Drop())
	}
	if a != nil {
		was := a.Intent()
		in.ID, in.InState, in.Shadow = was.ID, was.InState, was.Shadow
		if in == was && !sh.name.Stands() {
			return sh.take(a, sh.lies(o.Dir))
		}
		if err := a.Drop(); err != nil { // it has another name by now
			return err
		}
		in.ID, in.InState, in.Shadow = 0, false, ""
	}
	at := PublishOptions{Dir: o.Dir, DirPath: o.DirPath}
	if sh.keepsOrder() {
		return sh.nameFor(in, at)
	}
	// The name might be on disk before the content.
	plain := in
	plain.Synced, plain.Appears = false, false
	err = sh.nameFor(plain, at)
	if err == nil {
		err = sh.sync()
	}
	if err == nil {
		err = sh.name.Retag(in, sh.initial.Ino)
	}
	if err == nil {
		err = sh.s.disk.SyncDir(sh.name.Dir(), sh.fd)
	}
	return err
}

// lies is the directory in which the shadow is, or gets a name.
func (sh *Shadow) lies(dir int) int {
	switch {
	case sh.name.Stands():
		return sh.name.Dir()
	case sh.inState:
		return sh.s.disk.StateFD()
	}
	return dir
}

// follow notes the path of the shadow's directory, which may have been renamed, if that is
// the target's.
func (sh *Shadow) follow(o PublishOptions) {
	var is, own unix.Stat_t
	if sh.name.Intent().Synced && !sh.inState && unix.Fstat(o.Dir, &is) == nil && unix.Fstat(sh.name.Dir(), &own) == nil &&
		disk.InodeOf(&is) == disk.InodeOf(&own) {
		sh.name.Renamed(o.DirPath)
	}
}

// Secured reports whether a recovery keeps the shadow's bytes, or would if they had been
// synced.
func (sh *Shadow) Secured() bool { return sh.name.Intent().Synced }

// Unsecure takes back what Secure has done: a recovery removes the shadow.
func (sh *Shadow) Unsecure() error {
	if !sh.name.Intent().Synced {
		return nil
	}
	in, appears := sh.name.Intent(), sh.name.Intent().Appears
	in.Synced, in.Appears = false, false
	if err := sh.name.Replace(in); err != nil || !appears {
		return err
	}
	// Its file has another name by now, or none: it is not to get the one of the sync as well.
	return sh.s.disk.Do("syncjournal", sh.s.disk.Journal.Sync)
}

// Unname takes the shadow's reserved name away: nobody wants what is written any more, and the
// directory is to be empty for whoever removes it. If that fails, a recovery does it.
func (sh *Shadow) Unname() error { return sh.name.Drop() }

// Follow moves the shadow's reserved name into the directory o.Dir, in which its file has a name
// now: the one before is to be empty for whoever removes it. What was synced stays so.
func (sh *Shadow) Follow(o SyncOptions) error {
	if sh.name.Intent().Kind != journal.KindShadow || sh.inState || disk.SameFile(sh.name.Dir(), o.Dir) {
		return nil
	}
	var st unix.Stat_t
	if err := unix.Fstat(o.Dir, &st); err != nil {
		return os.NewSyscallError("fstat", err)
	}
	in := sh.name.Intent()
	in.Dir, in.ShadowDir, in.Name, in.Token = o.DirPath, o.DirPath, o.Name, o.Token
	in.Appears = in.Synced && o.Appears
	in.TargetIno, in.TargetBirth = st.Ino, disk.Birth(o.Dir)
	return sh.moveTo(o.Dir, in)
}

// Sync makes a file durable; dataOnly leaves out what fdatasync(2) does.
func (s *Store) Sync(fd int, dataOnly bool) error {
	return s.disk.Once("fsync", func() error {
		if dataOnly {
			return unix.Fdatasync(fd)
		}
		return unix.Fsync(fd)
	})
}

// SyncSecured makes a shadow durable that was secured, and what the journal says of it;
// recorded is what Shadow.Recorded has said before.
func (s *Store) SyncSecured(fd int, recorded bool) error {
	if recorded {
		return s.Sync(fd, false)
	}
	return s.disk.Both(
		disk.Step{Name: "fsync", Do: func() error { return unix.Fsync(fd) }},
		disk.Step{Name: "syncjournal", Do: s.disk.Journal.Sync},
	)
}

// appearsByItself reports whether a crash at any moment leaves the new file where the
// publication is to bring it: the shadow is on disk, and what is done to its names comes
// there in order.
func (sh *Shadow) appearsByItself(o PublishOptions) bool {
	return o.Base == nil && sh.name.Intent().Appears && sh.name.Intent().Dir == o.DirPath && sh.name.Intent().Name == o.Name &&
		sh.keepsOrder()
}

// secured ends the intent of a publication that has happened, whose old name must not be
// forgotten before the new one is on disk.
func (sh *Shadow) secured(onDisk error) {
	if onDisk == nil {
		_ = sh.name.Gone()
		return
	}
	sh.name.LeaveToRecovery()
}

// keepOnDisk makes content durable that was copied, or moved, into dir, before the
// shadow is forgotten.
func (sh *Shadow) keepOnDisk(dir int) error {
	if !sh.name.Intent().Synced {
		return nil
	}
	return errors.Join(sh.s.rejects.SyncContent(dir), sh.s.disk.SyncDir(dir, sh.fd))
}
