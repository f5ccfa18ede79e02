package fs

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"latchfs/lockmgr"
	"latchfs/lockmgr/policy"
)

// settings are the policy's for a path. What a database keeps beside it is live
// whenever the database is.
func (f *FS) settings(path string) policy.Settings {
	set := f.policy.For(path)
	if set.Mode != policy.Atomic {
		return set
	}
	if f.isLivePath(path) {
		set.Mode = policy.Live
	}
	if db, ok := policy.Sidecar(path); ok && (f.isLivePath(db) || f.policy.For(db).Mode == policy.Live) {
		set.Mode = policy.Live
	}
	return set
}

// fileDemand asks for the exclusive lock on names and on the inodes that have
// other names too, which all share one key.
func (f *FS) fileDemand(c *caller, op string, wait time.Duration, places ...place) *demand {
	d := &demand{c: c, op: op, mode: lockmgr.Exclusive, class: lockmgr.Session, wait: wait, places: places}
	if len(places) > 0 {
		d.path = f.path(places[0].dir, places[0].name)
	}
	return d
}

// keysOf are the lock table's names for places: the paths, and for inodes with
// several names the one key that all of them share.
func (f *FS) keysOf(places []place) []lockmgr.Key {
	keys := make([]lockmgr.Key, 0, len(places)+1)
	for _, p := range places {
		keys = append(keys, lockmgr.Key(f.path(p.dir, p.name)))
		if p.node != nil {
			if k, ok := f.linkKey(p.node); ok {
				keys = append(keys, k)
			}
		}
	}
	return keys
}

// linkKey is the key of an inode with several names.
func (f *FS) linkKey(n *node) (lockmgr.Key, bool) {
	if !n.isRegular() {
		return "", false
	}
	var st unix.Stat_t
	if unix.Fstat(f.fdOf(n), &st) != nil || st.Nlink < 2 {
		return "", false
	}
	return inodeKey(n), true
}

// inodeKey names an inode in the lock table, beside all paths.
func inodeKey(n *node) lockmgr.Key {
	return lockmgr.Key(fmt.Sprintf("//inode/%x:%d", n.key.dev, n.key.ino))
}
