package versions

import (
	"errors"
	"time"

	"golang.org/x/sys/unix"

	"latchfs/fs/reach"
	"latchfs/journal/history"
)

// IsOther reports whether what a path holds now is a file that its last version did not
// leave there. That costs no look at the disk.
func (r *Recorder) IsOther(path string, now history.State) bool {
	if r == nil {
		return false
	}
	last, loose, known := r.c.History.Last(path)
	return known && last != now && (!loose || last.Ino != now.Ino)
}

// Inspect enters the file that has a name, if its last version did not leave it there. The
// lock of the name is held.
func (r *Recorder) Inspect(n Name) {
	st := n.stat()
	if r == nil || !isFile(st) {
		return
	}
	if _, known := r.c.History.Match(n.Path, history.StateOf(st)); !known {
		r.discover(&n, st)
	}
}

// discover enters the file st as found, and tells the engine if somebody has just put it
// there outside the mount.
func (r *Recorder) discover(n *Name, st *unix.Stat_t) history.Ref {
	if r.HasFile(n.Path) && st.Nlink == 1 && time.Unix(st.Ctim.Unix()).After(r.c.Since) {
		r.c.Engine.Bypassed(n.Path, st.Size)
	}
	fd, err := unix.Openat(n.Dir, n.Base, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		fd = -1
	} else {
		defer unix.Close(fd)
	}
	return r.c.History.Add(found(n.Path, st, fd))
}

// SettleDangling looks at the paths of those versions that are in the history and the last
// ones of their paths all the same: a crash has taken the records of their successors. It is
// called before anybody uses the data.
func (r *Recorder) SettleDangling() {
	for _, v := range r.c.History.Dangling() {
		r.settle(v)
	}
}

func (r *Recorder) settle(v history.Version) {
	var st unix.Stat_t
	var err error
	if dir, e := r.c.Root.OpenParent(nil, v.Path); e != 0 {
		err = e
	} else {
		err = unix.Fstatat(dir, baseName(v.Path), &st, unix.AT_SYMLINK_NOFOLLOW)
		unix.Close(dir)
	}
	now := history.StateOf(&st)
	switch h := r.c.History; {
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ENOTDIR):
		h.Absent(v.Path)
	case err != nil || !isFile(&st):
	case now == v.State:
		h.Drop(v.Content) // put there for a commit in place that did not come
	default:
		h.Add(found(v.Path, &st, -1))
	}
}

// found describes a file that latchfs did not make, or forgot; fd may be -1.
func found(path string, st *unix.Stat_t, fd int) history.Version {
	return history.Version{
		Path: path, Event: history.Found, Time: time.Unix(st.Mtim.Unix()), UID: st.Uid,
		State: history.StateOf(st), Rights: RightsOf(st, fd),
	}
}

// RightsOf is who may read the file st behind fd, which may be -1.
func RightsOf(st *unix.Stat_t, fd int) history.Rights {
	r := history.Rights{UID: st.Uid, GID: st.Gid, Mode: st.Mode & 0o7777}
	r.ACL = fd < 0 || reach.HasACL(fd)
	return r
}

// RightsAt is who may read the file that has a name in a directory.
func RightsAt(dir int, name string) history.Rights {
	fd, err := unix.Openat(dir, name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return history.Rights{ACL: true}
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return history.Rights{ACL: true}
	}
	return RightsOf(&st, fd)
}

// baseName is the last name of a path.
func baseName(path string) string {
	for i := len(path) - 1; i >= 0; i-- {
		if path[i] == '/' {
			return path[i+1:]
		}
	}
	return path
}
