package fs

import (
	"cmp"
	"time"

	"golang.org/x/sys/unix"

	"latchfs/fs/iomode"
	"latchfs/fs/judge"
	"latchfs/fs/lostupdate"
	"latchfs/fs/records"
	"latchfs/lockmgr"
	"latchfs/lockmgr/knowledge"
	"latchfs/lockmgr/policy"
)

// This file joins the requests for what appends with package records.

// appendsRecords reports whether an open with these flags is an appender's.
func appendsRecords(flags uint32, set policy.Settings) bool {
	return flags&unix.O_APPEND != 0 && flags&unix.O_TRUNC == 0 && set.Append == policy.Record && judge.ByLines(set.Validate)
}

// openAppend opens a file for appending records. It waits for a running session
// here, where a wait is harmless and a refusal is seen.
func (ap *appending) openAppend(cancel <-chan struct{}, c *caller, in *OpenRequest, k *kernelNode, n *inode, set policy.Settings, out *Opened) unix.Errno {
	wait := set.Wait
	if in.Flags&unix.O_NONBLOCK != 0 {
		wait = 0
	}
	dir, name := ap.nodes.nameOf(n)
	if ap.life.isStopping() {
		if e := ap.parking.holdBack(&demand{c: c, op: opAppend, path: ap.nodes.path(dir, name), wait: wait}, cancel); e != 0 {
			return e
		}
	}
	there, key := !ap.names.isRemoved(n), ap.nodes.nameKey(n)
	l, e := ap.locks.lock(ap.locks.fileDemand(c, opAppend, wait, place{dir, name, n}), cancel)
	if e != 0 {
		return e
	}
	defer ap.rules.table.Release(l)
	if there && (ap.names.isRemoved(n) || ap.nodes.nameKey(n) != key) && c.TID() != 0 && !ap.astray.walks.Repeated(c) {
		// What was appended to it now would be nowhere, or in a file that has another name.
		// Who has the lock may have had it for long: a transaction. A shadow that was given up
		// meanwhile has no name at all.
		if ap.nodes.nameKey(n).dir == nil {
			return ap.astray.staleUnder(c, key)
		}
		return ap.astray.staleAt(c, n)
	}
	n = ap.kernel.behind(k) // a session may have taken the node over, and ended, while the lock was waited for
	if ap.names.isOrphan(n) && (c.TID() != 0 || ap.names.leftBehind(n)) {
		// The session that had taken the file's node over was rolled back while the
		// caller waited for it.
		if ap.astray.walks.Repeated(c) {
			return unix.EBUSY
		}
		return ap.astray.staleAt(c, n)
	}
	return ap.openAppender(c, k, n, in.Flags, out)
}

// openAppender gives the caller, who has the lock of the file's name, an appender on it.
func (ap *appending) openAppender(c *caller, k *kernelNode, n *inode, flags uint32, out *Opened) unix.Errno {
	// The file may have been removed before the caller came. Under the lock nobody makes
	// an earlier version of it once somebody has it open to write.
	ap.nodes.mu.Lock()
	if k.in != n {
		ap.nodes.mu.Unlock()
		return unix.ESTALE
	}
	h := ap.newAppenderLocked(k, flags, c)
	ap.nodes.mu.Unlock()
	if err := ap.recorder.unshare(n); err != nil {
		ap.endings.closeHandle(h)
		return errnoOf(err)
	}
	if e := h.app.OpenNow(-1); e != 0 {
		ap.endings.closeHandle(h)
		return e
	}
	ap.handles.startIO(h, iomode.Direct, out)
	if h.io.Mode() == iomode.Mixed {
		h.app.Map()
	}
	out.Handle = h.id
	return 0
}

// appender is what an append handle has: it appends what is written through the handle.
type appender struct {
	*records.Appender
	appended
}

// newAppenderLocked is newHandleLocked for an appender of the caller's.
func (ap *appending) newAppenderLocked(k *kernelNode, flags uint32, c *caller) *handle {
	h := ap.handles.newHandleLocked(k, appendHandle, flags, idsOf(c))
	h.n.records++
	h.app = newAppender(appended{appendedName{ap, h, c}})
	return h
}

func newAppender(is appended) *appender {
	h, c := is.h, is.c
	return &appender{is.handles.appenders.New(records.Config{
		Host: is, Procs: is.callers.proc, Book: is.callers.book, Own: h.n.key.ofFile(), Flags: h.flags, UID: c.UID(), Owner: c.Owner(),
	}), is}
}

// ofFile is the key as the identity of a file.
func (k inoKey) ofFile() records.ID { return records.ID{Dev: k.dev, Ino: k.ino} }

// keyOf is the key of a file.
func keyOf(id records.ID) inoKey { return inoKey{id.Dev, id.Ino} }

// write is a WRITE. Of those for a place in the file pages of a mapping are stored; everything
// else is refused.
func (a *appender) write(in *WriteRequest, data [][]byte, inside bool) (uint32, unix.Errno) {
	var n int
	var e unix.Errno
	switch {
	case !inside:
		n, e = a.Write(a.noteUser(&in.Request, in.KillSuid), data)
	case in.Cached:
		n, e = a.Store(data, int64(in.Offset))
	default:
		e = a.refuseInside(in)
	}
	return uint32(n), e
}

// refuseInside refuses a write to a place in the file through a descriptor that was opened
// to append.
func (a *appender) refuseInside(in *WriteRequest) unix.Errno {
	reason := "The file was opened to append to it, and the program has then taken O_APPEND off the descriptor"
	if in.Flags&unix.O_APPEND != 0 {
		reason = "The file was opened to append to it, and the program writes to a place in it (pwritev2 with RWF_NOAPPEND)"
	}
	return a.reports.refuseWith(a.callers.callerOf(&in.Request), opAppend, a.Path(), unix.EOPNOTSUPP, reason,
		"Nothing was written. To write to other places of the file, it has to be opened without O_APPEND.")
}

// isForPlace reports whether the bytes of a WRITE through a descriptor that was opened with
// O_APPEND are for the place that it names.
func (ap *appending) isForPlace(h *handle, in *WriteRequest) bool {
	w := records.Write{Thread: in.TID, Cached: in.Cached, Flags: in.Flags}
	if h.kind == shadowHandle {
		w.Thread = 0 // a shadow is written at the place in any case
	}
	return w.IsForPlace(ap.callers.proc, func() bool {
		var st unix.Stat_t
		return unix.Fstat(ap.nodes.fdOf(h.n), &st) == nil && uint64(st.Size) == in.Offset || h.app != nil && h.app.EndsAt(in.Offset)
	})
}

// flush is a close: it appends what is held back, but for what nobody is left to finish, and a
// line that goes on through another descriptor.
func (a *appender) flush(cl *closing) unix.Errno {
	c := cl.c
	if cl.sig != 0 && !c.Foreign() && a.rules.settings(a.Path()).OnKill != policy.Commit {
		if d := deathOf(c, cl.sig); !d.WasStopped() {
			a.DropUnfinished(d, int32(c.TID()))
		}
	}
	if a.LineGoesOn(c.Owner()) {
		return 0
	}
	return a.Drain()
}

// release is the end of the open file.
func (a *appender) release() {
	if e := a.Drain(); e != 0 {
		a.disk.log.Warnf("appending to %q failed after its close: %v", a.Path(), e)
	}
	a.Close()
}

// fsync is fsync(2), or fdatasync(2).
func (a *appender) fsync(dataOnly bool) unix.Errno {
	return cmp.Or(a.Fsync(dataOnly), a.names.lostSince(a.h.n))
}

// noteRead notes that a process reads through the descriptor, which was opened for reading,
// too. The open alone told nobody anything.
func (a *appender) noteRead(in *Request) {
	a.nodes.mu.Lock()
	n := a.nodes.inodes[keyOf(a.Follows())]
	a.nodes.mu.Unlock()
	if n != nil {
		_ = a.losses.noteRead(in, n)
	}
}

// allocate is fallocate(2).
func (a *appender) allocate(in *AllocRequest) unix.Errno {
	return a.Allocate(a.noteUser(&in.Request, false), in.Mode, func(fd int) error { return a.disk.allocate(fd, in) })
}

// truncate is ftruncate(2).
func (a *appender) truncate(in *SetAttrRequest, size int64) unix.Errno {
	return a.Truncate(&records.Cut{
		Size: size, By: cutter{a.appended, in},
		Writer: a.noteUser(&in.Request, in.Set&SetKillSuid != 0),
	})
}

// cutter is who asks for an ftruncate.
type cutter struct {
	appended
	in *SetAttrRequest
}

// MayLose implements records.Cutter.
func (by cutter) MayLose(at time.Time, used records.ID, is *unix.Stat_t, size int64) unix.Errno {
	p := by.place()
	if p.dir == nil {
		return 0
	}
	ch := lostupdate.Change{Op: opTruncate}
	if size < is.Size && !by.c.Foreign() {
		ch.Use = &knowledge.Use{
			At: at, Dev: used.Dev, Ino: used.Ino, By: []lockmgr.Owner{by.c.Owner(), by.callers.callerOf(&by.in.Request).Owner()},
		}
	}
	x, e := by.losses.loss(by.c, ch, p, is)
	if x == nil {
		return e
	}
	return errnoFor(x.Answer())
}
