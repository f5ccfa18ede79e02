package fs

import "golang.org/x/sys/unix"

// A file that a lazy commit has published is not on the disk yet, and until then a crash brings
// the version before it back. This file makes such a file durable ("settles" it) before anything
// is done to it by which the recovery could not tell the two any more.

// settleTouched makes a lazily published file durable before it gets a later
// modification time, which a recovery would take for a change outside the mount.
func (rc *recorder) settleTouched(in *SetAttrRequest, n *inode) unix.Errno {
	if rc.disk.store == nil || in.Set&(SetMtime|SetMtimeNow) == 0 {
		return 0
	}
	var st unix.Stat_t
	if err := unix.Fstat(rc.nodes.fdOf(n), &st); err != nil {
		return errnoOf(err)
	}
	if in.Set&SetMtimeNow == 0 && in.Mtime.Nano() <= st.Mtim.Nano() {
		return 0 // as of rsync, which sets the original's
	}
	return errnoOf(rc.disk.store.SettleLazy(&st))
}

// settleLazy makes a lazily published file durable that is about to get another
// name, or to be written in place.
func (rc *recorder) settleLazy(n *inode) unix.Errno {
	var st unix.Stat_t
	if rc.disk.store == nil {
		return 0
	}
	err := unix.Fstat(rc.nodes.fdOf(n), &st)
	if err == nil {
		err = rc.disk.store.SettleLazy(&st)
	}
	return errnoOf(err)
}

// settle makes files durable that a lazy commit has published under the name
// that they are about to lose: under another one nobody could put the version
// before back. A file that had none may go on unsettled.
func (r *renaming) settle() unix.Errno {
	if r.toSt == nil && r.flags&unix.RENAME_EXCHANGE == 0 && r.anew {
		dir := r.to.dir
		if r.moving = r.disk.store.MoveLazy(r.fromSt, r.nodes.fdOf(dir), r.nodes.nodePath(dir), r.to.name); r.moving != nil {
			return 0
		}
	}
	stats := []*unix.Stat_t{r.fromSt}
	if r.flags&unix.RENAME_EXCHANGE != 0 {
		stats = append(stats, r.toSt)
	}
	if r.waitsForDisk() {
		// Who finds the new version after a crash finds what was made before it beside it.
		if err := r.disk.store.SettleBefore(r.nodes.fdOf(r.to.dir), r.nodes.nodePath(r.to.dir)); err != nil {
			return errnoOf(err)
		}
		// What was appended to the new version belongs to it: without its last records it would
		// be neither version.
		if err := r.disk.store.SettleRecords(r.fromSt); err != nil {
			return errnoOf(err)
		}
	}
	for _, st := range stats {
		if err := r.disk.store.SettleLazy(st); err != nil {
			return errnoOf(err)
		}
	}
	return 0
}
