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

// newRename begins the note that noteRenamedLocked makes. It asks /proc for the time, which
// must not be done while nodes.mu is held.
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

// regainedLocked notes that n has the name that it has: a caller that comes by this name is not
// astray, even if n has lost it and got it back meanwhile. nodes.mu is held.
func (n *inode) regainedLocked() {
	if r := n.renamed; r != nil && slices.Contains(r.lost, n.keyLocked()) {
		r.lost = slices.DeleteFunc(slices.Clone(r.lost), func(k dkey) bool { return k == n.keyLocked() })
	}
}

// lostNameOf returns the name by which the caller comes to n, if n has lost that name lately.
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

// lostAs returns which of the names that n has lost a given path is, as far as the last two
// names of the path tell.
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

// leadsNow reports whether a given path leads to n now: the name that n has lost may have become
// the name of a symbolic link to it, or a further name of it.
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

// leadsToLocked reports whether dir, the directory of a given path, is was and not now, as far
// as its last name tells. nodes.mu is held.
func (as *astray) leadsToLocked(dir string, given *proc.Given, was, now *inode) bool {
	switch {
	case was == nil || was == now:
		return false
	case dir == "":
		return given.Dev == as.disk.mountDev && was.key == inoKey{as.disk.dev, given.Ino}
	}
	name := path.Base(dir)
	return was.dentry.Name() == name && (now == nil || now.dentry.Name() != name)
}

// comesAstray answers a request on n by a caller that comes by a name which n has lost since
// the kernel looked it up: ESTALE makes the kernel walk again, and a caller that then arrives
// at n again comes by a name that leads there. If n is renamed once more before the second walk
// ends, a caller that is about to replace n is refused; for one that is about to read it, the
// read is noted under the name that the caller gave.
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

// staleAt answers ESTALE to a caller that is to find another inode under n's name. The answer
// is remembered, because the kernel walks only once more.
func (as *astray) staleAt(c *caller, n *inode) unix.Errno {
	return as.staleUnder(c, as.nodes.nameKey(n))
}

// staleUnder is staleAt for a caller that has come by a known name.
func (as *astray) staleUnder(c *caller, name dkey) unix.Errno {
	if name.dir != nil && c.TID() != 0 {
		as.walks.Put(c, &walk{promise: promise{Op: opStale, At: [2]dkey{name}}})
	}
	return unix.ESTALE
}

// isLateAt reports whether a save has replaced n since the caller found it by its name, and the
// caller can still be made to walk again, to the new version. A call on a descriptor means n.
func (as *astray) isLateAt(c *caller, n *inode) bool {
	return as.meansName(c, n) && !as.walks.Repeated(c)
}

// meansName reports whether the caller has found n by a name that another file has got since,
// and means whatever has the name: its system call gives a name, and not a descriptor.
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
