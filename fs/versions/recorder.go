package versions

import (
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"latchfs/fs/reach"
	"latchfs/journal/commit"
	"latchfs/journal/history"
	"latchfs/lockmgr/policy"
)

// Config is what a Recorder stands on.
type Config struct {
	History  *history.Store
	Contents Contents
	Root     reach.Root // of the data
	Engine   Engine
	Since    time.Time     // when the mount has begun
	Grace    time.Duration // how long a close may take until the kernel tells of it
}

// Engine is the filesystem.
type Engine interface {
	// HasWriters reports whether somebody has an inode open to write it: by a descriptor that has
	// outlived a session's commit, or one that appends.
	HasWriters(in commit.Inode) bool
	// OnlyKept is told that the history has the only name which an inode has left.
	OnlyKept(in commit.Inode)
	// Bypassed is told that somebody has changed a file outside the mount.
	Bypassed(path string, size int64)
}

// Contents moves what the history keeps; see commit.Store.
type Contents interface {
	PutBack(id string, dir int, name string) error
	Unshare(id string) (kept bool, err error)
}

// Name is a name in the data.
type Name struct {
	Path string // from the root
	Dir  int    // descriptor of its directory
	Base string // in that
	// Reach says who can reach the name. It is asked where something is to be kept.
	Reach func() history.Reach
}

// stat looks at what has the name; nil is nothing.
func (n *Name) stat() *unix.Stat_t {
	var st unix.Stat_t
	if unix.Fstatat(n.Dir, n.Base, &st, unix.AT_SYMLINK_NOFOLLOW) != nil {
		return nil
	}
	return &st
}

// Recorder enters the versions of files into the history. What happens to one path is told
// in its order.
type Recorder struct {
	c Config

	mu      sync.Mutex // guards what follows
	growing map[commit.Inode]int
}

// New makes a Recorder of a history that is open.
func New(c Config) *Recorder { return &Recorder{c: c, growing: map[commit.Inode]int{}} }

// Close closes the history.
func (r *Recorder) Close() error {
	if r == nil {
		return nil
	}
	return r.c.History.Close()
}

// Keeps reports whether the versions of a path with these settings are recorded.
func (r *Recorder) Keeps(set *policy.Settings) bool {
	return r != nil && set.Mode == policy.Atomic && set.History > 0
}

// HasFile reports whether a path holds a file, as far as the history knows.
func (r *Recorder) HasFile(path string) bool {
	if r == nil {
		return false
	}
	_, _, ok := r.c.History.Last(path)
	return ok
}

// GiveRoom gives space back, and reports whether there was any to give: earlier versions go
// before a write of today is refused.
func (r *Recorder) GiveRoom() bool {
	const atOnce = 1 << 20
	return r != nil && r.c.History.Free(atOnce) > 0
}

// Moved tells that a directory has got another path, or has changed places with another.
func (r *Recorder) Moved(from, to string, exchanged bool) {
	if r != nil {
		r.c.History.Moved(from, to, exchanged)
	}
}

// Changed tells that the file which a path holds was changed by us without a new version,
// and is the one behind fd. While it is loose it goes on changing.
func (r *Recorder) Changed(path string, fd int, loose bool) {
	var st unix.Stat_t
	if r != nil && unix.Fstat(fd, &st) == nil {
		r.Is(path, &st, loose)
	}
}

// Rested is Changed for a file to which nobody appends any more. Whoever tells that has no lock of
// it: a file that is shorter than its version is just being cut by somebody else, who enters a
// version of that.
func (r *Recorder) Rested(path string, fd int) {
	var st unix.Stat_t
	if r == nil || unix.Fstat(fd, &st) != nil {
		return
	}
	if is, _, known := r.c.History.Last(path); known && is.Ino == st.Ino && st.Size < is.Size {
		return
	}
	r.Is(path, &st, false)
}

// Is is Changed for the file st.
func (r *Recorder) Is(path string, st *unix.Stat_t, loose bool) {
	if r != nil {
		r.c.History.Changed(path, st.Ino, history.StateOf(st), loose)
	}
}

// Restamped tells that the version which a path holds was the file before and is the file
// after: another inode, or one with other times.
func (r *Recorder) Restamped(path string, before, after *unix.Stat_t) {
	if r != nil {
		r.c.History.Changed(path, before.Ino, history.StateOf(after), false)
	}
}

// Recovered tells what a recovery has put into the history while the mount was there.
func (r *Recorder) Recovered(report commit.Report) {
	for _, in := range report.Kept {
		path := in.Name
		if in.Dir != "" {
			path = in.Dir + "/" + in.Name
		}
		r.c.History.Keep(path, history.Ref{Content: in.Keep}, anyNumber)
	}
}

// anyNumber stands for the policy where that is asked the next time.
const anyNumber = 1 << 30

// Pin keeps a version until release is called. See history.Store.
func (r *Recorder) Pin(path string, number uint64) (release func(), ok bool) {
	if r == nil {
		return nil, false
	}
	return r.c.History.Pin(path, number)
}

// Forget erases the contents of those versions of a path that are chosen. See history.Store.
func (r *Recorder) Forget(path string, chosen func(*history.Version) bool) (versions int, bytes int64, err error) {
	if r == nil {
		return 0, 0, nil
	}
	return r.c.History.Forget(path, chosen)
}
