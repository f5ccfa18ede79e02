package fs

import (
	"golang.org/x/sys/unix"

	"latchfs/journal/history"
	"latchfs/lockmgr"
)

// A change outside the mount is found when the file is next looked up, or at the
// latest when it is next replaced: then it is not what its last version left. The
// state that was found becomes a version of its own.

// maxGlances bounds how many files are looked at more closely at one time.
const maxGlances = 4

// glance compares what a lookup has found with the last version. It costs a
// lookup nothing more: what is not as it was left is looked at again, and with
// the file's lock, by somebody else.
func (ss *sessions) glance(dir *inode, name string, n *inode, st *unix.Stat_t) {
	if ss.disk.versions == nil || !n.isRegular() {
		return
	}
	now := history.StateOf(st)
	ss.nodes.mu.Lock()
	due := n.seen != now && n.sess == nil && n.shadow == nil && !ss.recorder.isBusyNameLocked(dir, name)
	if due {
		n.seen = now
	}
	ss.nodes.mu.Unlock()
	if !due || st.Nlink > 1 {
		return
	}
	if !ss.disk.versions.IsOther(ss.nodes.path(dir, name), now) {
		return
	}
	select {
	case ss.losses.glances <- struct{}{}:
	default:
		ss.glanceAgain(n)
		return
	}
	ss.nodes.pin(dir)
	go func() {
		ss.inspect(dir, name, n)
		ss.nodes.unpin(dir)
		<-ss.losses.glances
	}()
}

func (ss *sessions) glanceAgain(n *inode) {
	ss.nodes.mu.Lock()
	defer ss.nodes.mu.Unlock()
	n.seen = history.State{}
}

// inspect looks at a file that is not what its last version left. It takes the
// name's lock like anybody else: where that is held, its holder finds out itself.
func (ss *sessions) inspect(dir *inode, name string, n *inode) {
	c := &caller{callers: ss.callers, owner: lockmgr.Owner{Start: ss.disk.serial.Add(1)}}
	l, err := ss.locks.acquire(ss.txns.fileDemand(c, opOpen, 0, place{dir, name, nil}), true)
	if err != nil {
		ss.glanceAgain(n)
		return
	}
	defer ss.rules.table.Release(l)
	ss.nodes.paths.RLock()
	defer ss.nodes.paths.RUnlock()
	path := ss.nodes.path(dir, name)
	if set := ss.rules.settings(path); ss.disk.versions.Keeps(&set) {
		ss.disk.versions.Inspect(ss.losses.versionName(dir, name, path))
	}
}
