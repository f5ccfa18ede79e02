package fs

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"latchfs/fs/access"
	"latchfs/fs/judge"
	"latchfs/fs/lostupdate"
	"latchfs/fs/printable"
	"latchfs/fs/reach"
	"latchfs/fs/refusals"
	"latchfs/journal/commit"
)

// A rename over a version that its caller does not know, under the policy "merge".
// The merged content is written into the temporary file itself, in place and
// crash-safe, and then renamed like any other: so the new version appears in one
// step, and the kernel's idea of which inode has which name stays true.

// maxRenameMerge is up to which size files are merged at a rename, while the kernel
// keeps their directories locked.
const maxRenameMerge = judge.QuickSize

// merge prepares the temporary file to be renamed over a version that its writer did
// not know. What it returns is the answer to the rename, unless that is 0.
func (r *renaming) mergeOr(x *lostupdate.Loss) unix.Errno {
	f := r.f
	var g *lostupdate.Merge
	if r.canMerge(x) {
		g = x.Merge(&mergeTarget{r.c, f, r.to, r.toSt})
	}
	if g == nil {
		return errnoFor(x.Answer())
	}
	from := f.path(r.from.dir, r.from.name)
	err := r.mergeInto(g)
	var n *lostupdate.NotMerged
	switch {
	case err == nil:
		r.merging = g
		return 0
	case errors.As(err, &n):
		reason := n.Error()
		x.Refuse()
		f.explain(refusals.Refusal{Path: x.Path, Op: opRename, Errno: unix.EBUSY, Reason: reason, Verdict: n.Verdict(),
			Owner: x.Owner, UID: x.By.UID, Lineage: x.Lineage,
			Hint: fmt.Sprintf("%s was left as it is, and what was written is still in %s. %s", printable.Line(x.Path), printable.Line(from), joinByHand)})
		return unix.EBUSY
	case judge.Errno(err) == unix.EBADMSG:
		return f.refuseContent(r.c, &judge.Refusal{Op: opRename, Path: x.Path, From: from, Err: err})
	}
	f.log.Errorf("merging %q into %q: %v", from, x.Path, err)
	return errnoOf(err)
}

// joinByHand is what to do about two changes that cannot be merged.
const joinByHand = "Run the program again, which will read the new version, or join the two by hand."

// canMerge reports whether this is a rename that may merge: of a file that is closed
// over another, and nothing else.
func (r *renaming) canMerge(x *lostupdate.Loss) bool {
	f := r.f
	switch {
	case r.flags != 0, r.fromSt == nil, r.fromSt.Mode&unix.S_IFMT != unix.S_IFREG:
	case r.fromSt.Nlink > 1, f.sessionAt(r.from.dir, r.from.name) != nil, f.sessionAt(r.to.dir, r.to.name) != nil:
	case f.isMountpoint(r.from.dir, r.from.name):
	case max(r.fromSt.Size, r.toSt.Size) > maxRenameMerge:
		x.Apart = "the file is too large to be merged at a rename"
	case !r.readsTarget():
		x.Apart = "its program may not read the file that is there"
	default:
		v := f.judge.Rules(x.Path)
		if v == nil || len(v.Command) == 0 {
			return true
		}
		x.Apart = "what a command has to check is not merged at a rename"
	}
	return false
}

// readsTarget reports whether the caller may read the file that is to be replaced: what is
// merged is in a file of his.
func (r *renaming) readsTarget() bool {
	fd, err := unix.Openat(r.f.fdOf(r.to.dir), r.to.name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	return reach.May(r.c.user(), fd, access.Read)
}

// mergeInto makes the temporary file what comes out of the merge. Where that is what
// it holds, nothing is done.
func (r *renaming) mergeInto(g *lostupdate.Merge) error {
	f := r.f
	theirs, err := f.readVersion(r.to, versionPtr(r.toSt))
	if err != nil {
		return err
	}
	mine, err := f.readVersion(r.from, versionPtr(r.fromSt))
	if err != nil {
		return err
	}
	merged, err := g.Join(theirs, mine)
	if err != nil || g.Mine() == nil {
		return err
	}
	return r.rewrite(merged, g.Loss.Path)
}

// rewrite makes data, if it is acceptable as that of path, the content of the
// temporary file.
func (r *renaming) rewrite(data []byte, path string) error {
	f := r.f
	dirfd, dirPath := f.fdOf(r.from.dir), f.nodePath(r.from.dir)
	target, err := unix.Openat(dirfd, r.from.name, unix.O_RDWR|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(target)
	var before, after unix.Stat_t
	if err := unix.Fstat(target, &before); err != nil {
		return err
	}
	if stampOfFile(&before) != stampOfFile(r.fromSt) {
		return unix.EBUSY // the name has got another file since
	}
	sh, err := f.store.NewShadow(commit.ShadowOptions{Dir: dirfd, DirPath: dirPath, Name: r.from.name, Base: target, UID: -1, GID: -1, As: r.asCaller})
	if err != nil {
		return err
	}
	defer f.discard(sh)
	if err := f.retryWithRoom(func() error { return r.asCaller(func() error { return writeAllOf(sh.FD(), data) }) }); err != nil {
		return err
	}
	if err := f.judge.Check(path, sh.FD(), r.c.uid); err != nil {
		return err
	}
	o := commit.PublishOptions{Dir: dirfd, DirPath: dirPath, Name: r.from.name, Base: versionPtr(&before)}
	_, err = sh.InPlace(target, o)
	if errors.Is(err, commit.ErrRedoPending) {
		if _, again := f.store.Recover(); again == nil {
			err = nil
		}
	}
	if err != nil && !errors.Is(err, commit.ErrNotDurable) {
		return err
	}
	if err := unix.Fstat(target, &after); err != nil {
		return err
	}
	from := f.path(r.from.dir, r.from.name)
	if r.from.inode != nil {
		f.notifyInode(r.from.inode, 0, -1)
	}
	f.restamped(from, &before, &after)
	r.fromSt = &after
	return nil
}

// unmerge gives the temporary file back what it held, after a rename that has failed.
func (r *renaming) unmerge() {
	g := r.merging
	r.merging = nil
	if g == nil || g.Mine() == nil {
		return
	}
	if err := r.rewrite(g.Mine(), ""); err != nil {
		r.f.log.Warnf("%q holds what it was merged to: %v", r.f.path(r.from.dir, r.from.name), err)
	}
}
