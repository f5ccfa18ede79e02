package fs

import (
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// trimmer makes the kernel forget files and directories: each one that it remembers costs
// a descriptor, and memory. It begins when the kernel remembers FS.crowd of them, and takes
// those that nobody has open. The kernel knows which ones are in use all the same, a
// working directory for instance, and keeps these (FUSE_NOTIFY_PRUNE, since Linux 6.18).
// An earlier kernel is told to forget the names of files one by one, and directories stay.
// Where that does not suffice, what needs a descriptor fails with ENFILE.
type trimmer struct {
	f       *FS
	wanted  chan struct{}
	ceiling atomic.Int64 // descriptors from this number on are for what must not fail

	mu   sync.Mutex    // guards what follows
	over chan struct{} // closed when the next round is over
	told time.Time     // when somebody was last warned that there are too few descriptors
}

const (
	// maxRemembered is how many inodes the kernel may remember before the trimmer begins,
	// however many descriptors there are: with each goes about a KiB of ours, and as much
	// of the kernel's.
	maxRemembered = 1 << 16
	// trimPause is how often the inodes are counted until FORGETs arrive.
	trimPause = time.Millisecond
	// trimRest is how long they may take. They do not come if what the kernel remembers is
	// in use.
	trimRest = 100 * time.Millisecond
	// trimRetries is how often a request without a descriptor waits for a round: longer in
	// all than new files keep one until they are on the disk, which is a second.
	trimRetries = 50
	// A part of the descriptors is for commits and syncs, and for looks at processes.
	reservedPart, maxReserved = 16, 256
	// tellPause is how often somebody is warned that there are too few descriptors.
	tellPause = time.Minute
	// maxPruned is how many inodes one notification tells of.
	maxPruned = 4096
)

func newTrimmer(f *FS) *trimmer {
	t := &trimmer{f: f, wanted: make(chan struct{}, 1), over: make(chan struct{})}
	t.measure()
	return t
}

// measure looks how many descriptors there are.
func (t *trimmer) measure() {
	var l unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &l) == nil {
		n := int64(l.Cur - min(l.Cur/reservedPart, maxReserved))
		t.ceiling.Store(n)
		t.f.descriptors.SetLimits(descriptorLimits(n))
	}
}

// crowd is how many inodes make the trimmer begin.
func (f *FS) crowd() int { return min(f.maxInodes/2, maxRemembered) }

func (t *trimmer) kick() {
	select {
	case t.wanted <- struct{}{}:
	default:
	}
}

func (t *trimmer) run() {
	for {
		select {
		case <-t.f.done:
			return
		case <-t.wanted:
		}
		before := t.f.countInodes()
		t.round(t.f.crowd() / 2)
		for rest := trimRest; rest > 0 && t.f.countInodes() >= before; rest -= trimPause {
			select {
			case <-t.f.done:
				return
			case <-time.After(trimPause):
			}
		}
		t.mu.Lock()
		close(t.over)
		t.over = make(chan struct{})
		t.mu.Unlock()
	}
}

// spare does what takes a descriptor of ours. If there is none, it waits for the trimmer,
// and tries again.
func (t *trimmer) spare(open func() error) error {
	err := open()
	for try := 0; errors.Is(err, unix.EMFILE); try++ {
		if try == trimRetries {
			t.tellShort()
			return unix.ENFILE // the limit that was met is not the caller's
		}
		t.measure()
		t.mu.Lock()
		over := t.over
		t.mu.Unlock()
		t.kick()
		select {
		case <-over:
		case <-time.After(trimRest): // an earlier kernel may wait for the directory that the caller has locked
		case <-t.f.done:
		}
		err = open()
	}
	return err
}

// tellShort warns that programs are refused what they ask for, once in a while.
func (t *trimmer) tellShort() {
	t.mu.Lock()
	now := time.Now()
	again := now.Sub(t.told) >= tellPause
	if again {
		t.told = now
	}
	t.mu.Unlock()
	if again {
		t.f.log.Warnf("programs get ENFILE, for the daemon has %d descriptors, and all are in use: raise LimitNOFILE of its unit, or ulimit -n before latchfs mount", t.ceiling.Load())
	}
}

// openAt is openat(2) of what is there, for a descriptor of ours. It does not take the last
// ones.
func (t *trimmer) openAt(dirfd int, name string, flags int) (fd int, err error) {
	err = t.spare(func() (err error) {
		fd, err = unix.Openat(dirfd, name, flags|unix.O_CLOEXEC, 0)
		if err == nil && int64(fd) >= t.ceiling.Load() {
			unix.Close(fd)
			return unix.EMFILE
		}
		return err
	})
	return fd, err
}

// pruner is a kernel that can be told which inodes to forget if nobody uses them.
type pruner interface {
	PruneNotify(nodes []uint64) fuse.Status
}

// round makes the kernel forget that many files, and that many directories. A directory
// with others below it that the kernel remembers goes in a later round.
func (t *trimmer) round(limit int) {
	if p, ok := t.f.srv.(pruner); ok {
		st := fuse.OK
		for ids := range slices.Chunk(t.f.idleNodes(limit), maxPruned) {
			if st = p.PruneNotify(ids); st != fuse.OK {
				break
			}
		}
		if st != fuse.ENOSYS {
			return
		}
	}
	for _, v := range t.f.idleNames(limit) {
		if !t.f.isMountpoint(v.dir, v.name) {
			t.f.forgetName(v.dir, v.name)
		}
		t.f.unpin(v.dir)
	}
}

func (f *FS) countInodes() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.inodes)
}

// isIdleLocked reports whether we can do without what is known of n. FS.mu is held.
func (f *FS) isIdleLocked(n *inode) bool {
	if n.isDir() {
		return n.pins == 0 && !n.isRoot()
	}
	return n.parent != nil && !n.isOpenLocked() && n.sess == nil && n.shadow == nil && n.fd >= 0 && !n.live
}

// idleNodes lists the nodes of idle files, and behind them those of idle directories.
func (f *FS) idleNodes(limit int) []uint64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	var files, dirs []uint64
	for id, k := range f.nodes {
		to := &files
		if k.in.isDir() {
			to = &dirs
		}
		if len(*to) < limit && k.nlookup > 0 && f.isIdleLocked(k.in) {
			*to = append(*to, id)
		}
		if len(files) == limit && len(dirs) == limit {
			break
		}
	}
	return append(files, dirs...)
}

// idleNames lists names of idle files, their directories pinned.
func (f *FS) idleNames(limit int) []place {
	f.mu.Lock()
	defer f.mu.Unlock()
	var out []place
	for _, n := range f.inodes {
		if len(out) == limit {
			break
		}
		if n.isDir() || !f.isIdleLocked(n) {
			continue
		}
		n.parent.pins++
		out = append(out, place{dir: n.parent, name: n.dentry.Name()})
	}
	return out
}
