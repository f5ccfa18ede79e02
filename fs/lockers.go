package fs

import (
	"maps"
	"slices"

	"latchfs/lockmgr"
)

// client is who may have locks through a handle: an open file description or, by
// fcntl, a process.
type client struct {
	class lockmgr.Class
	id    uint64
}

// rememberLock keeps with the handle who locked through it, and one of the locks:
// the key under which they can be undone may change with the file's name.
func (h *handle) rememberLock(l *lockmgr.Lock) {
	r := l.Request()
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.locks == nil {
		h.locks = map[client][]*lockmgr.Lock{}
	}
	c := client{r.Class, r.Client}
	h.locks[c] = append(slices.DeleteFunc(h.locks[c], func(o *lockmgr.Lock) bool { return !o.Held() }), l)
}

// noteClient remembers that the client is about to lock through h.
func (f *FS) noteClient(h *handle, c client) {
	f.ends.Lock()
	defer f.ends.Unlock()
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.locks == nil {
		h.locks = map[client][]*lockmgr.Lock{}
	}
	if _, ok := h.locks[c]; !ok {
		h.locks[c] = nil
	}
}

// lockKeys are the keys under which the client may hold locks through h.
func (h *handle) lockKeys(now lockmgr.Key, c client) []lockmgr.Key {
	h.mu.Lock()
	defer h.mu.Unlock()
	keys := []lockmgr.Key{now}
	for _, l := range h.locks[c] {
		if k := l.Keys(); len(k) > 0 && !slices.Contains(keys, k[0]) {
			keys = append(keys, k[0])
		}
	}
	return keys
}

// forget drops the client from the handle. RELEASE comes late: by then the
// process may have locked the file again, through another descriptor.
func (h *handle) forget(c client) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.locks, c)
}

// clients are who has locked through h.
func (h *handle) clients() []client {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Collect(maps.Keys(h.locks))
}

func (h *handle) knows(c client) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	_, ok := h.locks[c]
	return ok
}

// unlockPosix drops the POSIX locks of a process that closes a descriptor of
// the node: any descriptor (fcntl(2)).
func (f *FS) unlockPosix(n *inode, id uint64) {
	f.mu.Lock()
	posix := n.posix
	f.mu.Unlock()
	if !posix {
		return
	}
	c := client{lockmgr.Posix, id}
	now := f.clientKey(n, lockmgr.Posix)
	f.table.ReleaseClient(now, lockmgr.Posix, id)
	for _, h := range f.handlesOf(n) {
		for _, k := range h.lockKeys(now, c) {
			f.table.ReleaseClient(k, lockmgr.Posix, id)
		}
		h.forget(c)
		h.announceEnd()
	}
}

func (f *FS) handlesOf(n *inode) []*handle {
	return f.handlesWhere(func(h *handle) bool { return h.n == n })
}

// handlesWhere lists the handles of which is, called with mu held, is true.
func (f *FS) handlesWhere(is func(*handle) bool) []*handle {
	f.mu.Lock()
	defer f.mu.Unlock()
	var out []*handle
	for _, h := range f.handles {
		if is(h) {
			out = append(out, h)
		}
	}
	return out
}

// unlockHandle drops what was locked through a handle that is released: flock
// and open file description locks end with it. What the client has locked through
// another handle stays: it is a process, which nobody told us has closed h
// (h.noFlush); or the kernel has given the number of the open file to another one
// already.
func (f *FS) unlockHandle(h *handle) {
	for _, c := range h.clients() {
		keys := h.lockKeys(f.clientKey(h.n, c.class), c)
		f.ends.Lock()
		for _, k := range keys {
			if !f.locksElsewhere(h, c, k) {
				f.table.ReleaseClient(k, c.class, c.id)
			}
		}
		h.forget(c)
		f.ends.Unlock()
	}
	h.announceEnd()
}

// locksElsewhere reports whether the client locks k through another handle than h,
// whose close will be told; that may be another version of the file.
func (f *FS) locksElsewhere(h *handle, c client, k lockmgr.Key) bool {
	if c.class == lockmgr.Flock {
		return false
	}
	return slices.ContainsFunc(f.handlesWhere(func(o *handle) bool { return o.n.posix }), func(o *handle) bool {
		return o != h && o.knows(c) && slices.Contains(o.lockKeys(f.clientKey(o.n, c.class), c), k)
	})
}
