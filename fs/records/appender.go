package records

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"latchfs/fs/account"
	"latchfs/fs/appends"
	"latchfs/fs/unfinished"
	"latchfs/lockmgr"
)

// Config is what an Appender is.
type Config struct {
	Host  Host
	Procs Procs
	Book  *account.Book // of what users make the daemon keep
	Own   ID            // the file that was opened
	Flags uint32        // of its open(2)
	UID   uint32        // the user who opened it
	Owner lockmgr.Owner // the process that did
}

func (c *Config) syncFlags() uint32 { return c.Flags & (unix.O_SYNC | unix.O_DSYNC) }

// Appender is a descriptor that was opened with O_APPEND.
type Appender struct {
	c     Config
	room  *Room
	queue *appends.Queue     // what was given and not appended
	in    atomic.Pointer[ID] // the file that it appends to; nil: it has not appended yet

	mu       sync.Mutex // guards what follows
	fd       int        // of the file that had the name last; -1: none so far
	id       ID         // its identity
	named    bool       // it has the name, as was seen last: it may have been removed, with nothing in its place
	tail     Tail
	seq      uint64 // the last record appended to it
	unsynced bool   // and it is not known to be on disk
	stored   bool   // nor is what was stored through a mapping of the descriptor's own file
	records  int    // appended since the last close
	bytes    int
	open     unfinished.Record // the line that the last record has left unfinished
	grows    ID                // the file that the host knows to grow
	maps     bool              // the host knows that the opened file may change through a mapping
	used     time.Time         // when its program last did something with it
	usedID   ID                // and with which file, as far as is known
	refused  refusedCut        // the last cut, if it was refused
}

// New enters an appender into the room.
func (r *Room) New(c Config) *Appender {
	a := &Appender{c: c, room: r, fd: -1, used: time.Now(), usedID: c.Own}
	a.queue = appends.New(appends.Config{End: (*end)(a), Book: c.Book, UID: c.UID, Synced: c.syncFlags() != 0})
	r.enter(a)
	return a
}

// Owner is the process that opened it.
func (a *Appender) Owner() lockmgr.Owner { return a.c.Owner }

// IsFree reports whether nobody has a mutex of the appender's at this moment. A simulation
// stops a goroutine only where others need nothing of what it holds.
func (a *Appender) IsFree() bool {
	if !a.queue.IsFree() || !a.mu.TryLock() {
		return false
	}
	a.mu.Unlock()
	return true
}

// Write takes data, and appends what ends in a newline now or as soon as the lock is free.
// What follows a cut that was refused is refused as well, and kept aside: it was meant to
// replace what is still there.
func (a *Appender) Write(w appends.Writer, data [][]byte) (int, unix.Errno) {
	a.mu.Lock()
	e := a.refused.answer()
	if e == 0 {
		a.used = time.Now()
	}
	a.mu.Unlock()
	if e != 0 {
		a.c.Host.Keep(slices.Concat(data...), e, afterRefusedCut)
		return 0, e
	}
	return a.queue.Write(w, data)
}

// Locked notes that the program has got a lock of the file: what it cuts from now on it cuts
// from the file as it is now, whatever others have saved while it waited.
func (a *Appender) Locked() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.used, a.refused = time.Now(), refusedCut{}
}

// Drain waits until everything that it was given is in the file and, if the policy asks for
// that, on disk.
func (a *Appender) Drain() unix.Errno {
	e := a.queue.Drain()
	if a.c.Host.SyncsAtClose() {
		if late := a.Sync(); e == 0 {
			e = late
		}
	}
	a.report()
	return e
}

// report tells what was appended since the last time: in one word for each close, not for
// each line of a log.
func (a *Appender) report() {
	a.mu.Lock()
	records, size := a.records, a.bytes
	a.records, a.bytes = 0, 0
	a.restLocked()
	a.mu.Unlock()
	if records > 0 {
		a.c.Host.Committed(records, size)
	}
}

// Close gives the file back.
func (a *Appender) Close() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.unsynced = false // whoever wanted to know was told
	a.unmapLocked()
	a.leaveLocked()
}
