package fs

import (
	"latchfs/fs/disclosure"
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
