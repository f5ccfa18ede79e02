package recovery

import (
	"path"

	"latchfs/journal"
	"latchfs/journal/commit/internal/disk"
)

// Changed is a file whose commit in place a crash had cut short, and which somebody has
// written outside the mount since, as far as can be told.
type Changed struct {
	In   journal.Intent
	Path string // relative to the data root
	// Stands: the file stays as it was found, and what the commit was to write is kept
	// aside. Otherwise the commit is finished, and what was found is kept aside.
	Stands bool
	Kept   string // ID under rejected/ of the bytes kept aside
}

// The reasons in meta.json.
const (
	standsReason   = "somebody had changed the file before its commit was finished after a crash, and it was left as it is"
	finishedReason = "what the file held before its commit was finished after a crash: it was neither the old version nor the new one"
)

// makeWay looks whether anything would be lost when the target of in becomes a copy of its
// shadow. Where nothing of the new version is in it, somebody has changed it instead, as in
// a conflict: finish is false, and the shadow is kept. Where somebody has written over half
// of a commit, only that finished is a whole version, and what was found is kept: so it is
// of a large file, of which nobody can tell, and where the daemon lives that has told
// its writer that the commit will be finished.
func (s *Recoverer) makeWay(in journal.Intent, shadow, target int, r *Report) (finish bool, err error) {
	if s.disk.IsAsLeft(in, target) {
		return true, nil
	}
	holds, err := disk.WhatHolds(shadow, target, in)
	if err != nil || holds == disk.HoldsOurs {
		return err == nil, err
	}
	c := Changed{In: in, Path: path.Join(in.Dir, in.Name), Stands: holds == disk.HoldsOthers && !s.disk.IsAbandoned(in)}
	what, reason := target, finishedReason
	if c.Stands {
		what, reason = shadow, standsReason
	}
	if c.Kept, err = s.keepAside(what, reason, in, r); err != nil {
		return false, err
	}
	r.Changed = append(r.Changed, c)
	return !c.Stands, nil
}
