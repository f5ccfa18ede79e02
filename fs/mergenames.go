package fs

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"latchfs/fs/access"
	"latchfs/fs/judge"
	"latchfs/fs/lostupdate"
	"latchfs/fs/merging"
	"latchfs/fs/printable"
	"latchfs/fs/reach"
	"latchfs/fs/refusals"
	"latchfs/journal/commit"
	"latchfs/lockmgr/policy"
)

// A rename over a version that its caller does not know, under the policy "merge".

// joinByHand is what to do about two changes that cannot be merged.
const joinByHand = "Run the program again, which will read the new version, or join the two by hand."

// mergeOr prepares the temporary file to be renamed over a version that its writer did
// not know. What it returns is the answer to the rename, unless that is 0.
func (r *renaming) mergeOr(x *lostupdate.Loss) unix.Errno {
	m := mergingRename{r, x.Path}
	var g *lostupdate.Merge
	if merging.MayMerge(x, m, r.fromSt, r.toSt) {
		g = x.Merge(r.judging.mergeTarget(r.c, r.to, r.toSt))
	}
	if g == nil {
		return errnoFor(x.Answer())
	}
	from := r.nodes.path(r.from.dir, r.from.name)
	is, err := merging.Into(m, g, r.judging.mergeFile(r.from, r.fromSt), r.judging.mergeFile(r.to, r.toSt))
	r.fromSt = is
	var n *lostupdate.NotMerged
	switch {
	case err == nil:
		r.merging = g
		return 0
	case errors.As(err, &n):
		reason := n.Error()
		x.Refuse()
		r.reports.explain(refusals.Refusal{Path: x.Path, Op: opRename, Errno: unix.EBUSY, Reason: reason, Verdict: n.Verdict(),
			Owner: x.Owner, UID: x.By.UID, Lineage: x.Lineage,
			Hint: fmt.Sprintf("%s was left as it is, and what was written is still in %s. %s", printable.Line(x.Path), printable.Line(from), joinByHand)})
		return unix.EBUSY
	case judge.Errno(err) == unix.EBADMSG:
		return r.judging.refuseContent(r.c, &judge.Refusal{Op: opRename, Path: x.Path, From: from, Err: err})
	}
	r.disk.log.Errorf("merging %q into %q: %v", from, x.Path, err)
	return errnoOf(err)
}

// unmerge gives the temporary file back what it held, after a rename that has failed.
func (r *renaming) unmerge() {
	g := r.merging
	r.merging = nil
	is, err := merging.Back(mergingRename{r, ""}, g, r.judging.mergeFile(r.from, r.fromSt))
	r.fromSt = is
	if err != nil {
		r.disk.log.Warnf("%q holds what it was merged to: %v", r.nodes.path(r.from.dir, r.from.name), err)
	}
}

// mergingRename is a rename as package merging needs it.
type mergingRename struct {
	r    *renaming
	path string // of what it replaces
}

var (
	_ merging.Rename = mergingRename{}
	_ merging.Engine = mergingRename{}
)

// IsSave implements merging.Rename.
func (m mergingRename) IsSave() bool {
	r := m.r
	return r.flags == 0 && m.r.nodes.sessionAt(r.from.dir, r.from.name) == nil && m.r.nodes.sessionAt(r.to.dir, r.to.name) == nil &&
		!m.r.nodes.isMountpoint(r.from.dir, r.from.name)
}

// MayRead implements merging.Rename.
func (m mergingRename) MayRead() bool {
	r := m.r
	fd, err := unix.Openat(r.nodes.fdOf(r.to.dir), r.to.name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	return reach.May(r.c.User(), fd, access.Read)
}

// Rules implements merging.Rename.
func (m mergingRename) Rules() *policy.Validation { return m.r.judging.judge.Rules(m.path) }

// Shadow implements merging.Engine.
func (m mergingRename) Shadow(target int) (sh merging.Shadow, done func(), err error) {
	r := m.r
	made, err := m.r.disk.store.NewShadow(commit.ShadowOptions{
		Dir: m.r.nodes.fdOf(r.from.dir), DirPath: m.DirPath(), Name: r.from.name, Base: target, UID: -1, GID: -1, As: r.asCaller,
	})
	if err != nil {
		return nil, nil, err
	}
	return made, func() { m.r.disk.discard(made) }, nil
}

// Rewrite implements merging.Engine.
func (m mergingRename) Rewrite(do func() error) error {
	return m.r.disk.retryWithRoom(func() error { return m.r.asCaller(do) })
}

// Judge implements merging.Engine.
func (m mergingRename) Judge(fd int, path string) error {
	return m.r.judging.judge.Check(path, fd, m.r.c.UID())
}

// DirPath implements merging.Engine.
func (m mergingRename) DirPath() string { return m.r.nodes.nodePath(m.r.from.dir) }

// Recover implements merging.Engine.
func (m mergingRename) Recover() error {
	_, err := m.r.disk.store.Recover()
	return err
}

// Rewritten implements merging.Engine.
func (m mergingRename) Rewritten(before, after *unix.Stat_t) {
	r := m.r
	from := m.r.nodes.path(r.from.dir, r.from.name)
	if r.from.inode != nil {
		m.r.kernel.notifyInode(r.from.inode, 0, -1)
	}
	m.r.recorder.restamped(from, before, after)
}
