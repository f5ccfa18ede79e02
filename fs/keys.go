package fs

import (
	"path"
	"slices"

	"golang.org/x/sys/unix"

	"latchfs/fs/lockkey"
	"latchfs/lockmgr"
	"latchfs/lockmgr/policy"
)

// keysOf are the lock table's names for places: the paths, and for inodes with
// several names the one key that all of them share.
func (ru *rules) keysOf(places []place) []lockmgr.Key {
	keys := make([]lockmgr.Key, 0, len(places)+1)
	for _, p := range places {
		keys = ru.appendNames(keys, ru.nodes.path(p.dir, p.name))
		var st unix.Stat_t
		err := unix.Fstatat(ru.nodes.fdOf(p.dir), p.name, &st, unix.AT_SYMLINK_NOFOLLOW)
		ino := inoKey{uint64(st.Dev), st.Ino}
		if err == nil && st.Mode&unix.S_IFMT == unix.S_IFREG && st.Nlink > 1 {
			keys = append(keys, ino.lockKey())
		}
		if p.inode != nil && (err != nil || p.inode.key != ino) {
			// The operation arrived at an inode that has lost this name.
			if k, ok := ru.linkKey(p.inode); ok {
				keys = append(keys, k)
			}
		}
	}
	return keys
}

// keysOfTarget are the lock table's names for a target.
func (ru *rules) keysOfTarget(t *lockkey.Target) (keys, trees []lockmgr.Key) {
	for _, p := range t.Paths {
		keys = ru.appendNames(keys, p)
		dir, e := ru.disk.root().OpenParent(nil, p)
		if e != 0 {
			continue
		}
		var st unix.Stat_t
		err := unix.Fstatat(dir, path.Base(p), &st, unix.AT_SYMLINK_NOFOLLOW)
		// The locks that programs take by themselves on a live file are its inode's.
		live := ru.nodes.isLivePath(p) || ru.settings(p).Mode == policy.Live
		if err == nil && st.Mode&unix.S_IFMT == unix.S_IFREG && (st.Nlink > 1 || live) {
			keys = append(keys, inoKey{uint64(st.Dev), st.Ino}.lockKey())
		}
		unix.Close(dir)
	}
	for _, n := range t.Names {
		keys = append(keys, lockkey.Name(n))
	}
	for _, p := range t.Trees {
		trees = append(trees, lockmgr.Key(p))
	}
	return keys, trees
}

// appendNames appends the keys of a path: itself, and the one that the policy
// makes it share with other files. Its own is what a tree lock above meets.
func (ru *rules) appendNames(keys []lockmgr.Key, path string) []lockmgr.Key {
	keys = append(keys, lockmgr.Key(path))
	if shared := ru.policy.LockName(path); shared != path {
		keys = append(keys, lockmgr.Key(shared))
	}
	return keys
}

// covers reports whether a lock is still the one that the demand needs. While
// it was waited for its keys may have been renamed, and the names may have come
// to lead to an inode with several.
func (ru *rules) covers(l *lockmgr.Lock, d *demand) bool {
	if d.places == nil && d.target == nil && d.claim == nil {
		return true
	}
	ru.nodes.ns.RLock()
	defer ru.nodes.ns.RUnlock()
	t := d.asked()
	return isOnAll(l, ru.keysOf(d.places)) && (t == nil || ru.isOnTarget(l, t))
}

// isOnTarget reports whether a lock is on all that a target is.
func (ru *rules) isOnTarget(l *lockmgr.Lock, t *lockkey.Target) bool {
	keys, trees := ru.keysOfTarget(t)
	return isOnAll(l, keys) && isOnAll(l, trees)
}

func isOnAll(l *lockmgr.Lock, keys []lockmgr.Key) bool {
	have := l.Keys()
	return !slices.ContainsFunc(keys, func(k lockmgr.Key) bool { return !slices.Contains(have, k) })
}

// linkKey is the key of an inode with several names.
func (ru *rules) linkKey(n *inode) (lockmgr.Key, bool) {
	if !n.isRegular() {
		return "", false
	}
	var st unix.Stat_t
	if unix.Fstat(ru.nodes.fdOf(n), &st) != nil || st.Nlink < 2 {
		return "", false
	}
	return ru.inodeKey(n), true
}

// inodeKey names an inode in the lock table, beside all paths.
func (ru *rules) inodeKey(n *inode) lockmgr.Key { return n.key.lockKey() }

func (k inoKey) lockKey() lockmgr.Key { return lockkey.Inode(k.dev, k.ino) }
