package fs

import (
	"slices"

	"latchfs/fs/markers"
	"latchfs/fs/reach"
	"latchfs/lockmgr"
	"latchfs/lockmgr/knowledge"
	"latchfs/lockmgr/policy"

	"golang.org/x/sys/unix"
)

// rules says which settings hold for a path and by which keys the lock table knows it, and has
// the tables that they feed: of locks, and of what was read.
type rules struct {
	policy    *policy.Policy
	table     lockmgr.Authority
	knowledge *knowledge.Table // who has read what; nil when mounted read-only
	markers   *markers.Finder  // of databases

	disk  *disk
	nodes *nodes
}

// settings are the policy's for a path. What a database keeps beside it is live
// whenever the database is.
func (ru *rules) settings(path string) policy.Settings {
	set := ru.policy.For(path)
	if set.Mode != policy.Atomic {
		return set
	}
	if ru.nodes.isLivePath(path) || ru.inDatabase(path, &set) {
		set.Mode = policy.Live
	}
	if db, ok := policy.Sidecar(path); ok && (ru.nodes.isLivePath(db) || ru.policy.For(db).Mode == policy.Live) {
		set.Mode = policy.Live
	}
	return set
}

// versionSettings are the settings for what is recorded of a path's versions. A file
// that is live by its descriptors alone is a version under its name, which grows. One
// in the directory of a database may be a version from before: that it leaves its name
// is recorded.
func (ru *rules) versionSettings(path string) policy.Settings {
	set := ru.policy.For(path)
	if set.Mode != policy.Atomic || ru.nodes.liveBy(path) == liveByHandle {
		return set
	}
	if ru.disk.versions != nil && ru.nodes.liveBy(path) == notLive && ru.inDatabase(path, &set) && ru.disk.versions.HasFile(path) {
		return set
	}
	return ru.settings(path)
}

// renamedSettings are versionSettings for the names of a rename. A file that is live by its use
// had a version before, and what a rename puts in its place is one.
func (ru *rules) renamedSettings(path string) policy.Settings {
	if ru.nodes.liveBy(path) == liveByUse {
		if set := ru.policy.For(path); !ru.inDatabase(path, &set) {
			return set
		}
	}
	return ru.versionSettings(path)
}

// inDatabase reports whether a directory above the path holds one of the markers
// in its settings.
func (ru *rules) inDatabase(path string, set *policy.Settings) bool {
	if len(set.LiveIf) == 0 {
		return false
	}
	found := ru.markers.At(reach.Dir(path))
	return slices.ContainsFunc(found, func(m string) bool { return slices.Contains(set.LiveIf, m) })
}

// isAutoLive reports whether the file went live by what its users do with it.
func (ru *rules) isAutoLive(n *inode) bool {
	ru.nodes.mu.Lock()
	defer ru.nodes.mu.Unlock()
	return n.live
}

// isLive reports whether the file under n's name is a live one.
func (ru *rules) isLive(n *inode) bool {
	parent, name := ru.nodes.nameOf(n)
	return parent != nil && (ru.settings(ru.nodes.path(parent, name)).Mode == policy.Live || ru.isAutoLive(n))
}

// wentLive reports whether the file that has the name by now is a live one.
func (ru *rules) wentLive(st *unix.Stat_t) bool {
	n := ru.nodes.inodeFor(st)
	return n != nil && ru.isAutoLive(n)
}
