package fs

import (
	"golang.org/x/sys/unix"

	"latchfs/journal/history"
)

// A change outside the mount is found when the file is next looked up, or at the
// latest when it is next replaced: then it is not what its last version left. The
// state that was found becomes a version of its own.

// maxGlances bounds how many files are looked at more closely at one time.
const maxGlances = 4

// glance compares what a lookup has found with the last version. It costs a
// lookup nothing more: what is not as it was left is looked at again, and with
// the file's lock, by somebody else.
func (op *opens) glance(dir *inode, name string, n *inode, st *unix.Stat_t) {
	if op.disk.versions == nil || !n.isRegular() {
		return
	}
	now := history.StateOf(st)
	op.nodes.mu.Lock()
	due := n.seen != now && n.sess == nil && n.shadow == nil && !op.nodes.isBusyNameLocked(dir, name)
	if due {
		n.seen = now
	}
	op.nodes.mu.Unlock()
	if !due || st.Nlink > 1 {
		return
	}
	if !op.disk.versions.IsOther(op.nodes.path(dir, name), now) {
		return
	}
	select {
	case op.glances <- struct{}{}:
	default:
		op.glanceAgain(n)
		return
	}
	op.nodes.pin(dir)
	go func() {
		op.inspect(dir, name, n)
		op.nodes.unpin(dir)
		<-op.glances
	}()
}

func (op *opens) glanceAgain(n *inode) {
	op.nodes.mu.Lock()
	defer op.nodes.mu.Unlock()
	n.seen = history.State{}
}

// inspect looks at a file that is not what its last version left. It takes the
// name's lock like anybody else: where that is held, its holder finds out itself.
func (op *opens) inspect(dir *inode, name string, n *inode) {
	c := op.callers.room.Itself()
	l, err := op.locks.acquire(op.locks.fileDemand(c, opOpen, 0, place{dir, name, nil}), true)
	if err != nil {
		op.glanceAgain(n)
		return
	}
	defer op.rules.table.Release(l)
	op.nodes.paths.RLock()
	defer op.nodes.paths.RUnlock()
	path := op.nodes.path(dir, name)
	if set := op.rules.settings(path); op.disk.versions.Keeps(&set) {
		op.disk.versions.Inspect(op.callers.versionName(dir, name, path))
	}
}
