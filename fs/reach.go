package fs

import (
	"latchfs/fs/disclosure"
	"latchfs/fs/reach"
	"latchfs/fs/versions"
	"latchfs/journal/history"
)

// reachOf notes who can reach the names in dir: which of the directories from there up
// to the root not everybody may search.
func (cs *callers) reachOf(dir *inode) history.Reach {
	var chain []*inode
	cs.nodes.mu.Lock()
	for n := dir; n != nil; n = n.parent {
		n.pins++
		chain = append(chain, n)
	}
	cs.nodes.mu.Unlock()
	r := disclosure.ReachOf(func(yield func(int) bool) {
		for _, n := range chain {
			if !yield(cs.nodes.fdOf(n)) {
				return
			}
		}
	})
	cs.nodes.mu.Lock()
	defer cs.nodes.mu.Unlock()
	for _, n := range chain {
		cs.nodes.unpinLocked(n)
	}
	return r
}

// versionName is a name as package versions needs it.
func (cs *callers) versionName(dir *inode, name, path string) versions.Name {
	return versions.Name{Path: path, Dir: cs.nodes.fdOf(dir), Base: name, Reach: func() history.Reach { return cs.reachOf(dir) }}
}

// noteReach adds to the record of kept bytes who could reach the file that they were
// meant for, and whether that has an ACL; fd holds the bytes, with the file's rights.
func (cs *callers) noteReach(meta map[string]any, dir *inode, fd int) {
	if reach.HasACL(fd) {
		meta["acl"] = true
	}
	if dir == nil {
		return
	}
	gates := [][3]uint32{}
	for _, g := range cs.reachOf(dir).Gates {
		gates = append(gates, [3]uint32{g.UID, g.GID, g.Mode})
	}
	meta["dirs"] = gates
}
