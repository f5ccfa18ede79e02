package commit

import (
	"errors"
	"math"
	"os"

	"golang.org/x/sys/unix"

	"latchfs/journal/commit/internal/disk"
)

// Fill gives the shadow the content of base, which must be a regular file
// opened for reading: by reflink where the filesystem can, else by copying the
// data and leaving the holes. Metadata and times are as before, the times the
// base's. base's file offset is moved.
func (sh *Shadow) Fill(base int) error { return sh.FillTo(base, math.MaxInt64) }

// FillTo is Fill for a shadow that is about to be cut to most bytes: what lies behind them
// is not copied, and the shadow has that size. Where the filesystem clones it has it all.
func (sh *Shadow) FillTo(base int, most int64) error {
	var from, before unix.Stat_t
	if err := errors.Join(unix.Fstat(base, &from), unix.Fstat(sh.fd, &before)); err != nil {
		return os.NewSyscallError("fstat", err)
	}
	caps, capsErr := disk.GetXattr(sh.fd, disk.XattrCapability)
	if err := sh.s.disk.CopyContent(sh.as, base, sh.fd, min(from.Size, most)); err != nil {
		return err
	}
	// Any write takes file capabilities away, and one without CAP_FSETID the
	// set-user-ID bit. Filling is not the user's write.
	if capsErr == nil {
		err := sh.s.disk.Do("setxattr", func() error { return unix.Fsetxattr(sh.fd, disk.XattrCapability, caps, 0) })
		if err != nil {
			return err
		}
	}
	if before.Mode&disk.SpecialBits != 0 {
		if err := sh.s.disk.Do("chmod", func() error { return unix.Fchmod(sh.fd, before.Mode&0o7777) }); err != nil {
			return err
		}
	}
	return sh.s.disk.Do("utimens", func() error { return disk.Futimens(sh.fd, [2]unix.Timespec{from.Atim, from.Mtim}) })
}

// initMeta gives a new file its mode and owner. What open(2) did with the
// directory's default ACL stays.
func (sh *Shadow) initMeta(o ShadowOptions) error {
	st := sh.initial
	mode := st.Mode & 0o7777
	if want := o.Mode & 0o7777; mode != want && !disk.HasDefaultACL(o.Dir) {
		mode = want // our own umask took something; the caller's was applied before
	}
	uid, gid := o.UID, o.GID
	if gid >= 0 {
		var dir unix.Stat_t
		if err := unix.Fstatat(o.Dir, "", &dir, unix.AT_EMPTY_PATH); err != nil {
			return os.NewSyscallError("fstat", err)
		}
		if dir.Mode&unix.S_ISGID != 0 {
			gid = -1
		}
	}
	changed, err := sh.chown(&st, uid, gid)
	if err == nil && (mode != st.Mode&0o7777 || changed && mode&disk.SpecialBits != 0) { // which chown drops
		changed = true
		err = sh.s.disk.Do("chmod", func() error { return unix.Fchmod(sh.fd, mode) })
	}
	if err != nil || !changed {
		return err
	}
	return os.NewSyscallError("fstat", unix.Fstat(sh.fd, &sh.initial))
}

// chown gives the shadow, which has the status st, an owner; -1 leaves it. changed is false
// if it has that already.
func (sh *Shadow) chown(st *unix.Stat_t, uid, gid int) (changed bool, err error) {
	if uid == int(st.Uid) {
		uid = -1
	}
	if gid == int(st.Gid) {
		gid = -1
	}
	if uid < 0 && gid < 0 {
		return false, nil
	}
	return true, sh.s.disk.Do("chown", func() error { return unix.Fchown(sh.fd, uid, gid) })
}

// copyMeta makes the shadow look like base, which has the status from. What we may not do is
// remembered in sh.inPlace.
func (sh *Shadow) copyMeta(base int, from *unix.Stat_t) error {
	try := func(what string, err error) {
		if err != nil && sh.inPlace == nil {
			sh.inPlace = &kinded{ErrCannotPreserve, what, err}
		}
	}
	try("inode flags", sh.s.disk.CopyFlags(base, sh.fd)) // first: some want an empty file
	changed, err := sh.chown(&sh.initial, int(from.Uid), int(from.Gid))
	try("owner", err)
	attrs, err := sh.s.disk.CopyXattrs(base, sh.fd, disk.AnyXattr)
	try("extended attributes", err)
	// Last, because chown drops set-user-ID and an ACL sets the group bits.
	mode := from.Mode & 0o7777
	if changed || attrs || sh.initial.Mode&0o7777 != mode {
		changed = true
		if err := sh.s.disk.Do("chmod", func() error { return unix.Fchmod(sh.fd, mode) }); err != nil {
			return err
		}
	}
	err = sh.s.disk.Do("utimens", func() error { return disk.Futimens(sh.fd, [2]unix.Timespec{from.Atim, from.Mtim}) })
	if err != nil || !changed {
		return err
	}
	if err := unix.Fstat(sh.fd, &sh.initial); err != nil {
		return os.NewSyscallError("fstat", err)
	}
	if sh.initial.Mode&0o7777 != mode {
		// chmod(2): the set-group-ID bit of a file whose group is not ours.
		try("mode", unix.EPERM)
	}
	return nil
}
