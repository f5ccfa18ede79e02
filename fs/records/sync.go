package records

import (
	"cmp"

	"golang.org/x/sys/unix"

	"latchfs/fs/sys"
)

// Sync makes what was appended durable, and the name of a file that was created for it.
func (a *Appender) Sync() unix.Errno {
	a.mu.Lock()
	tail, seq, fd, unsynced := a.tail, a.seq, a.fd, a.unsynced
	a.mu.Unlock()
	if tail == nil || !unsynced {
		return 0
	}
	err := tail.Sync(seq)
	if err == nil {
		err = a.c.Host.SyncName(fd)
	}
	if err != nil {
		a.c.Host.NotDurable(err)
		return unix.EIO
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.unsynced = a.unsynced && (a.tail != tail || a.seq != seq)
	return 0
}

// Fsync is fsync(2), or fdatasync(2): what was given to the appender is on disk afterwards,
// and belongs to no unfinished line any more.
func (a *Appender) Fsync(dataOnly bool) unix.Errno {
	if e := a.Drain(); e != 0 {
		return e
	}
	if e := cmp.Or(a.Sync(), a.syncStored()); e != 0 {
		return e
	}
	a.mu.Lock()
	a.open.Forget()
	a.mu.Unlock()
	fd, e := a.ReadFile()
	if e != 0 {
		return e
	}
	defer unix.Close(fd)
	if dataOnly {
		return 0
	}
	return sys.Errno(unix.Fsync(fd))
}

// syncStored puts on disk what was stored through mappings.
func (a *Appender) syncStored() unix.Errno {
	a.mu.Lock()
	stored := a.stored
	a.stored = false
	a.mu.Unlock()
	if !stored {
		return 0
	}
	fd, e := a.c.storeFile()
	if e == 0 {
		e = sys.Errno(unix.Fdatasync(fd))
		unix.Close(fd)
	}
	if e != 0 {
		a.mu.Lock()
		a.stored = true
		a.mu.Unlock()
	}
	return e
}
