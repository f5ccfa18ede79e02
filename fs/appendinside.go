package fs

import (
	"slices"

	"golang.org/x/sys/unix"

	"latchfs/fs/syscalls"
	"latchfs/journal/commit"
)

// What comes through a descriptor that was opened with O_APPEND is not always for the end of
// the file. The kernel writes the pages of a shared mapping back through it, and the program
// may take O_APPEND off it (fcntl(F_SETFL)) or ask for one write that does not append
// (pwritev2(2), RWF_NOAPPEND).

// isForPlace reports whether the bytes of a WRITE through such a descriptor are for the
// place that it names. Of RWF_NOAPPEND only the system call tells, which is looked at where
// the place is not the end of the file: the kernel names that for what is appended.
func (f *FS) isForPlace(h *handle, in *WriteRequest) bool {
	if in.Cached || in.Flags&unix.O_APPEND == 0 {
		return true
	}
	if h.kind == shadowHandle || in.TID == 0 || f.endsAt(h, in.Offset) {
		return false // a shadow is written at the place in any case
	}
	call, ok := f.proc.Syscall(in.TID)
	return ok && syscalls.WritesAtPlace(call)
}

// endsAt reports whether h's file ends at that place, or what h's appender goes on in.
func (f *FS) endsAt(h *handle, place uint64) bool {
	var st unix.Stat_t
	if unix.Fstat(f.fdOf(h.n), &st) == nil && uint64(st.Size) == place {
		return true
	}
	a := h.app
	if a == nil {
		return false
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.fd >= 0 && a.key != h.n.key && unix.Fstat(a.fd, &st) == nil && uint64(st.Size) == place
}

// appendsAlways reports whether pwrite(2) on fd appends, whatever the place.
func appendsAlways(fd int) bool {
	flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
	return err == nil && flags&unix.O_APPEND != 0
}

// storeFile opens h's own file to write to places in it, whatever its descriptor appends
// to. The caller closes it.
func (f *FS) storeFile(h *handle) (int, unix.Errno) {
	fd, err := f.reopen(f.fdOf(h.n), unix.O_RDWR|int(h.flags&(unix.O_SYNC|unix.O_DSYNC)))
	return fd, errnoOf(err)
}

// writeInside is a WRITE for a place in the file through an append descriptor. Pages of a
// mapping go to the file that was opened, and so is mapped, although records may go to its
// successor by now. Everything else is refused.
func (a *appender) writeInside(in *WriteRequest, data [][]byte) (uint32, unix.Errno) {
	f := a.f
	if !in.Cached {
		return 0, f.refuseInside(a.h, in)
	}
	fd, e := f.storeFile(a.h)
	if e != 0 {
		return 0, e
	}
	defer unix.Close(fd)
	a.mu.Lock()
	defer a.mu.Unlock()
	var ch *change
	if e := a.followLocked(); e == 0 && a.key == a.h.n.key {
		ch = a.changes(opOpen)
	}
	var n int
	err := f.asSender(a.h, &in.Request, true, func() (err error) {
		n, err = pwriteWithin(fd, data, int64(in.Offset))
		return err
	})
	if err != nil {
		return 0, errnoOf(err)
	}
	a.stored = true
	if ch != nil {
		a.tell(ch)
		a.noteGrowth(0)
	}
	return uint32(n), 0
}

// pwriteWithin is pwritev(2) that does not make the file longer, as no mapping does: the
// kernel may know a size that the file had before. What would be behind the end counts as
// written.
func pwriteWithin(fd int, data [][]byte, at int64) (int, error) {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return 0, err
	}
	all := slices.Concat(data...)
	for rest := all[:max(0, min(int64(len(all)), st.Size-at))]; len(rest) > 0; {
		n, err := unix.Pwrite(fd, rest, at)
		if err != nil && err != unix.EINTR {
			return 0, err
		}
		rest, at = rest[max(n, 0):], at+int64(max(n, 0))
	}
	return len(all), nil
}

// noteMapped tells the history that the file may change without a word: with passthrough nothing
// comes to us of what is stored through a mapping, which has the file open for as long as it lasts.
func (a *appender) noteMapped() {
	f, n := a.f, a.h.n
	var st unix.Stat_t
	dir, name := f.nameOf(n)
	if f.versions == nil || a.h.io != ioMixed || a.h.flags&unix.O_ACCMODE != unix.O_RDWR || dir == nil || f.stat(n, &st) != 0 {
		return
	}
	f.unseal(n.key)
	f.versions.Grow(&a.mapped, commit.Inode{Dev: n.key.dev, Ino: n.key.ino}, f.path(dir, name), &st)
}

// noteUnmapped tells it that the file changes so no more.
func (a *appender) noteUnmapped() {
	if _, rests := a.f.versions.Rest(&a.mapped); rests {
		a.f.changed(a.h.n, false)
	}
}

// syncStored puts on disk what was stored through mappings.
func (a *appender) syncStored() unix.Errno {
	a.mu.Lock()
	stored := a.stored
	a.stored = false
	a.mu.Unlock()
	if !stored {
		return 0
	}
	fd, e := a.f.storeFile(a.h)
	if e == 0 {
		e = errnoOf(unix.Fdatasync(fd))
		unix.Close(fd)
	}
	if e != 0 {
		a.mu.Lock()
		a.stored = true
		a.mu.Unlock()
	}
	return e
}

// refuseInside refuses a write to a place in the file through a descriptor that was opened
// to append.
func (f *FS) refuseInside(h *handle, in *WriteRequest) unix.Errno {
	c := f.callerOf(&in.Request)
	reason := "The file was opened to append to it, and the program has then taken O_APPEND off the descriptor"
	if in.Flags&unix.O_APPEND != 0 {
		reason = "The file was opened to append to it, and the program writes to a place in it (pwritev2 with RWF_NOAPPEND)"
	}
	return f.refuseWith(c, opAppend, f.nodePath(h.n), unix.EOPNOTSUPP, reason,
		"Nothing was written. To write to other places of the file, it has to be opened without O_APPEND.")
}
