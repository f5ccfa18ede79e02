package recovery

import (
	"errors"
	"os"
	"path"

	"golang.org/x/sys/unix"

	"latchfs/journal"
	"latchfs/journal/commit/internal/disk"
)

// Changed is a file whose commit in place, or by a transaction, a crash had cut short, and
// which somebody has written outside the mount since, as far as can be told.
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
	foundReason    = "what had the name when a transaction was finished after a crash: it was not there when that was decided"
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

// errNoFile: a name that a shadow is to get holds something that is no file.
var errNoFile = errors.New("the name holds something else than a file by now")

// saveFound keeps aside the file that has got a name since in was decided, which is about
// to lose it: the name that the shadow is to have, or its own after an exchange. A decided
// transaction is finished all the same, for its other parts may have happened. What has the
// name and is no file stays: errNoFile. So does the file of another user in a sticky
// directory: disk.ErrForeignName. shadow is the status of the shadow, or of what it was
// exchanged for.
func (s *Recoverer) saveFound(dir int, name string, shadow *unix.Stat_t, in journal.Intent, r *Report) error {
	var st unix.Stat_t
	err := unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW)
	switch {
	case errors.Is(err, unix.ENOENT):
		return nil
	case err != nil:
		return os.NewSyscallError("fstatat", err)
	case st.Ino == in.TargetIno && (in.TargetBirth == 0 || disk.BirthOf(dir, name) == in.TargetBirth):
		return nil
	case st.Mode&unix.S_IFMT != unix.S_IFREG:
		return errNoFile
	case s.disk.IsForeign(dir, shadow, &st):
		return disk.ErrForeignName
	}
	fd, err := disk.OpenShadow(dir, name)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	c := Changed{In: in, Path: path.Join(in.Dir, in.Name)}
	if c.Kept, err = s.keepAside(fd, foundReason, in, r); err != nil {
		return err
	}
	r.Changed = append(r.Changed, c)
	return nil
}
