package fs

import (
	"time"

	"golang.org/x/sys/unix"

	"latchfs/journal/audit"
	"latchfs/journal/history"
	"latchfs/lockmgr"
)

// A change around the mount is found when the file is next looked up, or at the
// latest when it is next replaced: then it is not what its last version left. The
// state that was found becomes a version of its own.

// maxGlances bounds how many files are looked at more closely at one time.
const maxGlances = 4

// glance compares what a lookup has found with the last version. It costs a
// lookup nothing more: what is not as it was left is looked at again, and with
// the file's lock, by somebody else.
func (f *FS) glance(dir *inode, name string, n *inode, st *unix.Stat_t) {
	if f.history == nil || !n.isRegular() {
		return
	}
	now := history.StateOf(st)
	f.mu.Lock()
	due := n.seen != now && n.sess == nil && n.shadow == nil && !f.isBusyNameLocked(dir, name)
	if due {
		n.seen = now
	}
	f.mu.Unlock()
	if !due || st.Nlink > 1 {
		return
	}
	last, loose, known := f.history.Last(f.path(dir, name))
	if !known || last == now || loose && last.Ino == now.Ino {
		return
	}
	select {
	case f.glances <- struct{}{}:
	default:
		f.glanceAgain(n)
		return
	}
	f.pin(dir)
	go func() {
		f.inspect(dir, name, n)
		f.unpin(dir)
		<-f.glances
	}()
}

func (f *FS) glanceAgain(n *inode) {
	f.mu.Lock()
	defer f.mu.Unlock()
	n.seen = history.State{}
}

// inspect looks at a file that is not what its last version left. It takes the
// name's lock like anybody else: where that is held, its holder finds out itself.
func (f *FS) inspect(dir *inode, name string, n *inode) {
	c := &caller{f: f, owner: lockmgr.Owner{Start: f.serial.Add(1)}}
	l, err := f.acquire(f.fileDemand(c, opOpen, 0, place{dir, name, nil}), true)
	if err != nil {
		f.glanceAgain(n)
		return
	}
	defer f.table.Release(l)
	f.paths.RLock()
	defer f.paths.RUnlock()
	path := f.path(dir, name)
	var st unix.Stat_t
	err = unix.Fstatat(f.fdOf(dir), name, &st, unix.AT_SYMLINK_NOFOLLOW)
	if err != nil || st.Mode&unix.S_IFMT != unix.S_IFREG || !f.keepsHistory(f.settings(path)) {
		return
	}
	if _, known := f.history.Match(path, history.StateOf(&st)); !known {
		f.discover(dir, name, path, &st)
	}
}

// discover enters the file st as found, and tells the audit trail if somebody has
// just put it there around the mount. What happened while there was no mount is
// nobody's fault.
func (f *FS) discover(dir *inode, name, path string, st *unix.Stat_t) history.Ref {
	_, _, had := f.history.Last(path)
	if had && st.Nlink == 1 && time.Unix(st.Ctim.Unix()).After(f.source.started) {
		f.event(audit.Event{Time: time.Now(), Event: "bypass", Path: path, Detail: map[string]any{
			"reason": "the file was changed around the mount", "bytes": st.Size,
		}})
	}
	return f.history.Add(f.foundAt(dir, name, path, st))
}
