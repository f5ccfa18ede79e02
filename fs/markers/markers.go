// Package markers finds out which directories are a database's: those that hold its
// marker, as the policy's live-if names it, and all below them.
//
//	a marker    PG_VERSION, or several that are there together: base.sqlite + base.sqlite-wal*
//	it counts   in its directory and everywhere below
//	a file      that marks: a regular one, of the directory's owner or root where others
//	            may make files in the directory, too: one of theirs says nothing about what
//	            is not theirs
//
// The policy sees no disk; here the directories are looked at. What was found is believed
// for a second: what changes through the mount is told at once (Forget), what changes
// outside it is found out then. A directory that cannot be opened has no markers.
//
// Finder.mu guards what was found. It is not held while a directory is looked at; nobody
// takes another mutex while holding it. What a look finds that has begun before something
// was forgotten is not remembered.
package markers

import (
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"latchfs/lockmgr/policy"
)

const (
	// hold is how long what was found is believed.
	hold = time.Second
	// most bounds how many directories are remembered.
	most = 4096
	// atOnce is how many names of a directory are read at once.
	atOnce = 1024
)

// Config is what a Finder looks at.
type Config struct {
	// Markers are those that the policy names; see policy.Policy.Markers.
	Markers func() []string
	// Open opens a directory, which may be O_PATH; "" is the root. The finder closes it.
	Open func(dir string) (fd int, ok bool)
	// IsShown reports whether a name in a directory is a file's that users see.
	IsShown func(name string) bool
}

// Finder finds the markers of directories, and remembers them for a while.
type Finder struct {
	c Config

	mu    sync.Mutex        // guards what follows
	found map[string]marked // by the path of the directory
	round uint64            // rises when what was found may have changed
}

// marked is what was found for one directory.
type marked struct {
	markers []string // its own, and those of the directories above
	at      time.Time
}

// New makes a Finder that has looked at nothing yet.
func New(c Config) *Finder { return &Finder{c: c} }

// At lists the markers that a directory and those above it hold. What it returns is
// shared.
func (fi *Finder) At(dir string) []string {
	markers, round, ok := fi.get(dir)
	if ok {
		return markers
	}
	var above []string
	if dir != "" {
		above = fi.At(parent(dir))
	}
	markers = above
	if own := fi.in(dir); len(own) > 0 {
		markers = slices.Concat(above, own)
	}
	fi.put(dir, markers, round)
	return markers
}

// parent is the directory of a path below the root.
func parent(path string) string { return path[:max(strings.LastIndexByte(path, '/'), 0)] }

// Forget is for names that have come or gone: a directory may have become a database's,
// or ceased to be one.
func (fi *Finder) Forget() {
	fi.mu.Lock()
	defer fi.mu.Unlock()
	fi.found = nil
	fi.round++
}

func (fi *Finder) get(dir string) (markers []string, round uint64, ok bool) {
	fi.mu.Lock()
	defer fi.mu.Unlock()
	m, ok := fi.found[dir]
	return m.markers, fi.round, ok && time.Since(m.at) < hold
}

// put remembers what a look found that began in the given round.
func (fi *Finder) put(dir string, markers []string, round uint64) {
	fi.mu.Lock()
	defer fi.mu.Unlock()
	if fi.round != round {
		return
	}
	if fi.found == nil || len(fi.found) >= most {
		fi.found = map[string]marked{}
	}
	fi.found[dir] = marked{markers, time.Now()}
}

// in looks for markers in one directory.
func (fi *Finder) in(dir string) []string {
	fd, ok := fi.c.Open(dir)
	if !ok {
		return nil
	}
	defer unix.Close(fd)
	var found []string
	for _, m := range fi.c.Markers() {
		if fi.has(fd, policy.MarkerFiles(m)) {
			found = append(found, m)
		}
	}
	return found
}

// has reports whether a directory holds a file that may mark it for each of the globs.
// The directory is read only if the literal names among them are there.
func (fi *Finder) has(fd int, files []string) bool {
	var globs []string
	for _, file := range files {
		if policy.IsLiteral(file) {
			if !marks(fd, file) {
				return false
			}
			continue
		}
		globs = append(globs, file)
	}
	for _, glob := range globs {
		if !fi.hasMatch(fd, glob) {
			return false
		}
	}
	return true
}

// hasMatch reports whether a directory holds a file that may mark it and matches the glob.
func (fi *Finder) hasMatch(fd int, glob string) bool {
	dir, err := unix.Openat(fd, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return false
	}
	f := os.NewFile(uintptr(dir), glob)
	defer f.Close()
	for {
		names, err := f.Readdirnames(atOnce)
		if slices.ContainsFunc(names, func(name string) bool {
			return fi.c.IsShown(name) && policy.MarkerMatches(glob, name) && marks(fd, name)
		}) {
			return true
		}
		if err != nil || len(names) == 0 {
			return false
		}
	}
}

// marks reports whether a directory holds a regular file of this name that may mark it.
func marks(fd int, name string) bool {
	var dir, st unix.Stat_t
	if unix.Fstatat(fd, name, &st, unix.AT_SYMLINK_NOFOLLOW) != nil || st.Mode&unix.S_IFMT != unix.S_IFREG || unix.Fstat(fd, &dir) != nil {
		return false
	}
	return st.Uid == dir.Uid || st.Uid == 0 || dir.Mode&(unix.S_IWGRP|unix.S_IWOTH) == 0
}
