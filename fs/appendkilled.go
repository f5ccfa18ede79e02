package fs

import (
	"fmt"

	"golang.org/x/sys/unix"

	"latchfs/fs/deaths"
	"latchfs/fs/printable"
	"latchfs/fs/unfinished"
	"latchfs/lockmgr/policy"
)

// dropUnfinished takes the unfinished record of the sender of a FLUSH back that is
// dying by SIGKILL or a crash (DESIGN §4.4): nobody is left to finish the line. What
// others have appended behind it stays.
func (a *appender) dropUnfinished(cl *closing) {
	f, c, sig := a.f, cl.c, cl.sig
	if c.foreign() || sig == 0 || f.settings(f.nodePath(a.h.n)).OnKill == policy.Commit {
		return
	}
	d := deathOf(c, sig)
	if d.WasStopped() {
		return
	}
	w := a.queue.Writer()
	if !a.wasWrittenBy(w.Thread, c) {
		return
	}
	rest := a.queue.TakeBack(w)
	if len(rest) > 0 {
		a.keepBytes(rest, unix.EINTR, fmt.Sprintf("%v before it finished a line that it appended to %s, so what there was of the line (%s) was kept out of the file",
			d, printable.Line(f.nodePath(a.h.n)), deaths.Size(int64(len(rest)))), nil)
	}
}

// wasWrittenBy reports whether the thread that has written last was the caller's process's.
func (a *appender) wasWrittenBy(writer uint32, c *caller) bool {
	if writer == uint32(c.owner.PID) || writer == uint32(c.tid) {
		return true
	}
	th, err := a.f.proc.Thread(writer)
	return err == nil && th.Owner == c.owner || err != nil && a.c.owner == c.owner
}

// HasOpen implements appends.End.
func (a *appender) HasOpen() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return !a.open.IsNone()
}

// CutOpen implements appends.End.
func (a *appender) CutOpen() []byte {
	a.mu.Lock()
	defer a.mu.Unlock()
	var st unix.Stat_t
	if a.open.IsNone() || a.followLocked() != 0 || !a.open.IsIn(a.key.ofFile()) || !a.f.gaps.Follow(&a.open) || unix.Fstat(a.fd, &st) != nil {
		return nil
	}
	part := a.open.Content(a.fd)
	if part == nil {
		return nil
	}
	if start, ok := a.open.AtEnd(st.Size); ok {
		if err := a.tail.Truncate(start); err != nil {
			a.f.log.Errorf("%q ends in a line that its writer cannot finish, which cannot be cut off: %v", a.f.nodePath(a.h.n), err)
			return nil
		}
		a.tellKernel(true)
	} else {
		if !a.takeOutLocked() {
			return nil
		}
		a.forgetPages()
	}
	a.open = unfinished.Record{}
	a.noteGrowth(0)
	a.tell(a.changes(opTruncate))
	return part
}

// forgetPages makes the kernel read the file again.
func (a *appender) forgetPages() {
	f := a.f
	f.mu.Lock()
	n := f.inodes[a.key]
	f.mu.Unlock()
	if n != nil && !f.isOver() {
		go f.notifyInode(n, 0, -1) // somebody may hold a page and wait for us
	}
}
