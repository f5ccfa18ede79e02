package fs

import (
	"path"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"latchfs/fs/rewalk"
	"latchfs/lockmgr/proc"
)

// The kernel finds a file by its name, and then asks to open what it has found. If the
// file is renamed in between, the OPEN arrives at a file that has another name than the
// one that the program gave: what the program reads would be noted under a name that it
// never opened, and what it replaces would be judged by that. Such a thread walks again,
// and arrives by the name that its program gave, or at another file.
//
// A file that was renamed lately is opened by its new name nearly always. So the name is
// asked of the thread, for the kernel walks no more than twice, and the second time may
// be needed to lead the thread to its session.

// recentRename is what is kept with a file that was renamed, as long as a thread may be on
// its way to it by an earlier name. It is guarded by FS.mu.
type recentRename struct {
	at   time.Time
	tick uint64         // a thread that has started later was not on its way
	lost []dkey         // the names that the file has had lately
	came map[int32]dkey // by which of them a thread has come that is about to read it
}

// maxLost bounds how many names are remembered.
const maxLost = 8

// newRename is for noteRenamedLocked, which cannot ask what time it is.
func (f *FS) newRename() recentRename {
	return recentRename{at: time.Now(), tick: f.proc.Now().Tick, came: map[int32]dkey{}}
}

// noteRenamedLocked notes that n has just lost a name to get another one. FS.mu is held.
func (f *FS) noteRenamedLocked(n *inode, lost dkey, r recentRename) {
	if n == nil || !n.isRegular() || f.knowledge == nil {
		return
	}
	if was := n.renamed; was != nil {
		r.lost = was.lost[max(0, len(was.lost)-maxLost+1):]
	}
	r.lost = append(slices.Clone(r.lost), lost)
	n.renamed = &r
}

// regainedLocked notes that n has the name that it has: who comes by that is not astray,
// whether or not n has been without it meanwhile. FS.mu is held.
func (n *inode) regainedLocked() {
	if r := n.renamed; r != nil && slices.Contains(r.lost, n.keyLocked()) {
		r.lost = slices.DeleteFunc(slices.Clone(r.lost), func(k dkey) bool { return k == n.keyLocked() })
	}
}

// lostNameOf is the name that n has lost lately by which the caller comes to it.
func (f *FS) lostNameOf(c *caller, n *inode) (lost dkey, ok bool) {
	f.mu.Lock()
	r := n.renamed
	if r != nil && time.Since(r.at) > rewalk.KeptFor {
		n.renamed, r = nil, nil
	}
	f.mu.Unlock()
	if r == nil || c.tid == 0 || c.start > r.tick {
		return dkey{}, false
	}
	given, ok := f.proc.GivenPath(uint32(c.tid))
	if !ok {
		return dkey{}, false
	}
	if lost, ok = f.lostAs(n, r, &given); !ok || f.leadsNow(&given, n) {
		return dkey{}, false
	}
	return lost, true
}

// lostAs is the name that n has lost which a path that was given is, as far as its last
// names tell.
func (f *FS) lostAs(n *inode, r *recentRename, given *proc.Given) (lost dkey, ok bool) {
	dir, name := path.Split(path.Clean(given.Path))
	f.mu.Lock()
	defer f.mu.Unlock()
	now, is := n.namedLocked()
	for _, k := range slices.Backward(r.lost) {
		if k.name == name && (name != is || f.leadsToLocked(dir, given, k.knownDir(), now)) {
			return k, true
		}
	}
	return dkey{}, false
}

// leadsNow reports whether a path that was given leads to n now: the name that n has lost may
// be one of a symbolic link to it since, or a further name of it.
func (f *FS) leadsNow(given *proc.Given, n *inode) bool {
	from := ""
	if !path.IsAbs(given.Path) {
		f.mu.Lock()
		dir := f.inodes[inoKey{f.dev, given.Ino}]
		known := dir != nil && given.Dev == f.mountDev && dir.dentry != nil
		if known {
			from = dir.pathLocked()
		}
		f.mu.Unlock()
		if !known {
			return false
		}
	}
	to, ok := f.root().Follow(f.opts.Mountpoint, from, given.Path)
	if !ok {
		return false
	}
	if to == f.nodePath(n) {
		return true
	}
	st, found, e := f.root().Stat(nil, to)
	return found && e == 0 && n.key == inoKey{uint64(st.Dev), st.Ino}
}

// leadsToLocked reports whether the directory of a path that was given is one, and not
// the other one, as far as its last name tells. FS.mu is held.
func (f *FS) leadsToLocked(dir string, given *proc.Given, one, other *inode) bool {
	switch {
	case one == nil || one == other:
		return false
	case dir == "":
		return given.Dev == f.mountDev && one.key == inoKey{f.dev, given.Ino}
	}
	name := path.Base(dir)
	return one.dentry.Name() == name && (other == nil || other.dentry.Name() != name)
}

// comesAstray answers a request on n by a caller who comes by a name that n has lost since
// the kernel looked it up: ESTALE makes the kernel walk again, and whoever arrives at n
// again comes by a name that leads there. If n is renamed once more before the second walk
// ends, a caller who is about to replace it is refused, and what one reads who is about to
// read it is noted under the name that it gave.
func (f *FS) comesAstray(c *caller, n *inode, replaces bool) unix.Errno {
	lost, ok := f.lostNameOf(c, n)
	switch {
	case !ok || f.hasWalkedSince(c, n):
		return 0
	case !f.walks.Repeated(c):
		return f.staleAt(c, n)
	case replaces:
		return f.refuseWith(c, opOpen, f.nodePath(n), unix.EBUSY,
			"The file was renamed several times while the program was opening it",
			"Run the command again.")
	}
	f.mu.Lock()
	if n.renamed != nil {
		n.renamed.came[c.tid] = lost
	}
	f.mu.Unlock()
	return 0
}

// hasWalkedSince reports whether the caller was told to walk again after n was renamed last.
func (f *FS) hasWalkedSince(c *caller, n *inode) bool {
	w := f.walks.Get(c)
	if w == nil || w.Op == opWait {
		return false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return n.renamed != nil && w.Since().After(n.renamed.at)
}

// isRenamed reports whether n was renamed lately.
func (f *FS) isRenamed(n *inode) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return n.renamed != nil
}

// nameReadLocked is the name by which a thread has come to n, to read it. FS.mu is held.
func (f *FS) nameReadLocked(n *inode, tid uint32) (*inode, string) {
	if n.renamed != nil {
		if by, ok := n.renamed.came[int32(tid)]; ok {
			delete(n.renamed.came, int32(tid))
			return by.knownDir(), by.name
		}
	}
	return n.namedLocked()
}
