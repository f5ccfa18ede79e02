package fs

import (
	"strings"

	"latchfs/lockmgr"
)

// This file moves what is kept by path when a directory gets another name, and with it
// everything below.
//
// The rename of a file moves none of it. A lock that was taken without opening, the
// claim of a read, a mark, a lesson and a kept base belong to the name, as versions do:
// a program that moves f to f~ and makes a new f goes on with the same name. The claims
// on a name that leads to nothing any more end soon (readclaim.Claims.Removed). A session goes
// with its file (moves.moveTo).

// relocation is the rename of a directory from one path to another, or their exchange.
type relocation struct {
	from, to  string
	exchanged bool
}

// of is the path by which what had a path before the rename is reached after it.
func (m relocation) of(path string) string {
	if rest, ok := below(path, m.from); ok {
		return m.to + rest
	}
	if rest, ok := below(path, m.to); ok && m.exchanged {
		return m.from + rest
	}
	return path
}

// below is what follows dir in the path of dir itself or of something in it.
func below(path, dir string) (rest string, ok bool) {
	rest, ok = strings.CutPrefix(path, dir)
	return rest, ok && (rest == "" || rest[0] == '/')
}

// follow moves what is kept by path: first what the recorders of changes know (see package
// changes), then the locks with what is said of them, and what follows the locks.
// nodes.ns and nodes.paths are held for writing.
func (lk *locks) follow(m relocation, moveKnowledge func(from, to string)) {
	lk.disk.versions.Moved(m.from, m.to, m.exchanged)
	moveKnowledge(m.from, m.to)
	renames := []lockmgr.Rename{{From: lockmgr.Key(m.from), To: lockmgr.Key(m.to)}}
	if m.exchanged {
		renames = append(renames, lockmgr.Rename{From: lockmgr.Key(m.to), To: lockmgr.Key(m.from)})
	}
	lk.rules.table.RenameTrees(renames...)
	lk.relabel(m)
	lk.callers.ctl.Claims.Follow(m.of)
	lk.readClaims.Follow(m.of)
	lk.recorder.bases.Follow(m.of)
	lk.losses.lessons.Moved(m.from, m.to, m.exchanged)
}

// relabel gives the locks below the directory the paths by which they are shown. The
// lock table knows them by their new keys already.
func (lk *locks) relabel(m relocation) {
	trees := []lockmgr.Key{lockmgr.Key(m.to)}
	if m.exchanged {
		trees = append(trees, lockmgr.Key(m.from))
	}
	locks := lk.rules.table.Holders(nil, trees)
	if _, waiting := lk.rules.table.Len(); waiting > 0 {
		locks = append(locks, lk.rules.table.Snapshot().Waiting...)
	}
	for _, h := range locks {
		if lb, ok := h.Label.(*label); ok && lb.claim == nil {
			lb.follow(m)
		}
	}
}

// where is the path by which the lock is shown now.
func (lb *label) where() string {
	if lb.claim != nil {
		return lb.claim.Where()
	}
	if at := lb.moved.Load(); at != nil {
		return *at
	}
	return lb.path
}

func (lb *label) follow(m relocation) {
	if at := lb.where(); m.of(at) != at {
		at = m.of(at)
		lb.moved.Store(&at)
	}
}

// fileRename is a file's rename from one key to another, with which the session's lock l
// goes; nil: there is none.
func fileRename(from, to lockmgr.Key, l *lockmgr.Lock) lockmgr.FileRename {
	return lockmgr.FileRename{Rename: lockmgr.Rename{From: from, To: to}, With: l}
}
