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
func (lo *losses) putBack(x *lostupdate.Loss, p place) bool {
	if !lo.putBackAt(p, x.Path, x.Owner, x.By.UID, nil) {
		return false
	}
	x.Back = true
	return true
}

// putBackAt is putBack of the file that path held, if by is nil or whoever has removed it is
// that process.
func (lo *losses) putBackAt(p place, path string, owner lockmgr.Owner, uid uint32, by *versions.Remover) bool {
	lo.nodes.paths.RLock()
	defer lo.nodes.paths.RUnlock()
	back, err := lo.disk.versions.PutBack(lo.callers.versionName(p.dir, p.name, path), opPutBack, by)
	if err != nil && err != unix.EEXIST {
		lo.disk.log.Warnf("%q was removed and is not put back: %v", path, err)
	}
	if back == nil || back.Is == nil {
		return back != nil
	}
	lo.rules.knowledge.Restored(knowledge.Key(path), stampOfFile(back.Is))
	lo.namedAgain(p, back.Is)
	lo.reports.event(audit.Event{Time: time.Now(), Event: opPutBack, Path: path, PID: owner.PID, Detail: map[string]any{
		"version": back.Number, "uid": uid, "reason": "what was to take its place was refused",
	}})
	return true
}

// putBackReplaced gives the file that the writer of a new one has just removed, to replace it
// (install, tar), its name back where the new content is refused for what it is.
func (lo *losses) putBackReplaced(s *session, path string, why error) {
	dir, name := s.where()
	if s.isNew.Load() && judge.VerdictOf(why) != nil && lo.mayComeBack(dir, name) {
		owner := s.who.Load().Owner()
		lo.putBackAt(place{dir, name, nil}, path, owner, s.uid, &versions.Remover{PID: owner.PID, UID: s.uid})
	}
}

// mayComeBack reports whether the file that had the name was removed a moment ago, so
// that putBack may give it back.
func (lo *losses) mayComeBack(dir *inode, name string) bool {
	return lo.rules.knowledge != nil && lo.rules.knowledge.JustRemoved(time.Now(), knowledge.Key(lo.nodes.path(dir, name)))
}

// namedAgain tells an inode that it has a name, and the kernel that the
// name leads there.
func (lo *losses) namedAgain(p place, st *unix.Stat_t) {
	lo.nodes.mu.Lock()
	if n := lo.nodes.inodes[inoKey{uint64(st.Dev), st.Ino}]; n != nil {
		lo.nodes.setNameLocked(n, p.dir, p.name)
		n.kept = false
		lo.names.setRemovedLocked(n, p.key(), false)
	}
	lo.nodes.mu.Unlock()
	lo.names.dropName(p.dir, p.name)
}
