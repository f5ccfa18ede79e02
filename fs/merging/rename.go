package merging

import (
	"errors"

	"golang.org/x/sys/unix"

	"latchfs/fs/judge"
	"latchfs/fs/lostupdate"
	"latchfs/journal/commit"
	"latchfs/lockmgr/policy"
)

// MaxRename is up to which size in bytes files are merged at a rename, while the kernel keeps
// their directories locked.
const MaxRename = judge.QuickSize

// Rename is a rename that may merge.
type Rename interface {
	// IsSave reports whether a file that is closed is put in the place of another, and nothing
	// else happens.
	IsSave() bool
	// MayRead reports whether who renames may read the file that is replaced: what is merged
	// is in a file of the same user.
	MayRead() bool
	// Rules are what the policy asks of the content; nil: nothing.
	Rules() *policy.Validation
}

// MayMerge reports whether a rename of from over to may merge what would be lost, or notes why
// it does not.
func MayMerge(x *lostupdate.Loss, r Rename, from, to *unix.Stat_t) bool {
	switch {
	case from == nil, from.Mode&unix.S_IFMT != unix.S_IFREG, from.Nlink > 1, !r.IsSave():
	case max(from.Size, to.Size) > MaxRename:
		x.Apart = "the file is too large to be merged at a rename"
	case !r.MayRead():
		x.Apart = "its program may not read the file that is there"
	default:
		v := r.Rules()
		if v == nil || len(v.Command) == 0 {
			return true
		}
		x.Apart = "what a command has to check is not merged at a rename"
	}
	return false
}

// Shadow is a commit.Shadow.
type Shadow interface {
	FD() int
	InPlace(target int, o commit.PublishOptions) (commit.Version, error)
}

// Engine is the filesystem of one rename.
type Engine interface {
	// Shadow makes a shadow of the temporary file, which is open as target. done gives it back.
	Shadow(target int) (sh Shadow, done func(), err error)
	// Rewrite runs a change of content on behalf of who renames, again if it found no room and
	// some could be made.
	Rewrite(do func() error) error
	// Judge judges the content of fd as path's.
	Judge(fd int, path string) error
	// DirPath is the directory of the temporary file, for the journal.
	DirPath() string
	// Recover finishes what Shadow.InPlace has left half done.
	Recover() error
	// Rewritten is told that the temporary file has other content, which is the same version.
	Rewritten(before, after *unix.Stat_t)
}

// Into makes the temporary file from what comes out of a merge with to, which it is to replace.
// It returns what from is then. The error is a *lostupdate.NotMerged if the two cannot be
// joined, and that of Engine.Judge if what comes out is not accepted.
func Into(e Engine, g *lostupdate.Merge, from, to File) (*unix.Stat_t, error) {
	theirs, err := to.Read()
	if err != nil {
		return from.Stat, err
	}
	mine, err := from.Read()
	if err != nil {
		return from.Stat, err
	}
	merged, err := g.Join(theirs, mine)
	if err != nil || g.Mine() == nil {
		return from.Stat, err
	}
	return Rewrite(e, from, merged, g.Loss.Path)
}

// Back gives the temporary file back what it held, after a rename that has failed, and returns
// what it is then. g may be nil.
func Back(e Engine, g *lostupdate.Merge, from File) (*unix.Stat_t, error) {
	if g == nil || g.Mine() == nil {
		return from.Stat, nil
	}
	return Rewrite(e, from, g.Mine(), "")
}

// Rewrite makes data, if it is acceptable as that of path, the content of the temporary file,
// and returns what that is then.
func Rewrite(e Engine, from File, data []byte, path string) (*unix.Stat_t, error) {
	target, err := unix.Openat(from.Dir, from.Name, unix.O_RDWR|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return from.Stat, err
	}
	defer unix.Close(target)
	var before, after unix.Stat_t
	if err := unix.Fstat(target, &before); err != nil {
		return from.Stat, err
	}
	if !from.is(&before) {
		return from.Stat, unix.EBUSY // the name has got another file since
	}
	sh, done, err := e.Shadow(target)
	if err != nil {
		return from.Stat, err
	}
	defer done()
	if err := e.Rewrite(func() error { return Write(sh.FD(), data) }); err != nil {
		return from.Stat, err
	}
	if err := e.Judge(sh.FD(), path); err != nil {
		return from.Stat, err
	}
	base := commit.VersionOf(&before)
	_, err = sh.InPlace(target, commit.PublishOptions{Dir: from.Dir, DirPath: e.DirPath(), Name: from.Name, Base: &base})
	if errors.Is(err, commit.ErrRedoPending) {
		if again := e.Recover(); again == nil {
			err = nil
		}
	}
	if err != nil && !errors.Is(err, commit.ErrNotDurable) {
		return from.Stat, err
	}
	if err := unix.Fstat(target, &after); err != nil {
		return from.Stat, err
	}
	e.Rewritten(&before, &after)
	return &after, nil
}
