package fs

import (
	"time"

	"golang.org/x/sys/unix"

	"latchfs/lockmgr/knowledge"
	"latchfs/lockmgr/policy"
)

// Live is a property of the open file, too: a descriptor that was opened on a live
// file writes straight into that file, whatever its name is by then. A file that is
// renamed to a name which is not live stays live until the last of these descriptors
// is closed: a service goes on writing the log that logrotate has renamed. So does a file
// that was made without a name, by the descriptors that it had before it got one.

// setLive makes h a descriptor of a live file. A file that is live for another reason
// than its name may have versions from before, and may be an ordinary one again: from
// now on it changes without them.
func (f *FS) setLive(h *handle) {
	f.mu.Lock()
	n := h.n
	h.live = true
	if h.writes() {
		n.liveWriters++
	}
	dir, carried := n.parent, n.carried
	f.mu.Unlock()
	if !h.writes() || dir == nil || carried {
		return
	}
	f.paths.RLock()
	defer f.paths.RUnlock()
	path := f.nodePath(n)
	if f.policy.For(path).Mode != policy.Atomic {
		return
	}
	f.changed(n, true)
	f.forgetLive(path)
}

// forgetLive drops what is known of the versions of a path that changes without them:
// it is live, but not by its name, and may have been an ordinary file before.
func (f *FS) forgetLive(path string) {
	key := knowledge.Key(path)
	if f.knowledge == nil || !f.knowledge.Tracks(key) || f.policy.For(path).Mode != policy.Atomic {
		return
	}
	if f.liveBy(path) != liveByHandle && f.settings(path).Mode == policy.Live {
		f.knowledge.Forget(key)
	}
}

// closeLiveLocked ends that. It returns whether the inode has ceased to be live with it.
// f.mu is held.
func (h *handle) closeLiveLocked() (ended bool) {
	if !h.live || !h.writes() {
		return false
	}
	n := h.n
	n.liveWriters--
	return n.liveWriters == 0 && n.carried
}

// carryLive keeps the file n live that has got the name path, if it has descriptors
// from a live name. Where it is open to append records, its versions go on growing
// under the name.
func (f *FS) carryLive(n *inode, path string) {
	if n == nil || !n.isRegular() || f.versionSettings(path).Mode != policy.Atomic {
		return
	}
	f.mu.Lock()
	if n.liveWriters > 0 && !n.live {
		n.live, n.carried = true, true
	}
	if n.carried {
		d := f.names.GetAt(path)
		f.setLiveLocked(d, liveByHandle)
		f.names.Put(d)
	}
	grows := n.carried || f.versions.IsGrowing(n.onDisk())
	f.mu.Unlock()
	if grows {
		f.changed(n, true)
	}
}

// carryFirst is carryLive for a file that has got its first name (O_TMPFILE): whoever has it
// open to write writes straight into it, and is beside every session.
func (f *FS) carryFirst(n *inode, path string) {
	f.mu.Lock()
	for _, h := range f.handles {
		if h.n == n && h.kind == plainHandle && h.writes() && !h.live {
			h.live = true
			n.liveWriters++
		}
	}
	f.mu.Unlock()
	f.carryLive(n, path)
}

// carryBelow is carryLive for all files below a directory that was renamed.
func (f *FS) carryBelow(dir string) {
	type file struct {
		n    *inode
		path string
	}
	var list []file
	f.mu.Lock()
	for _, h := range f.handles {
		if (h.live || h.kind == appendHandle) && h.writes() && h.n.parent != nil {
			list = append(list, file{h.n, h.n.dentry.Path()})
		}
	}
	f.mu.Unlock()
	for _, x := range list {
		if isBelow(x.path, dir) {
			f.carryLive(x.n, x.path)
		}
	}
}

// carryMoved is the same for a directory that was renamed, or has changed places with
// something else.
func (f *FS) carryMoved(r *renaming) {
	a, b := f.path(r.from.dir, r.from.name), f.path(r.to.dir, r.to.name)
	f.markersMoved()
	f.carryBelow(b)
	if r.flags&unix.RENAME_EXCHANGE != 0 {
		f.carryBelow(a)
		f.carryLive(r.from.inode, b)
		f.carryLive(r.to.inode, a)
	}
}

func isBelow(path, dir string) bool {
	return len(path) > len(dir) && path[:len(dir)] == dir && path[len(dir)] == '/'
}

// leaveCarried notes that a file which was live by its descriptors has left the name
// path, where it has been a version that others may know.
func (f *FS) leaveCarried(c *caller, op, path string) {
	if f.liveBy(path) != liveByHandle || f.knowledge == nil {
		return
	}
	if key := knowledge.Key(path); f.knowledge.Tracks(key) {
		set := f.policy.For(path)
		who, _ := c.learners(&set)
		f.knowledge.Changed(time.Now(), key, knowledge.Stamp{}, who, c.author(op))
	}
}

// endCarried makes n a file like any other, after the close of its last live
// descriptor. What was written through them belongs to the version that was there
// when it got its name.
func (f *FS) endCarried(n *inode) {
	f.paths.RLock()
	defer f.paths.RUnlock()
	f.mu.Lock()
	if n.liveWriters > 0 || !n.carried {
		f.mu.Unlock()
		return
	}
	n.live, n.carried = false, false
	path, d, fd := n.pathLocked(), n.dentry, n.fd
	if d == nil {
		f.mu.Unlock()
		return
	}
	f.names.Ref(d)
	f.mu.Unlock()
	defer f.putName(d)
	var st unix.Stat_t
	if key, ok := f.named(n); !ok || key != n.key || unix.Fstat(fd, &st) != nil {
		return // the name is another file's
	}
	f.versions.Is(path, &st, false)
	if f.knowledge != nil {
		key := knowledge.Key(path)
		if _, was := f.knowledge.Current(key); was.Ino == st.Ino {
			f.knowledge.Restamp(key, was, stampOfFile(&st))
		}
	}
	f.mu.Lock()
	f.setLiveLocked(d, notLive)
	f.mu.Unlock()
}
