package fs

import (
	"slices"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
)

// trimmer makes the kernel forget names when descriptors run short: each inode
// that the kernel remembers costs one. It begins when half of what the limit
// allows is used, and drops names of files that nobody has open, which the
// kernel answers with FORGET. Directories are left to the kernel, which knows in which
// ones somebody works (FUSE_NOTIFY_PRUNE, since Linux 6.18; before that they stay).
// Where that does not suffice, lookups fail with ENFILE.
type trimmer struct {
	f      *FS
	wanted chan struct{}
}

// trimPause lets the FORGETs arrive before the inodes are counted again.
const trimPause = 2 * time.Millisecond

// trimRetries is how often a lookup without a descriptor waits for trimPause.
const trimRetries = 10

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
		for _, v := range t.f.idleNames(t.f.maxInodes / 4) {
			if !t.f.isMountpoint(v.dir, v.name) {
				t.f.forgetName(v.dir, v.name)
			}
			t.f.unpin(v.dir)
		}
		t.pruneDirs()
		select {
		case <-t.f.done:
			return
		case <-time.After(trimPause):
		}
	}
}

// pruner is a kernel that can be told which inodes to forget if nobody uses them.
type pruner interface {
	PruneNotify(nodes []uint64) fuse.Status
}

// maxPruned is how many inodes one notification tells of.
const maxPruned = 4096

// pruneDirs makes the kernel forget directories in which nobody works. One that has others
// below it that the kernel remembers goes the next time.
func (t *trimmer) pruneDirs() {
	p, ok := t.f.srv.(pruner)
	if !ok {
		return
	}
	for ids := range slices.Chunk(t.f.idleDirs(t.f.maxInodes/4), maxPruned) {
		if p.PruneNotify(ids) != fuse.OK {
			return
		}
	}
}

// idleDirs lists directories that hold nothing for us.
func (f *FS) idleDirs(limit int) []uint64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	var out []uint64
	for id, k := range f.nodes {
		if k.in.isDir() && k.in.pins == 0 && k.nlookup > 0 && id != fuse.FUSE_ROOT_ID {
			if out = append(out, id); len(out) >= limit {
				break
			}
		}
	}
	return out
}

// idleNames lists names of files that nobody has open, their directories
// pinned.
func (f *FS) idleNames(limit int) []place {
	f.mu.Lock()
	defer f.mu.Unlock()
	var out []place
	for _, n := range f.inodes {
		if n.parent == nil || n.isDir() || n.isOpenLocked() || n.sess != nil || n.shadow != nil || n.fd < 0 || n.live {
			continue
		}
		n.parent.pins++
		out = append(out, place{dir: n.parent, name: n.dentry.Name()})
		if len(out) >= limit {
			break
		}
	}
	return out
}
