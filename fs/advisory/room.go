package advisory

import (
	"sync"
	"sync/atomic"

	"latchfs/lockmgr"
	"latchfs/lockmgr/policy"
)

// Config is what a Room stands on.
type Config struct {
	Engine Engine
	Table  lockmgr.Authority
	Policy *policy.Policy // which files share locks, and which lock files stand for others
	Procs  Procs
	Logf   func(format string, args ...any) // for debugging
	Done   <-chan struct{}                  // closed when no process is watched any more
}

// Client is who may have locks: an open file or, by fcntl(2), a process.
type Client struct {
	Class lockmgr.Class
	ID    uint64
}

// Inode is what is kept with an inode. Its zero value is that of one of which nobody has
// locked bytes.
type Inode struct{ bytes atomic.Bool }

// HasBytesLocked reports whether somebody has ever locked a range of bytes of the inode:
// the kernel has to tell of the closes of what is opened from then on.
func (in *Inode) HasBytesLocked() bool { return in.bytes.Load() }

// Room has the locks of all programs of a mount.
type Room struct {
	c Config

	// ends is held while a client is about to lock through a file, and while the locks of
	// those end who have locked through a file that is released.
	ends sync.Mutex

	mu    sync.Mutex // guards what follows, and the lockers
	files map[uint64]*lockers
}

// lockers are those who have locked through a file that is open.
type lockers struct {
	file    File
	locks   map[Client][]*lockmgr.Lock // of each client; it may have none yet, or no more
	watched map[Client]bool            // processes whose end is watched
	ended   chan struct{}              // closed when locks end with the file, if somebody waits
}

// New makes a room in which nobody has locked anything.
func New(c Config) *Room { return &Room{c: c, files: map[uint64]*lockers{}} }

// IsFree reports whether nobody has a mutex of the room's at this moment. A simulation
// stops a goroutine only where others need nothing of what it holds.
func (r *Room) IsFree() bool {
	for _, m := range []*sync.Mutex{&r.ends, &r.mu} {
		if !m.TryLock() {
			return false
		}
		m.Unlock()
	}
	return true
}

// Len is how many open files there are through which somebody has locked.
func (r *Room) Len() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.files)
}

// IsLocked reports whether somebody locks through a file, or has tried to.
func (r *Room) IsLocked(f File) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	ls := r.files[f.ID()]
	return ls != nil && len(ls.locks) > 0
}
