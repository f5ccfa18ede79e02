package records

import (
	"slices"

	"golang.org/x/sys/unix"

	"latchfs/fs/sys"
	"latchfs/fs/syscalls"
)

// What comes through a descriptor that was opened with O_APPEND is not always for the end of
// the file. The kernel writes the pages of a shared mapping back through it, and the program
// may take O_APPEND off it (fcntl(F_SETFL)) or ask for one write that does not append
// (pwritev2(2), RWF_NOAPPEND).

// A Write is a WRITE through such a descriptor.
type Write struct {
	Thread uint32 // 0: unknown
	Cached bool   // it has pages of a mapping
	Flags  uint32 // of the descriptor, as they are now
}

// IsForPlace reports whether its bytes are for the place that it names. Of RWF_NOAPPEND only
// the system call tells, which is looked at unless the file ends at that place: the kernel
// names the end for what is appended.
func (w Write) IsForPlace(p Procs, isEnd func() bool) bool {
	if w.Cached || w.Flags&unix.O_APPEND == 0 {
		return true
	}
	if w.Thread == 0 || isEnd() {
		return false
	}
	call, ok := p.Syscall(w.Thread)
	return ok && syscalls.WritesAtPlace(call)
}

// AppendsAlways reports whether pwrite(2) on fd appends, whatever the place.
func AppendsAlways(fd int) bool {
	flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
	return err == nil && flags&unix.O_APPEND != 0
}

// storeFile opens the descriptor's own file to write to places in it, whatever it appends to.
// The caller closes it.
func (c *Config) storeFile() (int, unix.Errno) {
	fd, err := c.Host.Reopen(c.Host.Own(), unix.O_RDWR|int(c.syncFlags()))
	return fd, sys.Errno(err)
}

// Store takes pages of a mapping for a place. They go to the file that was opened, and so is
// mapped, although records may go to its successor by now.
func (a *Appender) Store(data [][]byte, at int64) (int, unix.Errno) {
	fd, e := a.c.storeFile()
	if e != 0 {
		return 0, e
	}
	defer unix.Close(fd)
	a.mu.Lock()
	defer a.mu.Unlock()
	var ch Change
	if e := a.followLocked(); e == 0 && a.id == a.c.Own {
		ch, _ = a.changeLocked(Stored)
	}
	var n int
	err := a.c.Host.AsOpener(func() (err error) {
		n, err = pwriteWithin(fd, data, at)
		return err
	})
	if err != nil {
		return 0, sys.Errno(err)
	}
	a.stored = true
	if ch != nil {
		tell(ch, a.fd)
		a.growLocked(0)
	}
	return n, 0
}

// Map notes that the kernel does not tell of what is stored through a mapping of the opened
// file, if its program may make one: a mapping keeps the descriptor's file open for as long as
// it lasts.
func (a *Appender) Map() {
	if a.c.Flags&unix.O_ACCMODE != unix.O_RDWR {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.unmapLocked()
	a.maps = a.c.Host.Maps()
}

// unmapLocked notes that this is over.
func (a *Appender) unmapLocked() {
	if a.maps {
		a.maps = false
		a.c.Host.MapsNoMore()
	}
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
