package fs

import (
	"slices"

	"latchfs/fs/markers"
	"latchfs/lockmgr/policy"

	"golang.org/x/sys/unix"
)

// A directory that holds the marker of a database is live with all below it (the
// policy's live-if); package markers looks for them.

// openMarkers makes what finds the markers of the policy in the data directory.
func (f *FS) openMarkers() {
	f.rules.markers = markers.New(markers.Config{
		Markers: func() []string { return f.rules.policy.Markers() }, IsShown: visible,
		Open: func(dir string) (int, bool) {
			fd, e := f.disk.root().OpenDir(dir)
			return fd, e == 0
		},
	})
}

// markerMoved notes that names have come or gone through the mount: a directory may
// have become a database's, or ceased to be one.
func (cm *commits) markerMoved(names ...string) {
	if slices.ContainsFunc(names, cm.rules.policy.MayMark) {
		cm.markersMoved()
	}
}

// markersMoved is markerMoved for whatever names, as a directory's move brings them.
func (cm *commits) markersMoved() {
	cm.rules.markers.Forget()
	cm.nodes.mu.Lock()
	open := len(cm.nodes.sessions) > 0
	cm.nodes.mu.Unlock()
	if open {
		go cm.liveInDatabases() // it commits, which the caller's locks forbid
	}
}

// liveInDatabases makes the files live that are being written in directories which
// have become a database's: whoever opens one from now on does not wait for a close.
func (cm *commits) liveInDatabases() {
	cm.nodes.mu.Lock()
	all := make([]*session, 0, len(cm.nodes.sessions))
	for s := range cm.nodes.sessions {
		if !s.over {
			all = append(all, s)
		}
	}
	cm.nodes.mu.Unlock()
	for _, s := range all {
		path := s.path()
		set := cm.rules.policy.For(path)
		if set.Mode == policy.Atomic && cm.rules.inDatabase(path, &set) {
			if e := cm.autoLive(s, "a directory above holds the files of a database"); e != 0 {
				cm.disk.log.Warnf("%q is in the directory of a database and cannot become live before its close: %v", path, e)
			}
		}
	}
}

// carryMoved is followLive for a directory that was renamed, or has changed places with
// something else.
func (cm *commits) carryMoved(r *renaming) {
	a, b := cm.nodes.path(r.from.dir, r.from.name), cm.nodes.path(r.to.dir, r.to.name)
	cm.markersMoved()
	cm.live.carryBelow(b)
	if r.flags&unix.RENAME_EXCHANGE != 0 {
		cm.live.carryBelow(a)
		cm.live.carryLive(r.from.inode, b)
		cm.live.carryLive(r.to.inode, a)
	}
}

// followLive notes under the names of these changes whether what they hold now went live under
// the name from which it came.
func (cm *commits) followLive(list []*change) {
	list = slices.DeleteFunc(slices.Clone(list), func(ch *change) bool { return ch.By.Session() != "" || ch.InPlace })
	names := make([]changedName, len(list))
	for i, ch := range list {
		names[i] = ch.Name.(changedName)
	}
	cm.nodes.mu.Lock()
	by, was := make([]liveBy, len(list)), make([]liveBy, len(list))
	for i, ch := range list {
		was[i] = cm.nodes.nameLocked(names[i].dir, names[i].name).live
		if ch.Is != nil && ch.Other != nil {
			other := ch.Other.Name.(changedName)
			by[i] = cm.nodes.nameLocked(other.dir, other.name).live
		}
		if by[i] == liveByUse && cm.live.endUseLocked(ch.Is) {
			by[i] = notLive
		}
	}
	for i, n := range names {
		cm.nodes.setLiveNameLocked(n.dir, n.name, by[i])
	}
	cm.nodes.mu.Unlock()
	for i, ch := range list {
		cm.live.forgetLive(ch.Path)
		if was[i] == liveByUse && by[i] == notLive {
			cm.live.replacedLive(ch)
		}
	}
	for i, ch := range list {
		cm.markerMoved(names[i].name)
		if ch.Is != nil && ch.Other != nil {
			cm.live.carryLive(cm.nodes.inodeFor(ch.Is), ch.Path)
		}
	}
}
