package fs

import (
	"time"

	"golang.org/x/sys/unix"

	"latchfs/journal"
	"latchfs/journal/commit"
	"latchfs/journal/history"
	"latchfs/lockmgr"
	"latchfs/lockmgr/policy"
)

// succeeds prepares the session's commit.
func (s *session) succeeds(dir *node, name string) *succession {
	f := s.f
	if !f.keepsHistory(s.settings) {
		return nil
	}
	f.paths.RLock()
	sn := f.succeedNow(dir, name, f.path(dir, name))
	f.paths.RUnlock()
	if sn != nil && s.inPlace {
		sn.keep.Copy = true // the inode keeps its names
	}
	return sn
}

// succeedNow prepares a change of whatever name in dir holds.
func (f *FS) succeedNow(dir *node, name, path string) *succession {
	var st unix.Stat_t
	if unix.Fstatat(f.fdOf(dir), name, &st, unix.AT_SYMLINK_NOFOLLOW) != nil {
		return f.succeed(dir, name, path, f.settings(path), nil)
	}
	return f.succeed(dir, name, path, f.settings(path), &st)
}

// keepAlone keeps the file only if it has no other names: it may be written under
// them.
func (sn *succession) keepAlone(dir *node, name string) {
	var st unix.Stat_t
	if sn != nil && unix.Fstatat(sn.f.fdOf(dir), name, &st, unix.AT_SYMLINK_NOFOLLOW) == nil && st.Nlink > 1 {
		sn.keep = commit.Keep{}
	}
}

// keptLate tells the history what a recovery has put there while the mount runs.
func (f *FS) keptLate(r commit.Report) {
	for _, in := range r.Kept {
		f.history.Keep(join(in.Dir, in.Name), history.Ref{Content: in.Keep}, maxKept)
	}
}

// maxKept stands for the policy where that is asked the next time.
const maxKept = 1 << 30

// remove is unlink(2) of a name; where its versions are recorded the file goes
// into the history.
func (f *FS) remove(c *caller, l *lockmgr.Lock, dir *node, name string) (removed error) {
	f.paths.RLock()
	defer f.paths.RUnlock()
	path := f.path(dir, name)
	set, take := f.versionSettings(path), f.taker(c, dir)
	var st unix.Stat_t
	err := unix.Fstatat(f.fdOf(dir), name, &st, unix.AT_SYMLINK_NOFOLLOW)
	if err == nil && st.Mode&unix.S_IFMT == unix.S_IFREG && set.Mode == policy.Atomic {
		defer func() { f.deleted(c, path, l.Token(), "", removed) }()
	}
	if !f.keepsHistory(set) || err != nil || st.Mode&unix.S_IFMT != unix.S_IFREG {
		return take(func() error { return unix.Unlinkat(f.fdOf(dir), name, 0) })
	}
	sn := f.succeed(dir, name, path, set, &st)
	if st.Nlink > 1 {
		sn.keep = commit.Keep{} // it has other names, and may be written under them
	}
	f.saves.Add(1)
	kept, err := f.store.Remove(take, f.fdOf(dir), name, sn.keep)
	if err == nil {
		sn.done(c.did(history.Delete, opUnlink, l.Token()), kept)
	}
	return err
}

// deleted writes the removal of a file to the audit trail, unless it has failed.
func (f *FS) deleted(c *caller, path string, token uint64, txn string, failed error) {
	if failed != nil {
		return
	}
	detail := map[string]any{"program": c.program(), "uid": c.uid}
	if txn != "" {
		detail["transaction"] = txn
	}
	f.event(journal.Event{
		Time: time.Now(), Event: "delete", Path: path, PID: c.owner.PID, Actor: f.actorOf(&label{c: c}), Token: token, Detail: detail,
	})
}

func (f *FS) isKept(n *node) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return n.kept
}

// settle makes files durable that a lazy commit has published under the name
// that they are about to lose: under another one nobody could put the version
// before back.
func (r *renaming) settle() unix.Errno {
	stats := []*unix.Stat_t{r.fromSt}
	if r.flags&unix.RENAME_EXCHANGE != 0 {
		stats = append(stats, r.toSt)
	}
	for _, st := range stats {
		if err := r.f.store.SettleLazy(st); err != nil {
			return errnoOf(err)
		}
	}
	return 0
}

// renameFile renames what is no directory. A file that loses its name to it goes
// into the history.
func (r *renaming) renameFile(l *lockmgr.Lock) unix.Errno {
	f := r.f
	if e := r.settle(); e != 0 {
		return e
	}
	plain := func() unix.Errno { return errnoOf(r.move()) }
	f.paths.RLock()
	defer f.paths.RUnlock()
	from, to := f.path(r.from.dir, r.from.name), f.path(r.to.dir, r.to.name)
	if f.history == nil || r.sameFile() && r.flags&unix.RENAME_EXCHANGE == 0 {
		return plain()
	}
	a := f.succeed(r.from.dir, r.from.name, from, f.versionSettings(from), r.fromSt)
	b := f.succeed(r.to.dir, r.to.name, to, f.versionSettings(to), r.toSt)
	if r.flags&unix.RENAME_EXCHANGE != 0 {
		e := plain()
		if e == 0 {
			r.chronicle(l, b, a, r.fromSt)
			r.chronicle(l, a, b, r.toSt)
		}
		return e
	}
	kept := false
	if b.kept().ID != "" && r.toSt.Nlink == 1 {
		var err error
		kept, err = f.store.RenameOver(commit.RenameOptions{
			FromDir: f.fdOf(r.from.dir), From: r.from.name, ToDir: f.fdOf(r.to.dir), To: r.to.name, Keep: b.keep,
			As: f.taker(r.c, r.from.dir, r.to.dir),
		})
		if err != nil {
			return errnoOf(err)
		}
	} else if e := plain(); e != 0 {
		return e
	}
	r.arrive(l, b, a, from, kept)
	if a != nil {
		v := r.c.did(history.RenameAway, opRename, l.Token())
		v.To = to
		a.done(v, false)
	}
	return 0
}

// arrive enters what the new name holds after a rename from the path from, which
// a stands for.
func (r *renaming) arrive(l *lockmgr.Lock, b, a *succession, from string, kept bool) {
	switch {
	case b == nil:
	case r.fromSt.Mode&unix.S_IFMT != unix.S_IFREG:
		b.done(r.c.did(history.Delete, opRename, l.Token()), kept) // a symbolic link, say
	default:
		v := r.c.did(history.Commit, opRename, l.Token())
		v.From = from
		if a != nil {
			v.Content = a.ref.Content
		}
		b.done(withFile(v, r.fromSt, r.rights(r.to)), kept)
	}
}

// chronicle enters that the path of to holds the file st now, which was that of
// from: the two have changed places.
func (r *renaming) chronicle(l *lockmgr.Lock, to, from *succession, st *unix.Stat_t) {
	if to == nil {
		return
	}
	v := r.c.did(history.Commit, opRename, l.Token())
	if from != nil {
		v.From, v.Content = from.path, from.ref.Content
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		v = r.c.did(history.Delete, opRename, l.Token())
		to.done(v, false)
		return
	}
	place := r.to
	if st == r.toSt {
		place = r.from
	}
	to.done(withFile(v, st, r.rights(place)), false)
}

// rights is who may read the file that has a name now.
func (r *renaming) rights(p place) history.Rights {
	fd, err := unix.Openat(r.f.fdOf(p.dir), p.name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return history.Rights{ACL: true}
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return history.Rights{ACL: true}
	}
	return rightsOf(&st, fd)
}
