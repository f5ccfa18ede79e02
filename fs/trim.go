package fs

import "time"

// trimmer makes the kernel forget names when descriptors run short: each inode
// that the kernel remembers costs one. It begins when half of what the limit
// allows is used, and drops names of files that nobody has open, which the
// kernel answers with FORGET. Directories stay, for somebody may work in them.
// Where that does not suffice, lookups fail with ENFILE.
type trimmer struct {
	f      *FS
	wanted chan struct{}
}

// trimPause lets the FORGETs arrive before the nodes are counted again.
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
		for _, v := range t.f.idleNames(t.f.maxNodes / 4) {
			if !t.f.isMountpoint(v.dir, v.name) {
				t.f.srv.EntryNotify(v.dir.id, v.name)
			}
			t.f.unpin(v.dir)
		}
		select {
		case <-t.f.done:
			return
		case <-time.After(trimPause):
		}
	}
}

// idleNames lists names of files that nobody has open, their directories
// pinned.
func (f *FS) idleNames(limit int) []place {
	f.mu.Lock()
	defer f.mu.Unlock()
	var out []place
	for _, n := range f.nodes {
		if n.parent == nil || n.isDir() || n.opens > 0 || n.sess != nil || n.shadow != nil || n.fd < 0 || n.live {
			continue
		}
		n.parent.pins++
		out = append(out, place{dir: n.parent, name: n.name})
		if len(out) >= limit {
			break
		}
	}
	return out
}
