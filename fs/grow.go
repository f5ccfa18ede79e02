package fs

import (
	"golang.org/x/sys/unix"

	"latchfs/journal/history"
)

// Appended records make no versions: the one that is there grows. The history is
// told when that begins, so that a crash in between is not taken for a change
// around the mount, and how far it went when the appender closes.

// noteGrowth tells the history that a file has begun to grow. The lock that the
// append took is held.
func (a *appender) noteGrowth(added int) {
	f := a.f
	if f.history == nil || a.growing == a.key {
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
	if !f.history.Known(path) && st.Size == int64(added) && f.keepsHistory(f.settings(path)) {
		f.history.Add(withFile(history.Version{
			Path: path, Event: history.Commit, Operation: opAppend, Program: a.c.program(),
			PID: a.c.owner.PID, UID: a.c.uid, Actor: f.actorOf(&label{c: a.c}),
		}, &st, rightsOf(&st, a.fd)))
	}
	f.mu.Lock()
	f.growing[a.key]++
	f.mu.Unlock()
	a.growing = a.key
	f.history.Changed(path, st.Ino, history.StateOf(&st), true)
}

// noteRest tells it that the appender has done with the file.
func (a *appender) noteRest() {
	f := a.f
	if a.growing == (inoKey{}) {
		return
	}
	key := a.growing
	a.growing = inoKey{}
	f.mu.Lock()
	f.growing[key]--
	rests := f.growing[key] == 0
	if rests {
		delete(f.growing, key)
	}
	f.mu.Unlock()
	var st unix.Stat_t
	dir, name := f.nameOf(a.h.n)
	if !rests || key != a.key || dir == nil || unix.Fstat(a.fd, &st) != nil {
		return
	}
	f.history.Changed(f.path(dir, name), st.Ino, history.StateOf(&st), false)
}
