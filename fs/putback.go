package fs

import (
	"time"

	"golang.org/x/sys/unix"

	"latchfs/fs/judge"
	"latchfs/fs/lostupdate"
	"latchfs/fs/versions"
	"latchfs/journal/audit"
	"latchfs/lockmgr"
	"latchfs/lockmgr/knowledge"
)

// putBack gives the file that was removed from p its name back, for what was to take
// its place is refused, and reports whether it could. The file has to be in the history
// with its own inode, and nothing else may have taken the name. The name's lock is held.
func (f *FS) putBack(x *lostupdate.Loss, p place) bool {
	if !f.putBackAt(p, x.Path, x.Owner, x.By.UID, nil) {
		return false
	}
	x.Back = true
	return true
}

// putBackAt is putBack of the file that path held, if by is nil or whoever has removed it is
// that process.
func (f *FS) putBackAt(p place, path string, owner lockmgr.Owner, uid uint32, by *versions.Remover) bool {
	f.paths.RLock()
	defer f.paths.RUnlock()
	back, err := f.versions.PutBack(f.versionName(p.dir, p.name, path), opPutBack, by)
	if err != nil && err != unix.EEXIST {
		f.log.Warnf("%q was removed and is not put back: %v", path, err)
	}
	if back == nil || back.Is == nil {
		return back != nil
	}
	f.knowledge.Restored(knowledge.Key(path), stampOfFile(back.Is))
	f.namedAgain(p, back.Is)
	f.event(audit.Event{Time: time.Now(), Event: opPutBack, Path: path, PID: owner.PID, Detail: map[string]any{
		"version": back.Number, "uid": uid, "reason": "what was to take its place was refused",
	}})
	return true
}

// putBackReplaced gives the file that the writer of a new one has just removed, to replace it
// (install, tar), its name back where the new content is refused for what it is.
func (s *session) putBackReplaced(path string, why error) {
	dir, name := s.where()
	if s.isNew.Load() && judge.VerdictOf(why) != nil && s.f.mayComeBack(dir, name) {
		owner := s.who.Load().owner
		s.f.putBackAt(place{dir, name, nil}, path, owner, s.uid, &versions.Remover{PID: owner.PID, UID: s.uid})
	}
}

// mayComeBack reports whether the file that had the name was removed a moment ago, so
// that putBack may give it back.
func (f *FS) mayComeBack(dir *inode, name string) bool {
	return f.knowledge != nil && f.knowledge.JustRemoved(time.Now(), knowledge.Key(f.path(dir, name)))
}

// namedAgain tells an inode that it has a name, and the kernel that the
// name leads there.
func (f *FS) namedAgain(p place, st *unix.Stat_t) {
	f.mu.Lock()
	if n := f.inodes[inoKey{uint64(st.Dev), st.Ino}]; n != nil {
		f.setNameLocked(n, p.dir, p.name)
		n.kept = false
		f.setRemovedLocked(n, p.key(), false)
	}
	f.mu.Unlock()
	f.dropName(p.dir, p.name)
}
