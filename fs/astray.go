package fs

import (
	"path"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"latchfs/fs/rewalk"
	"latchfs/fs/syscalls"
	"latchfs/lockmgr/proc"
)

// astray finds out that a caller was led to a name that has changed hands since the kernel
// walked there, and makes the kernel walk again.
type astray struct {
	walks   *walks
	strayed *rewalk.Strangers[dkey] // callers that cannot be told apart, and were told to walk again

	callers *callers
	disk    *disk
	nodes   *nodes
	reports *reports
	rules   *rules
}

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
// its way to it by an earlier name. It is guarded by nodes.mu.
type recentRename struct {
	at   time.Time
	tick uint64         // a thread that has started later was not on its way
	lost []dkey         // the names that the file has had lately
	came map[int32]dkey // by which of them a thread has come that is about to read it
}

// maxLost bounds how many names are remembered.
const maxLost = 8

// newRename is for noteRenamedLocked, which cannot ask what time it is.
func (as *astray) newRename() recentRename {
	return recentRename{at: time.Now(), tick: as.callers.proc.Now().Tick, came: map[int32]dkey{}}
}

// noteRenamedLocked notes that n has just lost a name to get another one. nodes.mu is held.
func (as *astray) noteRenamedLocked(n *inode, lost dkey, r recentRename) {
	if n == nil || !n.isRegular() || as.rules.knowledge == nil {
		return
	}
	if was := n.renamed; was != nil {
		r.lost = was.lost[max(0, len(was.lost)-maxLost+1):]
	}
	r.lost = append(slices.Clone(r.lost), lost)
	n.renamed = &r
}

// regainedLocked notes that n has the name that it has: who comes by that is not astray,
// whether or not n has been without it meanwhile. nodes.mu is held.
func (n *inode) regainedLocked() {
	if r := n.renamed; r != nil && slices.Contains(r.lost, n.keyLocked()) {
		r.lost = slices.DeleteFunc(slices.Clone(r.lost), func(k dkey) bool { return k == n.keyLocked() })
	}
}

// lostNameOf is the name that n has lost lately by which the caller comes to it.
func (as *astray) lostNameOf(c *caller, n *inode) (lost dkey, ok bool) {
	as.nodes.mu.Lock()
	r := n.renamed
	if r != nil && time.Since(r.at) > rewalk.KeptFor {
		n.renamed, r = nil, nil
	}
	as.nodes.mu.Unlock()
	tid, start := c.Thread()
	if r == nil || tid == 0 || start > r.tick {
		return dkey{}, false
	}
	given, ok := as.callers.proc.GivenPath(uint32(tid))
	if !ok {
		return dkey{}, false
	}
	if lost, ok = as.lostAs(n, r, &given); !ok || as.leadsNow(&given, n) {
		return dkey{}, false
	}
	return lost, true
}

// lostAs is the name that n has lost which a path that was given is, as far as its last
// names tell.
func (as *astray) lostAs(n *inode, r *recentRename, given *proc.Given) (lost dkey, ok bool) {
	dir, name := path.Split(path.Clean(given.Path))
	as.nodes.mu.Lock()
	defer as.nodes.mu.Unlock()
	now, is := n.namedLocked()
	for _, k := range slices.Backward(r.lost) {
		if k.name == name && (name != is || as.leadsToLocked(dir, given, k.knownDir(), now)) {
			return k, true
		}
	}
	return dkey{}, false
}

// leadsNow reports whether a path that was given leads to n now: the name that n has lost may
// be one of a symbolic link to it since, or a further name of it.
func (as *astray) leadsNow(given *proc.Given, n *inode) bool {
	from := ""
	if !path.IsAbs(given.Path) {
		as.nodes.mu.Lock()
		dir := as.nodes.inodes[inoKey{as.disk.dev, given.Ino}]
		known := dir != nil && given.Dev == as.disk.mountDev && dir.dentry != nil
		if known {
			from = dir.pathLocked()
		}
		as.nodes.mu.Unlock()
		if !known {
			return false
		}
	}
	to, ok := as.disk.root().Follow(as.disk.opts.Mountpoint, from, given.Path)
	if !ok {
		return false
	}
	if to == as.nodes.nodePath(n) {
		return true
	}
	st, found, e := as.disk.root().Stat(nil, to)
	return found && e == 0 && n.key == inoKey{uint64(st.Dev), st.Ino}
}

// leadsToLocked reports whether the directory of a path that was given is one, and not
// the other one, as far as its last name tells. nodes.mu is held.
func (as *astray) leadsToLocked(dir string, given *proc.Given, one, other *inode) bool {
	switch {
	case one == nil || one == other:
		return false
	case dir == "":
		return given.Dev == as.disk.mountDev && one.key == inoKey{as.disk.dev, given.Ino}
	}
	name := path.Base(dir)
	return one.dentry.Name() == name && (other == nil || other.dentry.Name() != name)
}

// comesAstray answers a request on n by a caller who comes by a name that n has lost since
// the kernel looked it up: ESTALE makes the kernel walk again, and whoever arrives at n
// again comes by a name that leads there. If n is renamed once more before the second walk
// ends, a caller who is about to replace it is refused, and what one reads who is about to
// read it is noted under the name that it gave.
func (as *astray) comesAstray(c *caller, n *inode, replaces bool) unix.Errno {
	lost, ok := as.lostNameOf(c, n)
	switch {
	case !ok || as.hasWalkedSince(c, n):
		return 0
	case !as.walks.Repeated(c):
		return as.staleAt(c, n)
	case replaces:
		return as.reports.refuseWith(c, opOpen, as.nodes.nodePath(n), unix.EBUSY,
			"The file was renamed several times while the program was opening it",
			"Run the command again.")
	}
	as.nodes.mu.Lock()
	if n.renamed != nil {
		tid, _ := c.Thread()
		n.renamed.came[tid] = lost
	}
	as.nodes.mu.Unlock()
	return 0
}

// hasWalkedSince reports whether the caller was told to walk again after n was renamed last.
func (as *astray) hasWalkedSince(c *caller, n *inode) bool {
	w := as.walks.Get(c)
	if w == nil || w.Op == opWait {
		return false
	}
	as.nodes.mu.Lock()
	defer as.nodes.mu.Unlock()
	return n.renamed != nil && w.Since().After(n.renamed.at)
}

// isRenamed reports whether n was renamed lately.
func (as *astray) isRenamed(n *inode) bool {
	as.nodes.mu.Lock()
	defer as.nodes.mu.Unlock()
	return n.renamed != nil
}

// nameReadLocked is the name by which a thread has come to n, to read it. nodes.mu is held.
func (as *astray) nameReadLocked(n *inode, tid uint32) (*inode, string) {
	if n.renamed != nil {
		if by, ok := n.renamed.came[int32(tid)]; ok {
			delete(n.renamed.came, int32(tid))
			return by.knownDir(), by.name
		}
	}
	return n.namedLocked()
}

// staleAt answers ESTALE to a caller who shall find another inode under n's
// name. It is remembered, because the kernel walks only once more.
func (as *astray) staleAt(c *caller, n *inode) unix.Errno {
	return as.staleUnder(c, as.nodes.nameKey(n))
}

// staleUnder is staleAt where it is known by which name the caller has come.
func (as *astray) staleUnder(c *caller, name dkey) unix.Errno {
	if name.dir != nil && c.TID() != 0 {
		as.walks.Put(c, &walk{promise: promise{Op: opStale, At: [2]dkey{name}}})
	}
	return unix.ESTALE
}

// isLateAt reports whether the caller has found n by a name that another file has got since, and
// walks again if it is told to: a save, for which the file is the same, has replaced n. A call on a
// descriptor means n.
func (as *astray) isLateAt(c *caller, n *inode) bool {
	return as.meansName(c, n) && !as.walks.Repeated(c)
}

// meansName reports whether the caller has found n by a name that another file has got since.
func (as *astray) meansName(c *caller, n *inode) bool {
	if c.TID() == 0 || !n.isRegular() || !as.nodes.isReplaced(n) {
		return false // before /proc is asked: that is seldom so
	}
	call, known := c.Syscall()
	return known && syscalls.SetsByName(call)
}

// staleLocked notes that the caller of w is on its way to the name again. nodes.mu is held.
func (as *astray) staleLocked(w *walk) {
	if dir := w.At[0].knownDir(); dir != nil {
		d := as.nodes.dentries.Get(dir.dentry, w.At[0].name)
		d.State.stale++
		w.stale = append(w.stale, d)
	}
}
