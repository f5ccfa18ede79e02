package fs

import (
	"slices"

	"golang.org/x/sys/unix"

	"latchfs/fs/access"
	"latchfs/journal/history"
)

// maxGates bounds what is noted of the directories above a content that is kept. Where
// there are more it is its owner's alone.
const maxGates = 8

// shut is a gate that nobody passes.
var shut = history.Gate{UID: nobodysUID, GID: nobodysUID}

// reachOf notes who can reach the names in dir: which of the directories from there up
// to the root not everybody may search.
func (f *FS) reachOf(dir *inode) history.Reach {
	var chain []*inode
	f.mu.Lock()
	for n := dir; n != nil; n = n.parent {
		n.pins++
		chain = append(chain, n)
	}
	f.mu.Unlock()
	r := history.Reach{Known: true}
	for _, n := range chain {
		g, open := gateOf(f.fdOf(n))
		if open || slices.Contains(r.Gates, g) {
			continue
		}
		if r.Gates = append(r.Gates, g); len(r.Gates) > maxGates {
			r.Gates = []history.Gate{shut}
			break
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, n := range chain {
		f.unpinLocked(n)
	}
	return r
}

// gateOf says who may search a directory, and whether everybody may. One with an ACL
// only its owner passes: the ACL may change before anybody asks.
func gateOf(fd int) (g history.Gate, open bool) {
	const search = 0o111
	var st unix.Stat_t
	if unix.Fstat(fd, &st) != nil {
		return shut, false
	}
	g = history.Gate{UID: st.Uid, GID: st.Gid, Mode: st.Mode & search}
	if hasACL(fd) {
		g.GID, g.Mode = nobodysUID, st.Mode&0o100
		return g, false
	}
	return g, g.Mode == search
}

// couldReach reports whether the viewer could reach what is said to have been so.
func (l *look) couldReach(r history.Reach) bool {
	return r.Known && !slices.ContainsFunc(r.Gates, func(g history.Gate) bool {
		return !l.User().May(access.Search, &access.File{UID: g.UID, GID: g.GID, Mode: g.Mode})
	})
}

// noteReach adds to the record of kept bytes who could reach the file that they were
// meant for, and whether that has an ACL; fd holds the bytes, with the file's rights.
func (f *FS) noteReach(meta map[string]any, dir *inode, fd int) {
	if hasACL(fd) {
		meta["acl"] = true
	}
	if dir == nil {
		return
	}
	gates := [][3]uint32{}
	for _, g := range f.reachOf(dir).Gates {
		gates = append(gates, [3]uint32{g.UID, g.GID, g.Mode})
	}
	meta["dirs"] = gates
}
