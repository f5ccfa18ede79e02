package fs

import (
	"golang.org/x/sys/unix"

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
	if f.versions == nil || !n.isRegular() {
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
	if !f.versions.IsOther(f.path(dir, name), now) {
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
	if set := f.settings(path); f.versions.Keeps(&set) {
		f.versions.Inspect(f.versionName(dir, name, path))
	}
}
