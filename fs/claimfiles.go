package fs

import (
	"errors"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"latchfs/fs/ctl"
	"latchfs/fs/denied"
	"latchfs/fs/filed"
	"latchfs/fs/judge"
	"latchfs/fs/lockkey"
	"latchfs/fs/refusals"
	"latchfs/journal/audit"
	"latchfs/lockmgr"
	"latchfs/lockmgr/policy/lockfile"
)

// Claim files are lock files that programs write by a convention of their own, and that
// the policy declares; see package filed. This file tells that package what becomes of
// them, and asks it what may.
//
// Whoever opens, makes or replaces a claim file, where nothing is claimed, takes the lock
// on what it stands for at the same time: so nobody else is at work there when the claim
// begins, and there is nothing to wait for at the commit.

// claimRule is the policy's rule for the claim file at a path, nil if it is none.
func (f *FS) claimRule(path string) *lockfile.Convention {
	if !f.policy.HasClaimFiles() {
		return nil
	}
	rule := f.policy.ClaimFile(path)
	if rule == nil || rule.Format == lockfile.Flock {
		return nil
	}
	return rule
}

// claimPlace is the claim file that a change of a name in dir is about: that name or, of
// what is in a directory that is a claim, the directory. Where a claim stands already the
// rule may be nil: a directory above has got another name since.
func (f *FS) claimPlace(dir *inode, name string) (at *inode, of string, rule *lockfile.Convention, ok bool) {
	if !f.policy.HasClaimFiles() {
		return nil, "", nil, false
	}
	if rule := f.claimRule(f.path(dir, name)); rule != nil || f.filed.IsAt(f.claimAt(dir, name)) {
		return dir, name, rule, true
	}
	up, dirName := f.nameOf(dir)
	if up == nil {
		return nil, "", nil, false
	}
	if rule := f.claimRule(f.path(up, dirName)); rule != nil && rule.Format == lockfile.OwnerDir {
		return up, dirName, rule, true
	}
	return nil, "", nil, false
}

// claimTarget is what the lock of a claim file is on: the file, and what it stands for.
func claimTarget(rule *lockfile.Convention, file string) (lockkey.Target, error) {
	t, err := rule.Target(file)
	if err != nil {
		return lockkey.Target{}, err
	}
	var target lockkey.Target
	if rule.Format == lockfile.OwnerDir {
		target.Trees = []string{file}
	} else {
		target.Paths = []string{file}
	}
	switch t.Covers {
	case lockfile.CoversDirectory:
		target.Trees = append([]string{t.Path}, target.Trees...)
	case lockfile.CoversFile:
		target.Paths = append([]string{t.Path}, target.Paths...)
	case lockfile.CoversName:
		target.Names = []string{t.Name}
	}
	return target, nil
}

// claimed adds to a request for names what the claim files among them stand for. Who asks
// for one takes a stale claim over, and may, though an earlier one of its was stolen.
func (f *FS) claimed(d *demand, r *lockmgr.Request) {
	if !f.policy.HasClaimFiles() || d.class != lockmgr.Session || d.mode != lockmgr.Exclusive {
		return
	}
	for i, p := range d.places {
		if d.op == opUnlink || d.op == opRmdir || d.op == opRename && i == 0 {
			if at, name, _, ok := f.claimPlace(p.dir, p.name); ok {
				f.filed.Disown(f.claimAt(at, name))
			}
		}
		file := f.path(p.dir, p.name)
		rule := f.claimRule(file)
		if rule == nil {
			continue
		}
		r.Steal, d.claims = true, true
		makes := d.op == opOpen || d.op == opCreate || d.op == opMkdir || d.op == opLink && i == 0 || d.op == opRename && i == 1
		if !makes || f.filed.Has(f.claimAt(p.dir, p.name)) {
			continue
		}
		if t, err := claimTarget(rule, file); err == nil && f.root().MayClaim(d.c.user(), &t) == nil {
			keys, trees := f.keysOfTarget(&t)
			r.Keys, r.Trees = append(r.Keys, keys...), append(r.Trees, trees...)
		}
	}
}

// claimAt is the place of a claim file, nil if there is no claim.
func (f *FS) claimAt(dir *inode, name string) filed.Place {
	f.mu.Lock()
	defer f.mu.Unlock()
	if d := f.names.Find(dir.dentry, name); d != nil {
		return d
	}
	return nil
}

// FileClaim implements changes.Engine: it tells of a name that holds something else now, if
// it is a claim file's.
func (en changesEngine) FileClaim(ch *change) {
	f, is := en.f, ch.Name.(changedName)
	at, name, rule, ok := f.claimPlace(is.dir, is.name)
	if !ok {
		return
	}
	if at == is.dir && (ch.Is == nil || rule == nil) {
		f.filed.Gone(f.claimAt(at, name))
		return
	}
	if at != is.dir && is.name != claimOwner && is.name != claimRecord {
		return
	}
	var by *caller
	switch maker := ch.By.(type) {
	case byCaller:
		by = maker.c
	case byWriter:
		lb, ok := maker.s.lock.Request().Label.(*label)
		if !ok {
			return
		}
		by = lb.c
	}
	if by.isDaemon() {
		return // it is taking a stale claim apart
	}
	f.fileClaim(by, at, name, rule)
	if at != is.dir {
		f.endIfGone(at, name)
	}
}

// endIfGone ends a claim whose directory somebody else has removed meanwhile: whoever changes
// what is in it has the lock of that, and not of the directory's name.
func (f *FS) endIfGone(dir *inode, name string) {
	var st unix.Stat_t
	if unix.Fstatat(f.fdOf(dir), name, &st, unix.AT_SYMLINK_NOFOLLOW) == unix.ENOENT {
		f.filed.Gone(f.claimAt(dir, name))
	}
}

// fileClaim tells what a claim file holds now. FS.paths is held, and the lock of the name.
func (f *FS) fileClaim(by *caller, dir *inode, name string, rule *lockfile.Convention) {
	file := f.path(dir, name)
	fl := &filed.Filing{Rule: rule, By: by, Chain: by.claimants()}
	var err error
	if fl.Target, err = claimTarget(rule, file); err == nil {
		fl.Content, fl.Made, err = readClaimFile(f.fdOf(dir), name, rule)
	}
	if err == nil {
		fl.At = f.getName(dir, name)
		err = f.filed.File(fl)
	}
	if err != nil && !errors.Is(err, unix.ENOENT) {
		f.log.Warnf("%q claims nothing: %v", file, err)
		f.event(audit.Event{
			Time: time.Now(), Event: "claim_ignored", Path: file, PID: by.owner.PID,
			Detail: map[string]any{"reason": err.Error(), "format": string(rule.Format), "program": by.program(), "uid": by.uid},
		})
	}
}

// claimants are the caller and those of its ancestors that may have a claim which it
// files, the nearest first: up to an interactive shell, which may. Each with its
// descendants that were born with the one on the way to the caller, or later.
func (c *caller) claimants() []filed.Member {
	if c.foreign() {
		return nil
	}
	family := c.f.proc.Family(c.owner)
	chain := []filed.Member{{Owner: c.owner, Since: c.f.proc.Now()}}
	for _, a := range c.ancestors() {
		kin := slices.Contains(family.Relatives, a.Owner) || slices.Contains(family.Above, a.Owner)
		if kin || a.Owner == family.Shell {
			since := a.Child
			since.Tick--
			chain = append(chain, filed.Member{Owner: a.Owner, Since: since})
		}
	}
	return chain
}

// mayFile refuses content, read from fd, that is to have the name of a claim file and is
// another claim's.
func (f *FS) mayFile(c *caller, dir *inode, name string, open func() (int, error)) (unix.Errno, string) {
	rule := f.claimRule(f.path(dir, name))
	if rule == nil || rule.Format == lockfile.OwnerDir || f.filed.Count() == 0 {
		return 0, ""
	}
	fd, err := open()
	if err != nil {
		return 0, "" // what it is nobody can tell, and so nobody claims by it
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	fl := &filed.Filing{At: f.claimAt(dir, name), Rule: rule, By: c}
	if fl.Content.Data, err = readBeginning(fd, &st); err != nil {
		return 0, ""
	}
	if err := f.filed.May(fl); err != nil {
		return unix.EBUSY, f.path(dir, name) + ": " + err.Error()
	}
	return 0, ""
}

// mayFileLocked is mayFile for what the session is about to commit.
func (s *session) mayFileLocked() unix.Errno {
	dir, name := s.where()
	lb, ok := s.lock.Request().Label.(*label)
	if !ok {
		return 0
	}
	e, reason := s.f.mayFile(lb.c, dir, name, func() (int, error) {
		return unix.FcntlInt(uintptr(s.shadow.FD()), unix.F_DUPFD_CLOEXEC, 0)
	})
	if e != 0 {
		return s.rejectLocked(e, reason)
	}
	return 0
}

// mayFileName is mayFile for content that is about to get another name.
func (f *FS) mayFileName(c *caller, op string, p place, k judge.Content) unix.Errno {
	e, reason := f.mayFile(c, p.dir, p.name, k.Open)
	if e != 0 {
		x := refusals.Refusal{Path: f.path(p.dir, p.name), Op: op, Errno: e, Reason: reason, Owner: c.owner, UID: c.uid, Lineage: c.ancestors()}
		f.explain(x)
		f.refusalEvent(&x, &label{c: c}, c, reason)
	}
	return e
}

// madeDir tells of a directory that was made or has got another name.
func (f *FS) madeDir(c *caller, dir *inode, name string) {
	rule := f.claimRule(f.path(dir, name))
	if rule == nil || rule.Format != lockfile.OwnerDir {
		return
	}
	f.paths.RLock()
	defer f.paths.RUnlock()
	f.fileClaim(c, dir, name, rule)
}

// movedDirs tells of directories that have got other names: what claims there claimed is
// given back where the new name claims nothing.
func (r *renaming) movedDirs() {
	f := r.f
	if !f.policy.HasClaimFiles() {
		return
	}
	for _, p := range []place{r.to, r.from} {
		if f.claimRule(f.path(p.dir, p.name)) == nil {
			f.filed.Gone(f.claimAt(p.dir, p.name))
		} else if p == r.to || r.flags&unix.RENAME_EXCHANGE != 0 {
			f.madeDir(r.c, p.dir, p.name)
		}
	}
}

// mayFile is mayFileName for what the rename makes of claim files.
func (r *renaming) mayFile() unix.Errno {
	if r.isDir() || r.sameFile() {
		return 0
	}
	e := r.f.mayFileName(r.c, opRename, r.to, r.candidateAt(r.from))
	if e == 0 && r.flags&unix.RENAME_EXCHANGE != 0 {
		e = r.f.mayFileName(r.c, opRename, r.from, r.candidateAt(r.to))
	}
	return e
}

// candidateAt is the content that goes with a name.
func (r *renaming) candidateAt(p place) judge.Content {
	if s := r.ownSession(p); s != nil {
		return sessionContent{s}
	}
	return namedContent{r.f, p.dir, p.name}
}

// passOn hands the claims that are in the way to those who have them now, for their
// holders are dead. It reports whether any has another holder.
func (f *FS) passOn(l *lockmgr.Lock, err error) bool {
	if f.filed.Count() == 0 {
		return false
	}
	holders := denied.Holders(err)
	if err == nil {
		holders = f.table.Conflicts(l)
	}
	passed := false
	for i := range holders {
		if lb, ok := holders[i].Label.(*label); ok && lb.claim != nil {
			passed = f.filed.PassOn(lb.claim) || f.filed.Passed(lb.claim, holders[i].Owner) || passed
		}
	}
	return passed
}

// claimFileOf is the path of the file that makes a claim, "" if none does.
func (f *FS) claimFileOf(cl *ctl.Claim) string {
	if p := f.filed.FileOf(cl); p != nil {
		return claimEngine{f}.Path(p)
	}
	return ""
}

// claimEngine is the filesystem as package filed needs it.
type claimEngine struct{ f *FS }

var _ filed.Engine = claimEngine{}

// Path implements filed.Engine.
func (e claimEngine) Path(p filed.Place) string {
	e.f.mu.Lock()
	defer e.f.mu.Unlock()
	return p.(*dentry).Path()
}

// Left implements filed.Engine.
func (e claimEngine) Left(p filed.Place) { e.f.putName(p.(*dentry)) }

// SettleThefts implements filed.Engine.
func (e claimEngine) SettleThefts() { e.f.settleThefts(nil) }

// Tell implements filed.Engine.
func (e claimEngine) Tell(event string, cl *ctl.Claim, o lockmgr.Owner, detail map[string]any) {
	e.f.leaseEvent(event, labelOfClaim(cl), o, detail)
}

// Log implements filed.Engine.
func (e claimEngine) Log(file, line string) { e.f.log.Warnf("%q: %s", file, line) }

// MayHold implements filed.Engine.
func (e claimEngine) MayHold(by ctl.Caller, o lockmgr.Owner) bool {
	return by.UID() == 0 || e.f.proc.Describe(o.PID).UID == by.UID()
}

// claimLocks are the locks of claims as package filed needs them.
type claimLocks struct {
	*ctl.Claims
	s *ctl.Server
}

var _ filed.Locks = claimLocks{}

// Stand implements filed.Locks.
func (l claimLocks) Stand(st *ctl.Standing) (*ctl.Claim, error) { return l.s.Stand(st) }
