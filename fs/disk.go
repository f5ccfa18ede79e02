package fs

import (
	"os"
	"strconv"
	"sync"
	"sync/atomic"

	"latchfs/fs/asuser"
	"latchfs/fs/datadir"
	"latchfs/fs/mounts"
	"latchfs/fs/reach"
	"latchfs/fs/submounts"
	"latchfs/fs/sys"
	"latchfs/fs/versions"
	"latchfs/journal"
	"latchfs/journal/commit"

	"golang.org/x/sys/unix"
)

// disk is what lies below: the data directory, the filesystem that it is on, and what the
// daemon keeps there (the store of shadows, the journal, the history, the tokens).
type disk struct {
	fault       func(step string) error // see commit.Store.SetFault; set by simulations
	opts        Options
	log         Logger
	journal     *journal.Journal // nil when mounted read-only
	store       *commit.Store
	versions    *versions.Recorder // enters changes of names into the history; nil when mounted read-only
	passthrough bool               // the kernel reads and writes backing files itself, where we let it
	mounts      *mounts.Watch
	submounts   submounts.Table
	dir         *datadir.Dir
	rootfd      int // O_PATH on the data directory
	procfd      int // /proc/self/fd
	state       *os.File
	stateKey    inoKey // its inode, whatever a name that leads there looks like
	privileged  bool   // root: files can be given to their creators
	dev         uint64 // the data directory's device
	mountDev    uint64 // the mount's device
	mountID     int
	serial      atomic.Uint64
	tokenMu     sync.Mutex    // held while tokens are reserved on disk
	tokenLimit  atomic.Uint64 // tokens below are reserved on disk
}

func (dk *disk) asUser(uid, gid uint32, do func() error) error {
	if !dk.privileged {
		return do()
	}
	return asuser.Identity{UID: uid, GID: gid}.Do(do)
}

// inoFor is the inode number shown for a backing inode.
func (dk *disk) inoFor(dev, ino uint64) uint64 {
	if dev == dk.dev {
		return ino
	}
	return dk.submounts.Number(dev, ino)
}

// shortOfSpace reports whether the backing filesystem is so full that a write
// may fail: then writes go through the daemon, which sees that.
func (dk *disk) shortOfSpace() bool {
	var st unix.Statfs_t
	if unix.Fstatfs(dk.rootfd, &st) != nil {
		return true
	}
	return st.Bavail*uint64(st.Bsize) < lowSpace
}

// isFull reports whether so little is left for a user's files that a write which
// was passed through has most likely failed for that.
func (dk *disk) isFull(uid uint32) bool {
	var st unix.Statfs_t
	if unix.Fstatfs(dk.rootfd, &st) != nil || st.Bavail*uint64(st.Bsize) >= lowSpace {
		return false
	}
	if st.Bfree < fullBlocks || uid != 0 && st.Bavail < fullBlocks {
		return true
	}
	return !dk.hasRoom(uid)
}

// hasRoom reports whether a user's write would find space now. Filesystems keep free
// blocks to themselves that statfs counts, and refuse a write as a whole when only
// a part of it would fit.
func (dk *disk) hasRoom(uid uint32) bool {
	fd, err := unix.Openat(int(dk.state.Fd()), ".", unix.O_TMPFILE|unix.O_WRONLY|unix.O_CLOEXEC, 0o600)
	if err == nil {
		defer unix.Close(fd)
		err = dk.asUser(uid, uid, func() error { return unix.Fallocate(fd, 0, 0, largeWrite) })
	}
	return !isNoRoom(err)
}

// isNearlyFull reports whether so little is left, be it of blocks or of inodes, that even a
// small change may have failed for that.
func (dk *disk) isNearlyFull() bool {
	var st unix.Statfs_t
	if unix.Fstatfs(dk.rootfd, &st) != nil {
		return false
	}
	return st.Bavail*uint64(st.Bsize) < smallRoom || st.Files > 0 && st.Ffree < fullBlocks
}

// discard gives a shadow back that is published, kept or not needed.
func (dk *disk) discard(sh *commit.Shadow) {
	if err := sh.Discard(); err != nil {
		dk.log.Warnf("cannot remove a shadow: %v", err)
	}
}

// retryWithRoom runs a change again that found no room, as long as some can be
// made.
func (dk *disk) retryWithRoom(do func() error) error {
	for {
		err := do()
		if !isNoRoom(err) || !dk.store.GiveRoom(err) {
			return err
		}
	}
}

// smallTries is how often versions are given up, about a MiB at a time, for a change that takes
// next to nothing.
const smallTries = 8

// retrySmall is retryWithRoom for a change that takes next to nothing: of names, or of
// attributes. Filesystems refuse some of those as if they were full (an attribute that is
// longer than a block, a directory that cannot grow), and a quota may be one that no version
// counts against: neither is to cost the whole history.
func (dk *disk) retrySmall(do func() error) error {
	for range smallTries {
		err := do()
		switch {
		case !isNoRoom(err), errnoOf(err) == unix.ENOSPC && !dk.isNearlyFull():
			return err
		case !dk.store.GiveRoom(err):
			return err
		}
	}
	return do()
}

// makeAs runs a change that takes next to nothing on behalf of the caller.
func (dk *disk) makeAs(c *caller, do func() error) error {
	return dk.retrySmall(func() error { return c.As(do) })
}

// allocate is fallocate(2) on fd, on behalf of the sender.
func (dk *disk) allocate(fd int, in *AllocRequest) error {
	return dk.asUser(in.UID, in.GID, func() error {
		return unix.Fallocate(fd, in.Mode, int64(in.Offset), int64(in.Length))
	})
}

// root is the data directory.
func (dk *disk) root() reach.Root { return reach.Root{FD: dk.rootfd} }

// tokenBlock is how many fencing tokens are reserved on disk at once.
const tokenBlock = 1 << 16

// coverToken makes sure that a token in use is below what a crash would
// remember as issued.
func (dk *disk) coverToken(token uint64) error {
	if token+tokenBlock/2 <= dk.tokenLimit.Load() {
		return nil
	}
	dk.tokenMu.Lock()
	defer dk.tokenMu.Unlock()
	for token+tokenBlock/2 > dk.tokenLimit.Load() {
		first, err := dk.journal.ReserveTokens(tokenBlock)
		if err != nil {
			return err
		}
		dk.tokenLimit.Store(first + tokenBlock)
	}
	return nil
}

// smallRoom is the free space, in bytes, with which a small change does not fail for want of it.
const smallRoom = 1 << 20

// largeWrite is how much programs write at most in one call, or nearly so.
const largeWrite = 16 << 20

// fullBlocks are how many blocks, or inodes, a filesystem may have left when it refuses more.
const fullBlocks = 16

// lowSpace is the free space below which writes are not passed through.
const lowSpace = 256 << 20

// procName names what a descriptor of ours refers to, relative to disk.procfd.
func procName(fd int) string { return strconv.Itoa(fd) }

// procSelf is the path of a descriptor's inode.
func procSelf(fd int) string { return sys.Self(fd) }
