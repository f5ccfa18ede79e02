package fs

import (
	"latchfs/fs/appends"
	"latchfs/fs/calling"
	"latchfs/fs/records"
	"latchfs/lockmgr"
)

// A program that looks at its file, or changes it otherwise than by appending, finds there
// what it has appended before: the end of a line does not wait for its newline then.

// showLines appends the unfinished lines of the caller's own appenders of an
// inode that it opens to read, whose attributes it asks for, or that it unlocks: whoever locks
// that next finds what was appended under the lock.
func (hs *handles) showLines(h *Request, n *inode) { hs.showLinesOn(h, n, appends.Late) }

// showLinesOn is showLines; on is Asked for a reply with the attributes of n.
func (hs *handles) showLinesOn(h *Request, n *inode, on appends.Occasion) {
	if n == nil || !hs.appenders.HasLines() {
		return
	}
	hs.nodes.mu.Lock()
	own, others := hs.appenders.Lined(n.key.ofFile()), hs.appenders.Lined(n.alsoAppendedLocked()...)
	hs.nodes.mu.Unlock()
	hs.finishLines(h, own, on)
	hs.finishLines(h, others, appends.Late)
}

// finishLinesOf appends the unfinished lines of the caller's own appenders of the file to
// which n's name leads. The caller is about to open that for writing, or to cut it.
func (ap *appending) finishLinesOf(h *Request, n *inode) {
	dir, name := ap.nodes.nameOf(n)
	ap.finishLinesAt(h, place{dir, name, n})
}

// finishLinesAt is finishLinesOf for the file that has the name p, if any.
func (ap *appending) finishLinesAt(h *Request, p place) {
	ap.nodes.mu.Lock()
	files := p.inode.appendedLocked()
	if p.dir != nil {
		for _, o := range ap.nodes.nameLocked(p.dir, p.name).former { // whose appenders go on in the file
			files = append(files, o.key.ofFile())
		}
	}
	ap.nodes.mu.Unlock()
	ap.handles.finishLines(h, ap.handles.appenders.Lined(files...), appends.Late)
}

// linedLocked are the appenders that hold an unfinished line of n back. nodes.mu is held.
func (hs *handles) linedLocked(n *inode) []*records.Appender {
	if !hs.appenders.HasLines() { // the kernel's requests are many, and such lines are few
		return nil
	}
	return hs.appenders.Lined(n.appendedLocked()...)
}

// appendedLocked are the files whose appenders append to n: itself, the file for which the shadow
// n is written, and those that n has replaced and whose appenders go on in n. nodes.mu is held.
func (n *inode) appendedLocked() (files []records.ID) {
	if n == nil {
		return nil
	}
	return append(n.alsoAppendedLocked(), n.key.ofFile())
}

// alsoAppendedLocked are those but for n itself. nodes.mu is held.
func (n *inode) alsoAppendedLocked() (files []records.ID) {
	if n.sess != nil && n.sess.base != nil {
		files = append(files, n.sess.base.key.ofFile())
	}
	if n.dentry != nil {
		for _, o := range n.dentry.State.former {
			files = append(files, o.key.ofFile())
		}
	}
	return files
}

// forgetFollowed makes the kernel forget the attributes of the file that has replaced n, and
// in which the appenders of n go on: whoever looks at that has its own lines appended first.
func (ap *appending) forgetFollowed(n *inode) {
	key, ok := ap.nodes.named(n)
	ap.nodes.mu.Lock()
	now := ap.nodes.inodes[key]
	ap.nodes.mu.Unlock()
	if ok && now != nil && now != n && !ap.life.isOver() {
		ap.kernel.forgetAttrs(now)
	}
}

// finishLines appends what those of the appenders hold back that are the caller's own; on is Asked
// if all of them have opened the file whose attributes the reply will bring. Half of a line that is
// judged goes on waiting for its end.
func (hs *handles) finishLines(h *Request, lined []*records.Appender, on appends.Occasion) {
	if len(lined) == 0 {
		return
	}
	c := hs.callers.callerOf(h)
	for _, a := range lined {
		if c.BelongsTo(calling.NewIdentity(a.Owner(), lockmgr.Birth{})) {
			a.Show(on)
		}
	}
}
