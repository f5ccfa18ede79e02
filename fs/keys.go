package fs

import (
	"path"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"latchfs/fs/lockkey"
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
	if f.isLivePath(path) || f.inDatabase(path, &set) {
		set.Mode = policy.Live
	}
	if db, ok := policy.Sidecar(path); ok && (f.isLivePath(db) || f.policy.For(db).Mode == policy.Live) {
		set.Mode = policy.Live
	}
	return set
}

// versionSettings are the settings for what is recorded of a path's versions. A file
// that is live by its descriptors alone is a version under its name, which grows. One
// in the directory of a database may be a version from before: that it leaves its name
// is recorded.
func (f *FS) versionSettings(path string) policy.Settings {
	set := f.policy.For(path)
	if set.Mode != policy.Atomic || f.liveBy(path) == liveByHandle {
		return set
	}
	if f.versions != nil && f.liveBy(path) == notLive && f.inDatabase(path, &set) && f.versions.HasFile(path) {
		return set
	}
	return f.settings(path)
}

// fileDemand asks for the exclusive lock on names and on the inodes that have
// other names too, which all share one key.
func (f *FS) fileDemand(c *caller, op string, wait time.Duration, places ...place) *demand {
	d := &demand{c: c, op: op, mode: lockmgr.Exclusive, class: lockmgr.Session, wait: wait, places: places}
	if len(places) > 0 {
		d.path = f.path(places[0].dir, places[0].name)
	}
	if t := f.txnOf(c); t != nil {
		id := t.identity()
		d.owner, d.lineage, d.since = &id.owner, t.forebears(c), id.since
	}
	if op == opOpen || op == opCreate {
		set := f.settings(d.path)
		d.ttl, d.yields = set.TTL, set.OnStale == policy.StealStale
	}
	return d
}

// keysOf are the lock table's names for places: the paths, and for inodes with
// several names the one key that all of them share.
func (f *FS) keysOf(places []place) []lockmgr.Key {
	keys := make([]lockmgr.Key, 0, len(places)+1)
	for _, p := range places {
		keys = f.appendNames(keys, f.path(p.dir, p.name))
		var st unix.Stat_t
		err := unix.Fstatat(f.fdOf(p.dir), p.name, &st, unix.AT_SYMLINK_NOFOLLOW)
		ino := inoKey{uint64(st.Dev), st.Ino}
		if err == nil && st.Mode&unix.S_IFMT == unix.S_IFREG && st.Nlink > 1 {
			keys = append(keys, ino.lockKey())
		}
		if p.inode != nil && (err != nil || p.inode.key != ino) {
			// The operation arrived at an inode that has lost this name.
			if k, ok := f.linkKey(p.inode); ok {
				keys = append(keys, k)
			}
		}
	}
	return keys
}

// keysOfTarget are the lock table's names for a target.
func (f *FS) keysOfTarget(t *lockkey.Target) (keys, trees []lockmgr.Key) {
	for _, p := range t.Paths {
		keys = f.appendNames(keys, p)
		dir, e := f.root().OpenParent(nil, p)
		if e != 0 {
			continue
		}
		var st unix.Stat_t
		err := unix.Fstatat(dir, path.Base(p), &st, unix.AT_SYMLINK_NOFOLLOW)
		// The locks that programs take by themselves on a live file are its inode's.
		live := f.isLivePath(p) || f.settings(p).Mode == policy.Live
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
func (f *FS) appendNames(keys []lockmgr.Key, path string) []lockmgr.Key {
	keys = append(keys, lockmgr.Key(path))
	if shared := f.policy.LockName(path); shared != path {
		keys = append(keys, lockmgr.Key(shared))
	}
	return keys
}

// relock changes the session's lock to that of its new name, where the policy
// makes files share locks: Rekey moves a path alone. c, who renamed the file, has
// both names.
func (s *session) relock(c *caller, p place) {
	f := s.f
	if !f.policy.MapsNames() {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	old := s.lock.Request()
	have := old.Keys
	want := f.keysOf([]place{p})
	if s.state.HasEnded() || len(want) == len(have) && !slices.ContainsFunc(want, func(k lockmgr.Key) bool { return !slices.Contains(have, k) }) {
		return
	}
	l, err := s.lockLike(c, old, want)
	if err != nil {
		f.log.Warnf("%q keeps the lock of its former name: %v", f.path(p.dir, p.name), err)
		return
	}
	was := s.lock
	s.lock = l
	f.table.Release(was)
}

// covers reports whether a lock is still the one that the demand needs. While
// it was waited for its keys may have been renamed, and the names may have come
// to lead to an inode with several.
func (f *FS) covers(l *lockmgr.Lock, d *demand) bool {
	if d.places == nil && d.target == nil && d.claim == nil {
		return true
	}
	f.ns.RLock()
	defer f.ns.RUnlock()
	have := l.Keys()
	keys := f.keysOf(d.places)
	if t := d.asked(); t != nil {
		var trees []lockmgr.Key
		keys, trees = f.keysOfTarget(t)
		keys = append(keys, trees...)
	}
	for _, k := range keys {
		if !slices.Contains(have, k) {
			return false
		}
	}
	return true
}

// linkKey is the key of an inode with several names.
func (f *FS) linkKey(n *inode) (lockmgr.Key, bool) {
	if !n.isRegular() {
		return "", false
	}
	var st unix.Stat_t
	if unix.Fstat(f.fdOf(n), &st) != nil || st.Nlink < 2 {
		return "", false
	}
	return f.inodeKey(n), true
}

// inodeKey names an inode in the lock table, beside all paths.
func (f *FS) inodeKey(n *inode) lockmgr.Key { return n.key.lockKey() }

func (k inoKey) lockKey() lockmgr.Key { return lockkey.Inode(k.dev, k.ino) }
