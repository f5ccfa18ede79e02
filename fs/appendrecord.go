package fs

import (
	"errors"
	"time"

	"golang.org/x/sys/unix"

	"latchfs/fs/unfinished"
	"latchfs/journal/commit"
)

// maxTakeOut is the size up to which a file is written anew without a record that stands
// between those of others.
const maxTakeOut = 64 << 20

// ofFile is the file that a record is in.
func (k inoKey) ofFile() unfinished.File { return unfinished.File{Dev: k.dev, Ino: k.ino} }

// noteRecord notes what the append of b has left unfinished at the file's end. What was
// synced does not belong to it, nor what is no text: nobody may lose that. The file's lock
// is held.
func (a *appender) noteRecord(b []byte) {
	var st unix.Stat_t
	if len(b) == 0 || b[len(b)-1] == '\n' || !a.queue.MayDrop(b) || unix.Fstat(a.fd, &st) != nil {
		a.open = unfinished.Record{}
		return
	}
	a.open.Add(time.Now(), a.key.ofFile(), st.Size, b, &a.f.gaps)
}

// takeOutLocked writes the file anew without the record, which stands between those of
// others, and reports whether it could. A crash leaves the one or the other: the journal
// has the file as it is to be before any of it is changed. Its inode stays, for others
// have it open to append, or to follow it. The file's lock is held.
func (a *appender) takeOutLocked() bool {
	f := a.f
	dir, name := f.nameOf(a.h.n)
	if dir == nil || f.sessionAt(dir, name) != nil {
		return false
	}
	target, err := unix.Openat(f.fdOf(dir), name, unix.O_RDWR|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return false
	}
	defer unix.Close(target)
	var st unix.Stat_t
	if unix.Fstat(target, &st) != nil || a.key != (inoKey{uint64(st.Dev), st.Ino}) || st.Size > maxTakeOut {
		return false
	}
	sh, err := f.store.NewShadow(commit.ShadowOptions{Dir: f.fdOf(dir), DirPath: f.nodePath(dir), Name: name, Base: target, UID: -1, GID: -1})
	if err == nil {
		defer f.discard(sh)
		err = f.retryWithRoom(func() error { return a.open.CopyRest(sh.FD(), target, st.Size) })
	}
	if err == nil {
		err = f.inPlaceNow(sh, target, commit.PublishOptions{Dir: f.fdOf(dir), DirPath: f.nodePath(dir), Name: name, Base: versionPtr(&st)})
	}
	if err != nil {
		f.log.Warnf("%q keeps a line that its writer cannot finish: %v", f.nodePath(a.h.n), err)
		return false
	}
	f.gaps.Add(&a.open)
	return true
}

// inPlaceNow commits the shadow in place, by a recovery if it does not come through at
// once.
func (f *FS) inPlaceNow(sh *commit.Shadow, target int, o commit.PublishOptions) error {
	_, err := sh.InPlace(target, o)
	if errors.Is(err, commit.ErrRedoPending) {
		_, err = f.store.Recover()
	}
	if errors.Is(err, commit.ErrNotDurable) {
		f.log.Errorf("%q: %v", join(o.DirPath, o.Name), err)
		return nil
	}
	return err
}

// join is the path of a name in the directory dir, "" for the root.
func join(dir, name string) string {
	if dir == "" {
		return name
	}
	return dir + "/" + name
}
