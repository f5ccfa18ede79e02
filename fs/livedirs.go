package fs

import (
	"slices"

	"latchfs/fs/markers"
	"latchfs/fs/reach"
	"latchfs/lockmgr/policy"
)

// A directory that holds the marker of a database is live with all below it (the
// policy's live-if); package markers looks for them.

// openMarkers makes what finds the markers of the policy in the data directory.
func (f *FS) openMarkers() {
	f.markers = markers.New(markers.Config{
		Markers: func() []string { return f.policy.Markers() }, IsShown: visible,
		Open: func(dir string) (int, bool) {
			fd, e := f.root().OpenDir(dir)
			return fd, e == 0
		},
	})
}

// inDatabase reports whether a directory above the path holds one of the markers
// in its settings.
func (f *FS) inDatabase(path string, set *policy.Settings) bool {
	if len(set.LiveIf) == 0 {
		return false
	}
	found := f.markers.At(reach.Dir(path))
	return slices.ContainsFunc(found, func(m string) bool { return slices.Contains(set.LiveIf, m) })
}

// markerMoved notes that names have come or gone through the mount: a directory may
// have become a database's, or ceased to be one.
func (f *FS) markerMoved(names ...string) {
	if slices.ContainsFunc(names, f.policy.MayMark) {
		f.markersMoved()
	}
}

// markersMoved is markerMoved for whatever names, as a directory's move brings them.
func (f *FS) markersMoved() {
	f.markers.Forget()
	f.mu.Lock()
	open := len(f.sessions) > 0
	f.mu.Unlock()
	if open {
		go f.liveInDatabases() // it commits, which the caller's locks forbid
	}
}

// liveInDatabases makes the files live that are being written in directories which
// have become a database's: whoever opens one from now on does not wait for a close.
func (f *FS) liveInDatabases() {
	f.mu.Lock()
	all := make([]*session, 0, len(f.sessions))
	for s := range f.sessions {
		if !s.over {
			all = append(all, s)
		}
	}
	f.mu.Unlock()
	for _, s := range all {
		path := s.path()
		set := f.policy.For(path)
		if set.Mode == policy.Atomic && f.inDatabase(path, &set) {
			if e := s.autoLive("a directory above holds the files of a database"); e != 0 {
				f.log.Warnf("%q is in the directory of a database and cannot become live before its close: %v", path, e)
			}
		}
	}
}
