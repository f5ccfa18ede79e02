package fs

import (
	"golang.org/x/sys/unix"

	"latchfs/fs/lostupdate"
	"latchfs/lockmgr/knowledge"
)

// A file with a live name may have others, under which programs know versions of it (ln f
// f.lock). Nobody asks what a write that passes straight through would lose, but whose it is
// has to be known: to the process that writes, and to its script, it is its own work, and no
// change outside the mount. That is kept under the key that all names of the file share.

// liveWork is whose the changes are that pass straight through.
type liveWork struct {
	who knowledge.Who
	by  knowledge.Author
}

// beginWork finds out whose the changes are that the caller is about to make of n, which is live;
// nil if nobody knows versions of that.
func (lv *live) beginWork(c func() *caller, op string, n *inode) *liveWork {
	stamp := knowledge.Stamp{Dev: n.key.dev, Ino: n.key.ino}
	if lv.rules.knowledge == nil || !lv.rules.knowledge.Tracks(lostupdate.LinkKey(stamp)) {
		return nil
	}
	by := c()
	set := lv.rules.settings(lv.nodes.nodePath(n))
	who, _ := lv.losses.learnersOf(by, &set)
	return &liveWork{who, authorOf(by, op)}
}

// endWork notes what n holds after the changes.
func (lv *live) endWork(n *inode, w *liveWork) {
	if w == nil {
		return
	}
	var st unix.Stat_t
	if unix.Fstat(lv.nodes.fdOf(n), &st) == nil {
		lv.losses.updates.WroteInPlace(stampOfFile(&st), w.who, w.by)
	}
}

// setattrLive changes the attributes of n, which is live. Another time is no other version.
func (ats *attrs) setattrLive(c *caller, in *SetAttrRequest, n *inode, size uint64, resize bool) unix.Errno {
	if resize {
		w := ats.live.beginWork(func() *caller { return c }, opTruncate, n)
		defer ats.live.endWork(n, w)
		return ats.setattrPlain(in, n, size, resize)
	}
	var before, after unix.Stat_t
	fd := ats.nodes.fdOf(n)
	known := unix.Fstat(fd, &before) == nil
	setsTime := in.Set&(SetMtime|SetMtimeNow) != 0
	e := ats.setattrPlain(in, n, size, resize)
	known = known && e == 0 && before.Nlink > 1 && unix.Fstat(fd, &after) == nil
	if known && before.Size == after.Size && (setsTime || before.Mtim == after.Mtim) { // else somebody has written meanwhile
		ats.recorder.restamped(ats.nodes.nodePath(n), &before, &after)
	}
	return e
}
