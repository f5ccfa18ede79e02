package fs

import (
	"math"
	"os"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"latchfs/fs/ctl"
	"latchfs/fs/denied"
	"latchfs/fs/filed"
	"latchfs/fs/filing"
	"latchfs/fs/judge"
	"latchfs/fs/listing"
	"latchfs/fs/lockkey"
	"latchfs/fs/refusals"
	"latchfs/journal/audit"
	"latchfs/journal/commit"
	"latchfs/lockmgr"
	"latchfs/lockmgr/policy/lockfile"
)

// claimFiles has the claims that programs make by lock files of their own.
type claimFiles struct {
	filed *filed.Room   // the claims that are made by files
	clerk *filing.Clerk // tells filed what becomes of those files

	remove func(file string) error // removes the file of a stale claim, through the mount

	*ground
}

// Claim files are lock files that programs write by a convention of their own, and that
// the policy declares; see package filed. This file tells package filing what becomes of
// them, and asks it what may.

// openFiled makes the room of the claims that are made by files, and the clerk who tells
// it of them. Processes and the room of locks by hand are known.
func (f *FS) openFiled() {
	host, _ := os.Hostname()
	f.claimFiles.filed = filed.New(filed.Config{
		Engine: filedEngine{f}, Locks: filedLocks{f.callers.ctl.Claims, f.callers.ctl}, Procs: f.callers.proc, Host: host, Boot: bootTime(), Done: f.life.done,
	})
	f.claimFiles.clerk = filing.New(filing.Config{Policy: f.rules.policy, Room: f.claimFiles.filed, Engine: filingEngine{f}, Boot: bootID(), Now: f.callers.proc.Now})
	f.claimFiles.remove = func(file string) error {
		return f.claimFiles.clerk.Remove(f.disk.opts.Mountpoint, f.disk.mountDev, file)
	}
}

// bootTime is when the machine was started.
func bootTime() time.Time {
	var up unix.Timespec
	if unix.ClockGettime(unix.CLOCK_BOOTTIME, &up) != nil {
		return time.Time{}
	}
	return time.Now().Add(-time.Duration(up.Nano()))
}

// claimed adds to a request for names what the claim files among them stand for. Who asks
// for one takes a stale claim over, and may, though an earlier one of its was stolen.
func (cf *claimFiles) claimed(d *demand, r *lockmgr.Request) {
	on, is := cf.stands(d)
	if is {
		r.Steal, d.hasClaimFile = true, true
	}
	for _, t := range on {
		keys, trees := cf.rules.keysOfTarget(t)
		r.Keys, r.Trees = append(r.Keys, keys...), append(r.Trees, trees...)
	}
}

// stands is what the claim files among the names of a demand stand for, as far as it needs the
// locks of that; is reports whether there is a claim file among them.
func (cf *claimFiles) stands(d *demand) (on []*lockkey.Target, is bool) {
	if !cf.clerk.Any() || d.class != lockmgr.Session || d.mode != lockmgr.Exclusive {
		return nil, false
	}
	for i, p := range d.places {
		ends := d.op == opUnlink || d.op == opRmdir || d.op == opRename && i == 0
		makes := d.op == opOpen || d.op == opCreate || d.op == opMkdir || d.op == opLink && i == 0 || d.op == opRename && i == 1
		t, isOne := cf.clerk.Asks(cf.claimName(p.dir, p.name), makes, ends)
		is = is || isOne
		if t != nil && cf.disk.root().MayClaim(d.c.User(), t) == nil {
			on = append(on, t)
		}
	}
	return on, is
}

// covers reports whether a lock is on all that the claim files stand for: while it was waited for,
// a claim may have ended, or what it was on have got another name.
func (cf *claimFiles) covers(l *lockmgr.Lock, d *demand) bool {
	on, _ := cf.stands(d)
	if on == nil {
		return true
	}
	cf.nodes.ns.RLock()
	defer cf.nodes.ns.RUnlock()
	return !slices.ContainsFunc(on, func(t *lockkey.Target) bool { return !cf.rules.isOnTarget(l, t) })
}

// FileClaim implements changes.Engine.
func (en changesEngine) FileClaim(ch *change) {
	is := ch.Name.(changedName)
	en.f.claimFiles.clerk.Changed(en.f.claimFiles.claimName(is.dir, is.name), ch.Is != nil, func() filing.Claimant {
		switch maker := ch.By.(type) {
		case byCaller:
			return maker.c
		case byWriter:
			if lb, ok := maker.s.lock.Request().Label.(*label); ok {
				return lb.c
			}
		}
		return nil
	})
}

// mayFileName is commits.mayFileLocked for content that is about to get another name.
func (cf *claimFiles) mayFileName(c *caller, op string, p place, k judge.Content) unix.Errno {
	err := cf.clerk.May(c, cf.claimName(p.dir, p.name), k.Open)
	if err == nil {
		return 0
	}
	reason := err.Error()
	x := refusals.Refusal{Path: cf.nodes.path(p.dir, p.name), Op: op, Errno: unix.EBUSY, Reason: reason, Owner: c.Owner(), UID: c.UID(), Lineage: c.Ancestors()}
	cf.reports.explain(x)
	cf.reports.refusalEvent(&x, &label{c: c}, c, reason)
	return unix.EBUSY
}

// mayFile is mayFileName for what the rename makes of claim files.
func (r arrival) mayFile() unix.Errno {
	if r.isDir() || r.sameFile() {
		return 0
	}
	e := r.claimFiles.mayFileName(r.c, opRename, r.to, r.candidateAt(r.from))
	if e == 0 && r.flags&unix.RENAME_EXCHANGE != 0 {
		e = r.claimFiles.mayFileName(r.c, opRename, r.from, r.candidateAt(r.to))
	}
	return e
}

// candidateAt is the content that goes with a name.
func (r arrival) candidateAt(p place) judge.Content {
	if s := r.ownSession(p); s != nil {
		return sessionContent{s}
	}
	return namedContent{r.nodes, p.dir, p.name}
}

// movedDirs tells the clerk which directories have got other names.
func (r *renaming) movedDirs() {
	r.claimFiles.clerk.Moved(r.c, r.claimFiles.claimName(r.from.dir, r.from.name), r.claimFiles.claimName(r.to.dir, r.to.name), r.flags&unix.RENAME_EXCHANGE != 0)
}

// passOn hands the claims that are in the way to those who have them now, for their
// holders are dead. It reports whether any has another holder.
func (cf *claimFiles) passOn(l *lockmgr.Lock, err error) bool {
	if cf.filed.Count() == 0 {
		return false
	}
	holders := denied.Holders(err)
	if err == nil {
		holders = cf.rules.table.Conflicts(l, math.MaxInt)
	}
	passed := false
	for i := range holders {
		if lb, ok := holders[i].Label.(*label); ok && lb.claim != nil {
			passed = cf.filed.PassOn(lb.claim) || cf.filed.Passed(lb.claim, holders[i].Owner) || passed
		}
	}
	return passed
}

// claimName is a name as package filing needs it.
type claimName struct {
	claimFiles *claimFiles
	dir        *inode
	name       string
}

var _ filing.Name = claimName{}

func (cf *claimFiles) claimName(dir *inode, name string) claimName { return claimName{cf, dir, name} }

// Path implements filing.Name.
func (n claimName) Path() string { return n.claimFiles.nodes.path(n.dir, n.name) }

// Dir implements filing.Name.
func (n claimName) Dir() int { return n.claimFiles.nodes.fdOf(n.dir) }

// Base implements filing.Name.
func (n claimName) Base() string { return n.name }

// Up implements filing.Name.
func (n claimName) Up() filing.Name {
	if up, name := n.claimFiles.nodes.nameOf(n.dir); up != nil {
		return n.claimFiles.claimName(up, name)
	}
	return nil
}

// Place implements filing.Name.
func (n claimName) Place() filed.Place {
	n.claimFiles.nodes.mu.Lock()
	defer n.claimFiles.nodes.mu.Unlock()
	if d := n.claimFiles.nodes.dentries.Find(n.dir.dentry, n.name); d != nil {
		return d
	}
	return nil
}

// Keep implements filing.Name.
func (n claimName) Keep() filed.Place { return n.claimFiles.nodes.getName(n.dir, n.name) }

// filingEngine is the filesystem as package filing needs it.
type filingEngine struct{ f *FS }

var _ filing.Engine = filingEngine{}

// HoldPaths implements filing.Engine.
func (e filingEngine) HoldPaths() { e.f.nodes.paths.RLock() }

// ReleasePaths implements filing.Engine.
func (e filingEngine) ReleasePaths() { e.f.nodes.paths.RUnlock() }

// Child implements filing.Engine.
func (e filingEngine) Child(dir filed.Place, name string) filed.Place {
	e.f.nodes.mu.Lock()
	defer e.f.nodes.mu.Unlock()
	if dir == nil {
		dir = e.f.nodes.dentries.Root()
	}
	return e.f.nodes.dentries.Get(dir.(*dentry), name)
}

// Again implements filing.Engine.
func (e filingEngine) Again(p filed.Place) filed.Place {
	e.f.nodes.mu.Lock()
	defer e.f.nodes.mu.Unlock()
	return e.f.nodes.dentries.Ref(p.(*dentry))
}

// Left implements filing.Engine.
func (e filingEngine) Left(p filed.Place) { e.f.nodes.putName(p.(*dentry)) }

// PathOf implements filing.Engine.
func (e filingEngine) PathOf(p filed.Place) string { return filedEngine(e).Path(p) }

// List implements filing.Engine.
func (e filingEngine) List(fd int) ([]filing.Entry, error) {
	list, err := listing.Read(fd, func(name string) bool { return !listing.IsDots(name) })
	entries := make([]filing.Entry, len(list))
	for i := range list {
		entries[i] = filing.Entry{Name: list[i].Name, IsDir: list[i].Kind == unix.S_IFDIR}
	}
	return entries, err
}

// Reserved implements filing.Engine.
func (e filingEngine) Reserved(name string) bool { return commit.Reserved(name) }

// Owner implements filing.Engine.
func (e filingEngine) Owner(uid, gid uint32) filing.Claimant {
	return e.f.callers.room.User(uid, gid)
}

// Ignored implements filing.Engine.
func (e filingEngine) Ignored(by filing.Claimant, file string, format lockfile.Format, why error) {
	e.Warn(file, "claims nothing", why)
	if c, ok := by.(*caller); ok {
		e.f.reports.event(audit.Event{
			Time: time.Now(), Event: "claim_ignored", Path: file, PID: c.Owner().PID,
			Detail: map[string]any{"reason": why.Error(), "format": string(format), "program": c.Program(), "uid": c.UID()},
		})
	}
}

// Warn implements filing.Engine.
func (e filingEngine) Warn(file, line string, why error) {
	e.f.disk.log.Warnf("%q %s: %v", file, line, why)
}

// ReadState implements filing.Engine.
func (e filingEngine) ReadState(name string) ([]byte, error) { return e.f.disk.readState(name) }

// WriteState implements filing.Engine.
func (e filingEngine) WriteState(name string, data []byte) error {
	return e.f.disk.writeState(name, data)
}

// filedEngine is the filesystem as package filed needs it.
type filedEngine struct{ f *FS }

var _ filed.Engine = filedEngine{}

// Path implements filed.Engine.
func (e filedEngine) Path(p filed.Place) string { return e.f.claimFiles.pathOf(p) }

// Left implements filed.Engine.
func (e filedEngine) Left(p filed.Place) { e.f.nodes.putName(p.(*dentry)) }

// SettleThefts implements filed.Engine.
func (e filedEngine) SettleThefts() { e.f.locks.settleThefts(nil) }

// Tell implements filed.Engine.
func (e filedEngine) Tell(event string, cl *ctl.Claim, o lockmgr.Owner, detail map[string]any) {
	e.f.locks.leaseEvent(event, labelOfClaim(cl), o, detail)
}

// Log implements filed.Engine.
func (e filedEngine) Log(file, line string) { e.f.disk.log.Warnf("%q: %s", file, line) }

// MayHold implements filed.Engine.
func (e filedEngine) MayHold(by ctl.Caller, o lockmgr.Owner) bool {
	return by.UID() == 0 || e.f.callers.proc.Describe(o.PID).UID == by.UID()
}

// Changed implements filed.Engine.
func (e filedEngine) Changed() {
	if e.f.disk.journal == nil || e.f.life.isOver() { // the state directory may be another daemon's by now
		return
	}
	if err := e.f.claimFiles.clerk.Save(); err != nil {
		e.f.disk.log.Warnf("after a restart it will not be known which processes have claims: %v", err)
	}
}

// Remove implements filed.Engine.
func (e filedEngine) Remove(p filed.Place) error {
	if e.f.life.isOver() || e.f.life.isStopping() {
		return nil
	}
	return e.f.claimFiles.remove(e.Path(p))
}

// filedLocks are the locks of claims as package filed needs them.
type filedLocks struct {
	*ctl.Claims
	s *ctl.Server
}

var _ filed.Locks = filedLocks{}

// Stand implements filed.Locks.
func (l filedLocks) Stand(st *ctl.Standing) (*ctl.Claim, error) { return l.s.Stand(st) }

// pathOf is where a lock file lies.
func (cf *claimFiles) pathOf(p filed.Place) string {
	cf.nodes.mu.Lock()
	defer cf.nodes.mu.Unlock()
	return p.(*dentry).Path()
}
