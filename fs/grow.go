package fs

import (
	"golang.org/x/sys/unix"

	"latchfs/journal/commit"
	"latchfs/journal/history"
)

// noteGrowth tells the history that a file has begun to grow, see versions.Growth. The lock
// that the append took is held.
func (a *appender) noteGrowth(added int) {
	f, key := a.f, commit.Inode{Dev: a.key.dev, Ino: a.key.ino}
	if f.versions == nil || a.growth.IsOf(key) {
		return
	}
	f.unseal(a.key)
	a.noteRest()
	var st unix.Stat_t
	dir, name := f.nameOf(a.h.n)
	if dir == nil || unix.Fstat(a.fd, &st) != nil || st.Nlink == 0 {
		return
	}
	path := f.path(dir, name)
	if f.versions.IsFirst(path, &st, added) {
		if set := f.settings(path); f.versions.Keeps(&set) {
			by := byCaller{a.c}.Process()
			f.versions.AddFile(history.Version{
				Path: path, Event: history.Commit, Operation: opAppend, Program: by.Program, PID: by.PID, UID: by.UID, Actor: by.Actor,
			}, &st, a.fd)
		}
	}
	f.versions.Grow(&a.growth, key, path, &st)
}

// noteRest tells it that the appender has done with the file.
func (a *appender) noteRest() {
	f := a.f
	of, rests := f.versions.Rest(&a.growth)
	if dir, name := f.nameOf(a.h.n); rests && dir != nil && of == (commit.Inode{Dev: a.key.dev, Ino: a.key.ino}) {
		f.versions.Changed(f.path(dir, name), a.fd, false)
	}
}

// unseal stops judging by its size and times whether a published inode was written after
// its commit: they were set, or somebody is adding to the file.
func (f *FS) unseal(key inoKey) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if n := f.inodes[key]; n != nil {
		n.unsealed = true
	}
}
