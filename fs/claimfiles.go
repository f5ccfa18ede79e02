package fs

import (
	"os"
	"time"

	"golang.org/x/sys/unix"

	"latchfs/fs/ctl"
	"latchfs/fs/denied"
	"latchfs/fs/filed"
	"latchfs/fs/filing"
	"latchfs/fs/judge"
	"latchfs/fs/listing"
	"latchfs/fs/refusals"
	"latchfs/journal/audit"
	"latchfs/journal/commit"
	"latchfs/lockmgr"
	"latchfs/lockmgr/policy/lockfile"
)

// Claim files are lock files that programs write by a convention of their own, and that
// the policy declares; see package filed. This file tells package filing what becomes of
// them, and asks it what may.

// openFiled makes the room of the claims that are made by files, and the clerk who tells
// it of them. Processes and the room of locks by hand are known.
func (f *FS) openFiled() {
	host, _ := os.Hostname()
	f.filed = filed.New(filed.Config{
		Engine: claimEngine{f}, Locks: claimLocks{f.ctl.Claims, f.ctl}, Procs: f.proc, Host: host, Boot: bootTime(), Done: f.done,
	})
	f.clerk = filing.New(filing.Config{Policy: f.policy, Room: f.filed, Engine: filingEngine{f}, Boot: bootID()})
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
func (f *FS) claimed(d *demand, r *lockmgr.Request) {
	if !f.clerk.Any() || d.class != lockmgr.Session || d.mode != lockmgr.Exclusive {
		return
	}
	for i, p := range d.places {
		ends := d.op == opUnlink || d.op == opRmdir || d.op == opRename && i == 0
		makes := d.op == opOpen || d.op == opCreate || d.op == opMkdir || d.op == opLink && i == 0 || d.op == opRename && i == 1
		on, is := f.clerk.Asks(f.claimName(p.dir, p.name), makes, ends)
		if is {
			r.Steal, d.claims = true, true
		}
		if on != nil && f.root().MayClaim(d.c.user(), on) == nil {
			keys, trees := f.keysOfTarget(on)
			r.Keys, r.Trees = append(r.Keys, keys...), append(r.Trees, trees...)
		}
	}
}

// FileClaim implements changes.Engine.
func (en changesEngine) FileClaim(ch *change) {
	is := ch.Name.(changedName)
	en.f.clerk.Changed(en.f.claimName(is.dir, is.name), ch.Is != nil, func() filing.Claimant {
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

// Chain implements filing.Claimant.
func (c *caller) Chain() []filed.Member {
	if c.foreign() {
		return nil
	}
	return filing.Chain(c.owner, c.ancestors(), c.f.proc.Family(c.owner), c.f.proc.Now())
}

// IsDaemon implements filing.Claimant.
func (c *caller) IsDaemon() bool { return int(c.owner.PID) == os.Getpid() }

// mayFileLocked refuses what the session is about to commit if that is to have the name of
// a claim file and is another claim's.
func (s *session) mayFileLocked() unix.Errno {
	dir, name := s.where()
	lb, ok := s.lock.Request().Label.(*label)
	if !ok {
		return 0
	}
	err := s.f.clerk.May(lb.c, s.f.claimName(dir, name), func() (int, error) {
		return unix.FcntlInt(uintptr(s.shadow.FD()), unix.F_DUPFD_CLOEXEC, 0)
	})
	if err != nil {
		return s.rejectLocked(unix.EBUSY, err.Error())
	}
	return 0
}

// mayFileName is mayFileLocked for content that is about to get another name.
func (f *FS) mayFileName(c *caller, op string, p place, k judge.Content) unix.Errno {
	err := f.clerk.May(c, f.claimName(p.dir, p.name), k.Open)
	if err == nil {
		return 0
	}
	reason := err.Error()
	x := refusals.Refusal{Path: f.path(p.dir, p.name), Op: op, Errno: unix.EBUSY, Reason: reason, Owner: c.owner, UID: c.uid, Lineage: c.ancestors()}
	f.explain(x)
	f.refusalEvent(&x, &label{c: c}, c, reason)
	return unix.EBUSY
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

// movedDirs tells of directories that have got other names.
func (r *renaming) movedDirs() {
	f := r.f
	f.clerk.Moved(r.c, f.claimName(r.from.dir, r.from.name), f.claimName(r.to.dir, r.to.name), r.flags&unix.RENAME_EXCHANGE != 0)
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

// claimName is a name as package filing needs it.
type claimName struct {
	f    *FS
	dir  *inode
	name string
}

var _ filing.Name = claimName{}

func (f *FS) claimName(dir *inode, name string) claimName { return claimName{f, dir, name} }

// Path implements filing.Name.
func (n claimName) Path() string { return n.f.path(n.dir, n.name) }

// Dir implements filing.Name.
func (n claimName) Dir() int { return n.f.fdOf(n.dir) }

// Base implements filing.Name.
func (n claimName) Base() string { return n.name }

// Up implements filing.Name.
func (n claimName) Up() filing.Name {
	if up, name := n.f.nameOf(n.dir); up != nil {
		return n.f.claimName(up, name)
	}
	return nil
}

// Place implements filing.Name.
func (n claimName) Place() filed.Place {
	n.f.mu.Lock()
	defer n.f.mu.Unlock()
	if d := n.f.names.Find(n.dir.dentry, n.name); d != nil {
		return d
	}
	return nil
}

// Keep implements filing.Name.
func (n claimName) Keep() filed.Place { return n.f.getName(n.dir, n.name) }

// filingEngine is the filesystem as package filing needs it.
type filingEngine struct{ f *FS }

var _ filing.Engine = filingEngine{}

// HoldPaths implements filing.Engine.
func (e filingEngine) HoldPaths() { e.f.paths.RLock() }

// ReleasePaths implements filing.Engine.
func (e filingEngine) ReleasePaths() { e.f.paths.RUnlock() }

// Child implements filing.Engine.
func (e filingEngine) Child(dir filed.Place, name string) filed.Place {
	e.f.mu.Lock()
	defer e.f.mu.Unlock()
	if dir == nil {
		dir = e.f.names.Root()
	}
	return e.f.names.Get(dir.(*dentry), name)
}

// Again implements filing.Engine.
func (e filingEngine) Again(p filed.Place) filed.Place {
	e.f.mu.Lock()
	defer e.f.mu.Unlock()
	return e.f.names.Ref(p.(*dentry))
}

// Left implements filing.Engine.
func (e filingEngine) Left(p filed.Place) { e.f.putName(p.(*dentry)) }

// PathOf implements filing.Engine.
func (e filingEngine) PathOf(p filed.Place) string { return claimEngine(e).Path(p) }

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
	by := &caller{f: e.f, uid: uid, gid: gid, owner: lockmgr.Owner{Start: e.f.serial.Add(1)}}
	by.haveGroups([]uint32{gid}, false)
	return by
}

// Ignored implements filing.Engine.
func (e filingEngine) Ignored(by filing.Claimant, file string, format lockfile.Format, why error) {
	e.Warn(file, "claims nothing", why)
	if c, ok := by.(*caller); ok {
		e.f.event(audit.Event{
			Time: time.Now(), Event: "claim_ignored", Path: file, PID: c.owner.PID,
			Detail: map[string]any{"reason": why.Error(), "format": string(format), "program": c.program(), "uid": c.uid},
		})
	}
}

// Warn implements filing.Engine.
func (e filingEngine) Warn(file, line string, why error) { e.f.log.Warnf("%q %s: %v", file, line, why) }

// ReadState implements filing.Engine.
func (e filingEngine) ReadState(name string) ([]byte, error) { return e.f.readState(name) }

// WriteState implements filing.Engine.
func (e filingEngine) WriteState(name string, data []byte) error { return e.f.writeState(name, data) }

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

// Changed implements filed.Engine.
func (e claimEngine) Changed() {
	if e.f.journal == nil || e.f.isOver() { // the state directory may be another daemon's by now
		return
	}
	if err := e.f.clerk.Save(); err != nil {
		e.f.log.Warnf("after a restart it will not be known which processes have claims: %v", err)
	}
}

// Remove implements filed.Engine.
func (e claimEngine) Remove(p filed.Place) error {
	if e.f.isOver() || e.f.isClosing() {
		return nil
	}
	return e.f.clerk.Remove(e.f.opts.Mountpoint, e.f.mountDev, e.Path(p))
}

// claimLocks are the locks of claims as package filed needs them.
type claimLocks struct {
	*ctl.Claims
	s *ctl.Server
}

var _ filed.Locks = claimLocks{}

// Stand implements filed.Locks.
func (l claimLocks) Stand(st *ctl.Standing) (*ctl.Claim, error) { return l.s.Stand(st) }
