package fs

import (
	"slices"

	"golang.org/x/sys/unix"

	"latchfs/lockmgr"
)

// A file may have several names. The kernel tells us the one by which it was looked
// up, and may open it by another one that it has remembered: which of them the file
// has is to be known at any time.

// otherName is one of several names of a file.
type otherName struct {
	dir  *inode
	name string
	path string
}

// otherNames are the names of a file with several, as far as they have been seen, but
// the one that was seen last.
func (nm *names) otherNames(n *inode) []otherName {
	var list []otherName
	nm.nodes.mu.Lock()
	for _, k := range n.othersLocked() {
		list = append(list, otherName{k.dir, k.name, pathLocked(k.dir, k.name)})
	}
	nm.nodes.mu.Unlock()
	return slices.DeleteFunc(list, func(o otherName) bool {
		defer nm.nodes.unpin(o.dir)
		return !nm.isNameOf(n, o.dir, o.name)
	})
}

// othersLocked are n's otherNames, whether or not they are n's still, with their directories
// pinned. nodes.mu is held.
func (n *inode) othersLocked() (seen []dkey) {
	for _, d := range n.others {
		if dir := d.Parent().State.dir; dir != nil && dir.fd >= 0 {
			dir.pins++
			seen = append(seen, dkey{dir, d.Name()})
		}
	}
	return seen
}

// isNameOf reports whether a name leads to n.
func (nm *names) isNameOf(n *inode, dir *inode, name string) bool {
	var st unix.Stat_t
	err := unix.Fstatat(nm.nodes.fdOf(dir), name, &st, unix.AT_SYMLINK_NOFOLLOW)
	return err == nil && n.key == inoKey{uint64(st.Dev), st.Ino}
}

// otherPaths are the paths of n's otherNames: who changes the file changes it under
// them all.
func (nm *names) otherPaths(n *inode) []string {
	if n == nil {
		return nil
	}
	var paths []string
	for _, o := range nm.otherNames(n) {
		paths = append(paths, o.path)
	}
	return paths
}

// lostName takes note that n's inode has lost a name: if that is the one it was known
// by, another becomes that. The kernel is to ask again how many links it has. The
// lock of the names, which they share, is held.
func (nm *names) lostName(n *inode, k dkey) {
	if n == nil {
		return
	}
	if !nm.goByOther(n) {
		nm.noteUnnamed(n, k)
	}
	nm.keyByOnlyName(n)
	nm.kernel.forgetAttrs(n)
}

// keyByOnlyName lets advisory locks follow on a file that has one name left: that is their
// key from now on. Those on a live file stay its inode's.
func (nm *names) keyByOnlyName(n *inode) {
	if key, ok := nm.nodes.named(n); !ok || key != n.key || !n.isRegular() || nm.rules.isLive(n) {
		return
	}
	if _, linked := nm.rules.linkKey(n); !linked {
		nm.rekeyLink(nm.rules.inodeKey(n), lockmgr.Key(nm.nodes.nodePath(n)))
	}
}

// goByOther gives n another of its names if it does not have the one that was seen
// last, and reports whether it has.
func (nm *names) goByOther(n *inode) (other bool) {
	if key, ok := nm.nodes.named(n); !n.isRegular() || ok && key == n.key {
		return false
	}
	others := nm.otherNames(n)
	if len(others) == 0 {
		return false
	}
	to, now := others[len(others)-1], nm.astray.newRename()
	nm.nodes.mu.Lock()
	nm.renamed.Add(1)
	was := n.keyLocked()
	nm.nodes.setNameLocked(n, to.dir, to.name)
	nm.astray.noteRenamedLocked(n, was, now)
	nm.nodes.mu.Unlock()
	return true
}

// noteUnnamed notes that n has lost the name k and goes on under another, by which it was known
// already. Who is on its way to n by the name that it has lost is astray.
func (nm *names) noteUnnamed(n *inode, k dkey) {
	if key, ok := nm.nodes.named(n); !ok || key != n.key || nm.nodes.nameKey(n) == k {
		return
	}
	now := nm.astray.newRename()
	nm.nodes.mu.Lock()
	defer nm.nodes.mu.Unlock()
	nm.astray.noteRenamedLocked(n, k, now)
}

// rekeyLink lets advisory locks on a file follow when it gets another name, and when
// it gets its second name or has one left: the key of a file with several is its inode's. Where the
// policy makes names share locks they stay.
func (nm *names) rekeyLink(from, to lockmgr.Key) {
	if !nm.rules.policy.MapsNames() {
		nm.rules.table.RenameFiles(fileRename(from, to, nil))
	}
}
