package fs

import (
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"latchfs/fs/reach"
	"latchfs/lockmgr/policy"
)

// A directory that holds the marker of a database is live with all below it (the
// policy's live-if). The policy sees no disk; this file looks for the markers.

// liveDirs remembers which markers a directory has, and those above it.
type liveDirs struct {
	mu    sync.Mutex        // guards what follows
	found map[string]marked // by the path of the directory
	round uint64            // rises when what was found may have changed
}

// marked is what was found for one directory.
type marked struct {
	markers []string // its own, and those of the directories above
	at      time.Time
}

const (
	// markersHold is how long what was found is believed. Whatever changes through
	// the mount is known at once; this is for changes outside it.
	markersHold = time.Second
	// maxMarked bounds how many directories are remembered.
	maxMarked = 4096
)

func (d *liveDirs) get(dir string) (markers []string, round uint64, ok bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	m, ok := d.found[dir]
	return m.markers, d.round, ok && time.Since(m.at) < markersHold
}

// put remembers what a look found that began in the given round.
func (d *liveDirs) put(dir string, markers []string, round uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.round != round {
		return
	}
	if d.found == nil || len(d.found) >= maxMarked {
		d.found = map[string]marked{}
	}
	d.found[dir] = marked{markers, time.Now()}
}

func (d *liveDirs) forget() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.found = nil
	d.round++
}

// inDatabase reports whether a directory above the path holds one of the markers
// in its settings.
func (f *FS) inDatabase(path string, set *policy.Settings) bool {
	if len(set.LiveIf) == 0 {
		return false
	}
	found := f.markersAt(reach.Dir(path))
	return slices.ContainsFunc(found, func(m string) bool { return slices.Contains(set.LiveIf, m) })
}

// markersAt lists the markers that a directory and those above it hold. What it
// returns is shared.
func (f *FS) markersAt(dir string) []string {
	markers, round, ok := f.liveDirs.get(dir)
	if ok {
		return markers
	}
	var above []string
	if dir != "" {
		above = f.markersAt(reach.Dir(dir))
	}
	markers = above
	if own := f.markersIn(dir); len(own) > 0 {
		markers = slices.Concat(above, own)
	}
	f.liveDirs.put(dir, markers, round)
	return markers
}

// markersIn looks for markers in one directory. One that cannot be opened has none.
func (f *FS) markersIn(dir string) []string {
	fd, e := f.root().OpenDir(dir)
	if e != 0 {
		return nil
	}
	defer unix.Close(fd)
	var found []string
	for _, m := range f.policy.Markers() {
		if hasMarker(fd, policy.MarkerFiles(m)) {
			found = append(found, m)
		}
	}
	return found
}

// hasMarker reports whether a directory holds a file that may mark it for each of the globs.
// The directory is read only if the literal names among them are there.
func hasMarker(fd int, files []string) bool {
	var globs []string
	for _, file := range files {
		if policy.IsLiteral(file) {
			if !isMarkerAt(fd, file) {
				return false
			}
			continue
		}
		globs = append(globs, file)
	}
	if len(globs) == 0 {
		return true
	}
	dir, err := unix.Openat(fd, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return false
	}
	defer unix.Close(dir)
	for _, glob := range globs {
		if _, err := unix.Seek(dir, 0, unix.SEEK_SET); err != nil {
			return false
		}
		list, err := readEntries(dir, func(name string) bool { return visible(name) && policy.MarkerMatches(glob, name) })
		if err != nil || !slices.ContainsFunc(list, func(e dirEntry) bool { return isMarkerAt(fd, e.name) }) {
			return false
		}
	}
	return true
}

// isMarkerAt reports whether a directory holds a regular file of this name that may mark
// it. In a directory in which anybody may make files, one of another user than the
// directory's says nothing about what others have below it.
func isMarkerAt(fd int, name string) bool {
	var dir, st unix.Stat_t
	if unix.Fstatat(fd, name, &st, unix.AT_SYMLINK_NOFOLLOW) != nil || st.Mode&unix.S_IFMT != unix.S_IFREG || unix.Fstat(fd, &dir) != nil {
		return false
	}
	return st.Uid == dir.Uid || st.Uid == 0 || dir.Mode&(unix.S_IWGRP|unix.S_IWOTH) == 0
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
	f.liveDirs.forget()
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
