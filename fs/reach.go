package fs

import (
	"latchfs/fs/disclosure"
	"latchfs/fs/reach"
	"latchfs/journal/history"
)

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
	r := disclosure.ReachOf(func(yield func(int) bool) {
		for _, n := range chain {
			if !yield(f.fdOf(n)) {
				return
			}
		}
	})
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, n := range chain {
		f.unpinLocked(n)
	}
	return r
}

// noteReach adds to the record of kept bytes who could reach the file that they were
// meant for, and whether that has an ACL; fd holds the bytes, with the file's rights.
func (f *FS) noteReach(meta map[string]any, dir *inode, fd int) {
	if reach.HasACL(fd) {
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
