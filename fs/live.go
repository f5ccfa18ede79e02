package fs

import (
	"time"

	"golang.org/x/sys/unix"

	"latchfs/fs/changes"
	"latchfs/fs/holders"
	"latchfs/lockmgr/knowledge"
	"latchfs/lockmgr/policy"
)

// live follows the files whose reads and writes pass straight through, and their descriptors.
type live struct {
	*ground
	losses   *losses
	recorder *recorder
}

// Live is a property of the open file, too: a descriptor that was opened on a live
// file writes straight into that file, whatever its name is by then. A file that is
// renamed to a name which is not live stays live until the last of these descriptors
// is closed: a service goes on writing the log that logrotate has renamed. So does a file
// that was made without a name, by the descriptors that it had before it got one.

// setLive makes h a descriptor of a live file. A file that is live for another reason
// than its name may have versions from before, and may be an ordinary one again: from
// now on it changes without them.
func (lv *live) setLive(h *handle) {
	lv.nodes.mu.Lock()
	n := h.n
	h.live = true
	if h.writes() {
		n.liveWriters++
	}
	dir, carried := n.parent, n.carried
	lv.nodes.mu.Unlock()
	if !h.writes() || dir == nil || carried {
		return
	}
	lv.nodes.paths.RLock()
	defer lv.nodes.paths.RUnlock()
	path := lv.nodes.nodePath(n)
	if lv.rules.policy.For(path).Mode != policy.Atomic {
		return
	}
	if lv.rules.settings(path).Mode == policy.Atomic {
		lv.carryLive(n, path) // what made it live has just ended: its last live descriptor, before this one
		return
	}
	lv.recorder.changed(n, true)
	lv.forgetLive(path)
}

// forgetLive drops what is known of the versions of a path that changes without them:
// it is live, but not by its name, and may have been an ordinary file before.
func (lv *live) forgetLive(path string) {
	key := knowledge.Key(path)
	if lv.rules.knowledge == nil || !lv.rules.knowledge.Tracks(key) || lv.rules.policy.For(path).Mode != policy.Atomic {
		return
	}
	if lv.nodes.liveBy(path) != liveByHandle && lv.rules.settings(path).Mode == policy.Live {
		lv.rules.knowledge.Forget(key)
	}
}

// replacedLive notes that an ordinary file has taken the name of one that was live by its use.
// What was known of the name is as old as the moment in which that went live, and neither the
// knowledge nor the history has heard of the change: they were told while the name was live.
func (lv *live) replacedLive(ch *change) {
	if !changes.IsFile(ch.Was) || !changes.IsFile(ch.Is) || lv.rules.settings(ch.Path).Mode != policy.Atomic {
		return
	}
	lv.disk.versions.Restamped(ch.Path, ch.Was, ch.Is)
	if lv.rules.knowledge != nil {
		lv.rules.knowledge.Forget(knowledge.Key(ch.Path))
		ch.Know()
	}
}

// awaitWriters waits until nobody has the file st open to write it, if that is about to lose a name
// under which it was live by its use, but for no longer than RELEASE may take.
func (lv *live) awaitWriters(p place, st *unix.Stat_t) {
	if st == nil || lv.nodes.liveBy(lv.nodes.path(p.dir, p.name)) != liveByUse {
		return
	}
	for until := time.Now().Add(lateGrace); lv.handles.isWritten(inoKey{uint64(st.Dev), st.Ino}) && time.Now().Before(until); {
		time.Sleep(time.Millisecond) // nothing announces the end of a descriptor
	}
}

// endUseLocked makes the file st an ordinary one that was live by its use, and has got another
// name while nobody had it open to write it. Databases stay where they are; what is written,
// locked, closed and renamed is a program's new version of a document. It reports whether it is
// ordinary now. nodes.mu is held.
func (lv *live) endUseLocked(st *unix.Stat_t) bool {
	n := lv.nodes.inodes[inoKey{uint64(st.Dev), st.Ino}]
	if n != nil && n.writers == 0 {
		n.live = false
	}
	return n == nil || !n.live
}

// closeLiveLocked ends what setLive began. It returns whether the file has no live descriptor
// any more, and was live by them alone. nodes.mu is held.
func (h *handle) closeLiveLocked() (ended bool) {
	if !h.live || !h.writes() {
		return false
	}
	n := h.n
	n.liveWriters--
	return n.liveWriters == 0 && n.carried
}

// carryLive keeps the file n live that has got the name path, if it has descriptors
// from a live name. Where it is open to append records, its versions go on growing
// under the name.
func (lv *live) carryLive(n *inode, path string) {
	if n == nil || !n.isRegular() || lv.rules.versionSettings(path).Mode != policy.Atomic {
		return
	}
	lv.nodes.mu.Lock()
	if n.liveWriters > 0 && !n.live {
		n.live, n.carried = true, true
	}
	if n.carried {
		d := lv.nodes.dentries.GetAt(path)
		lv.nodes.setLiveLocked(d, liveByHandle)
		lv.nodes.dentries.Put(d)
	} else if d := lv.nodes.dentries.At(path); d != nil && d.State.live == liveByHandle && !n.live {
		lv.nodes.setLiveLocked(d, notLive) // the last of the descriptors was closed during the rename
	}
	grows := n.carried || lv.disk.versions.IsGrowing(n.onDisk())
	lv.nodes.mu.Unlock()
	if grows {
		lv.recorder.changed(n, true)
	}
}

// carryFirst is carryLive for a file that has got its first name (O_TMPFILE): whoever has it
// open to write writes straight into it, and is beside every session.
func (lv *live) carryFirst(n *inode, path string) {
	lv.nodes.mu.Lock()
	for _, h := range lv.handles.open {
		if h.n == n && h.kind == plainHandle && h.writes() && !h.live {
			h.live = true
			n.liveWriters++
		}
	}
	lv.nodes.mu.Unlock()
	lv.carryLive(n, path)
}

// carryBelow is carryLive for all files below a directory that was renamed.
func (lv *live) carryBelow(dir string) {
	type file struct {
		n    *inode
		path string
	}
	var list []file
	lv.nodes.mu.Lock()
	for _, h := range lv.handles.open {
		if (h.live || h.kind == appendHandle) && h.writes() && h.n.parent != nil {
			list = append(list, file{h.n, h.n.dentry.Path()})
		}
	}
	lv.nodes.mu.Unlock()
	for _, x := range list {
		if isBelow(x.path, dir) {
			lv.carryLive(x.n, x.path)
		}
	}
}

func isBelow(path, dir string) bool {
	return len(path) > len(dir) && path[:len(dir)] == dir && path[len(dir)] == '/'
}

// leaveCarried notes that a file which was live by its descriptors has left the name
// path, where it has been a version that others may know.
func (lv *live) leaveCarried(c *caller, op, path string) {
	if lv.nodes.liveBy(path) != liveByHandle || lv.rules.knowledge == nil {
		return
	}
	if key := knowledge.Key(path); lv.rules.knowledge.Tracks(key) {
		set := lv.rules.policy.For(path)
		who, _ := lv.losses.learnersOf(c, &set)
		lv.rules.knowledge.Changed(time.Now(), key, knowledge.Stamp{}, who, authorOf(c, op))
	}
}

// endCarried makes n a file like any other, after the close of its last live
// descriptor. What was written through them belongs to the version that was there
// when it got its name: whoever finds that the file is not live any more knows that already.
func (lv *live) endCarried(n *inode) {
	lv.nodes.paths.RLock()
	defer lv.nodes.paths.RUnlock()
	for !lv.endCarriedAs(n) {
	}
}

// endCarriedAs is endCarried by the name that n has; false if it has got another one meanwhile.
// nodes.paths is held.
func (lv *live) endCarriedAs(n *inode) (done bool) {
	lv.nodes.mu.Lock()
	d, over := n.dentry, n.liveWriters == 0 && n.carried
	if !over || d == nil {
		if over {
			n.live, n.carried = false, false
		}
		lv.nodes.mu.Unlock()
		return true
	}
	path := n.pathLocked()
	lv.nodes.dentries.Ref(d)
	lv.nodes.mu.Unlock()
	defer lv.nodes.putName(d)
	key, isThere := lv.nodes.named(n)
	if isThere && key == n.key {
		lv.restampGrown(n, path)
	}
	lv.nodes.mu.Lock()
	defer lv.nodes.mu.Unlock()
	switch {
	case n.liveWriters > 0 || !n.carried:
		return true // somebody has opened it meanwhile, and ends this
	case n.dentry != d:
		return false
	}
	n.live, n.carried = false, false
	if d.State.live == liveByHandle && (!isThere || key == n.key) { // else the name is another file's
		lv.nodes.setLiveLocked(d, notLive)
	}
	return true
}

// restampGrown lets the version that path holds be what n holds by now.
func (lv *live) restampGrown(n *inode, path string) {
	var st unix.Stat_t
	if unix.Fstat(lv.nodes.fdOf(n), &st) != nil {
		return
	}
	lv.disk.versions.Is(path, &st, false)
	if lv.rules.knowledge == nil {
		return
	}
	key := knowledge.Key(path)
	if _, was := lv.rules.knowledge.Current(key); was.Ino == st.Ino {
		lv.rules.knowledge.Restamp(key, was, stampOfFile(&st))
	}
}

// closedWhileGrowing is the end of a descriptor of a file that has appeared. After
// the last the file is an ordinary one.
func (lv *live) closedWhileGrowing(s *session, by *holders.Closer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.holders.NoteClose(by.Owner)
	if !s.hasUnclosedLocked() && !s.holders.IsHeldAfter(by) {
		lv.settleLocked(s)
	}
}

// settleLocked makes the file that has grown an ordinary one, or leaves that to the
// last close of those who have opened it to write meanwhile. s.mu is held.
func (lv *live) settleLocked(s *session) {
	n := s.inode
	lv.recorder.noteGrown(s, false)
	lv.nodes.mu.Lock()
	defer lv.nodes.mu.Unlock()
	n.grower = nil
	by := notLive
	if n.liveWriters > 0 {
		n.carried = true
		by = liveByHandle
	} else {
		n.live = false
	}
	if n.dentry != nil {
		lv.nodes.setLiveLocked(n.dentry, by)
	}
}
