package records

import (
	"golang.org/x/sys/unix"

	"latchfs/fs/appends"
	"latchfs/fs/sys"
)

func idOf(st *unix.Stat_t) ID { return ID{Dev: uint64(st.Dev), Ino: st.Ino} }

// followLocked makes a.fd the file that has the descriptor's name now, be it the one that was
// opened or its successor; a file without a name is kept.
func (a *Appender) followLocked() unix.Errno {
	host := a.c.Host
	dir, name, ok := host.Name()
	var st unix.Stat_t
	named := ok && unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW) == nil && st.Mode&unix.S_IFMT == unix.S_IFREG
	if named && idOf(&st) != a.c.Own && !host.IsReplaced() {
		named = false
	}
	if named && a.fd >= 0 && a.id == idOf(&st) {
		a.named = true
		return 0
	}
	id, next := a.c.Own, host.Own()
	if named {
		// Whoever changes the directory outside the mount may give the name to
		// another file at any time: what is asked about is what is written to.
		found, err := unix.Openat(dir, name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		if err != nil {
			return sys.Errno(err)
		}
		defer unix.Close(found)
		if named = a.mayFollow(found, &st); named {
			id, next = idOf(&st), found
		}
	}
	if a.fd >= 0 && id == a.id {
		a.named = named
		return 0
	}
	fd, err := host.Reopen(next, unix.O_RDWR|unix.O_APPEND|int(a.c.syncFlags()))
	if err != nil {
		return sys.Errno(err)
	}
	return a.goOnLocked(fd, id, named)
}

// goOnLocked makes fd the file to which records go, in the place of what a.fd was.
func (a *Appender) goOnLocked(fd int, id ID, named bool) unix.Errno {
	tail, err := a.c.Host.Tail(fd)
	if err != nil {
		unix.Close(fd)
		return sys.Errno(err)
	}
	e := a.leaveLocked()
	a.fd, a.id, a.tail, a.named = fd, id, tail, named
	a.in.Store(&id)
	return e
}

// OpenNow opens the file before anything is written: the right to open it may be taken away later
// (chmod(2)), and the open(2) has granted that. The errno is that of the open(2), where the file or
// its filesystem does not let anybody write: a shell tells of an open that fails, and not of a
// close. Of all else the first write tells. made is a descriptor of the file to read and write it, if
// it was made by that open(2), or -1: its mode may not let anybody open it again. The appender
// closes it.
func (a *Appender) OpenNow(made int) unix.Errno {
	a.mu.Lock()
	defer a.mu.Unlock()
	open := a.followLocked
	if made >= 0 {
		open = func() unix.Errno {
			if _, err := unix.FcntlInt(uintptr(made), unix.F_SETFL, unix.O_APPEND); err != nil {
				unix.Close(made)
				return sys.Errno(err)
			}
			return a.goOnLocked(made, a.c.Own, true)
		}
	}
	switch e := open(); e {
	case unix.EROFS, unix.EPERM, unix.ETXTBSY:
		return e
	default:
		return 0
	}
}

// Following is the file to which records would be appended now, and whether it has the name.
func (a *Appender) Following() (id ID, named bool, e unix.Errno) {
	a.mu.Lock()
	defer a.mu.Unlock()
	e = a.followLocked()
	return a.id, a.named, e
}

// mayFollow reports whether the appender goes on in the file behind fd, which has
// the name now: its own, or one that took the place of that and that its opener may write, and
// read if that is how it opened. st becomes what that file is like.
func (a *Appender) mayFollow(fd int, st *unix.Stat_t) bool {
	if unix.Fstat(fd, st) != nil || st.Mode&unix.S_IFMT != unix.S_IFREG {
		return false
	}
	return idOf(st) == a.c.Own || a.c.Host.IsReplaced() && a.c.Host.MayOpen(fd)
}

// leaveLocked gives the file back that the appender has written to so far.
func (a *Appender) leaveLocked() (e unix.Errno) {
	if a.fd < 0 {
		return 0
	}
	if a.unsynced && a.c.Host.SyncsAtClose() {
		e = sys.Errno(a.tail.Sync(a.seq))
		a.unsynced = false
	}
	a.tail.Close()
	unix.Close(a.fd)
	a.fd, a.tail = -1, nil
	return e
}

// Follows is the file that it appends to, or has appended to; the zero ID if it has not
// appended yet.
func (a *Appender) Follows() ID {
	if id := a.in.Load(); id != nil {
		return *id
	}
	return ID{}
}

// ReadFile is a descriptor of the file to read and sync, which the caller closes: meanwhile
// the appender may go on to a newer version. Who reads sees what he wrote.
func (a *Appender) ReadFile() (int, unix.Errno) {
	a.queue.Flush(appends.Late)
	a.mu.Lock()
	defer a.mu.Unlock()
	if e := a.followLocked(); e != 0 {
		return -1, e
	}
	fd, err := unix.FcntlInt(uintptr(a.fd), unix.F_DUPFD_CLOEXEC, 0)
	return fd, sys.Errno(err)
}

// Stat finds out what the file is like that records would be appended to now.
func (a *Appender) Stat(st *unix.Stat_t) (ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.followLocked() == 0 && unix.Fstat(a.fd, st) == nil
}

// EndsAt reports whether the file ends at that place to which records go, if it is another
// one than was opened.
func (a *Appender) EndsAt(place uint64) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	var st unix.Stat_t
	return a.fd >= 0 && a.id != a.c.Own && unix.Fstat(a.fd, &st) == nil && uint64(st.Size) == place
}
