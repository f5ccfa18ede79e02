package fs

import (
	"errors"
	"strings"
	"time"

	"latchfs/fs/ctl"
	"latchfs/fs/lockkey"
	"latchfs/fs/reach"
	"latchfs/fs/refusals"
	"latchfs/fs/rejected"
	"latchfs/fs/report"
	"latchfs/fs/transaction"
	"latchfs/journal/audit"
	"latchfs/journal/commit"
	"latchfs/journal/history"
	"latchfs/lockmgr"
	"latchfs/lockmgr/policy"
)

// ctlEngine is the filesystem as package ctl needs it.
type ctlEngine struct{ f *FS }

var (
	_ ctl.Engine = ctlEngine{}
	_ ctl.Caller = (*caller)(nil)
	_ ctl.Label  = (*label)(nil)
	_ ctl.Txn    = ctlTxn{}
)

// openControlRoom makes what answers the requests on the control file. Options and
// processes are known.
func (f *FS) openControlRoom() {
	f.openHeart()
	f.callers.ctl = ctl.New(ctl.Config{
		Engine: ctlEngine{f}, Procs: f.callers.proc, Table: f.rules.table, Book: f.callers.book, Views: f.view.source,
		Defaults: f.rules.policy.Defaults(), ActorEnv: f.rules.policy.ActorEnv(), Epoch: f.sessions.epoch, Draining: f.life.stopping, Done: f.life.done,
	})
	f.openFiled()
}

// UID implements ctl.Label.
func (lb *label) UID() uint32 { return lb.c.UID() }

// Claim implements ctl.Label.
func (lb *label) Claim() *ctl.Claim { return lb.claim }

// claimant is who has asked for a claim.
func claimant(cl *ctl.Claim) *caller { return cl.By.(*caller) }

// labelOfClaim is what the lock table keeps for us beside a claim's lock.
func labelOfClaim(cl *ctl.Claim) *label {
	return &label{op: cl.Op, path: cl.Where(), name: cl.Name, actor: cl.Actor, claim: cl, c: claimant(cl)}
}

// MayLock implements ctl.Engine.
func (e ctlEngine) MayLock(c ctl.Caller, t *lockkey.Target, m lockmgr.Mode) (weak bool, err error) {
	return e.f.disk.root().MayLock(c.(*caller).User(), t, m)
}

// MayClaim implements ctl.Engine.
func (e ctlEngine) MayClaim(c ctl.Caller, t *lockkey.Target) error {
	return e.f.disk.root().MayClaim(c.(*caller).User(), t)
}

// IsOrphaned implements ctl.Engine.
func (e ctlEngine) IsOrphaned(cl *ctl.Claim) bool { return e.f.claimFiles.filed.IsOrphaned(cl) }

// Owns implements ctl.Engine.
func (e ctlEngine) Owns(by ctl.Caller, path string) bool {
	u := by.(*caller).User()
	st, _, errno := e.f.disk.root().Stat(u, path)
	return errno == 0 && reach.Owns(u, &st)
}

// Reserved implements ctl.Engine.
func (e ctlEngine) Reserved(name string, inRoot bool) bool {
	return commit.Reserved(name) || inRoot && name == e.f.disk.opts.LocksDir
}

// Settings implements ctl.Engine.
func (e ctlEngine) Settings(path string) policy.Settings { return e.f.rules.settings(path) }

// Keys implements ctl.Engine.
func (e ctlEngine) Keys(t *lockkey.Target) (keys, trees []lockmgr.Key) {
	return e.f.rules.keysOfTarget(t)
}

// NameKeys implements ctl.Engine.
func (e ctlEngine) NameKeys(path string) []lockmgr.Key { return e.f.rules.appendNames(nil, path) }

// HoldPaths implements ctl.Engine.
func (e ctlEngine) HoldPaths() (release func()) {
	e.f.nodes.ns.RLock()
	return e.f.nodes.ns.RUnlock
}

// demandOf is what is asked for as the filesystem asks for it.
func demandOf(a *ctl.Ask) *demand {
	cl := a.Claim
	return &demand{
		c: a.By.(*caller), op: cl.Op, path: cl.Where(), claim: cl, label: labelOfClaim(cl),
		lockTerms: lockTerms{mode: a.Mode, class: lockmgr.Session, gate: true, weak: a.Weak, ttl: a.TTL, yields: a.Yields, steal: a.Steal, inbox: a.Inbox}, wait: a.Wait, owner: &a.Owner, lineage: a.Lineage,
	}
}

// Acquire implements ctl.Engine.
func (e ctlEngine) Acquire(a *ctl.Ask) (*lockmgr.Lock, error) {
	return e.f.locks.acquireOrClosed(demandOf(a), a.Wait == 0)
}

// Take implements ctl.Engine. nodes.paths is held.
func (e ctlEngine) Take(a *ctl.Ask) (*lockmgr.Lock, error) {
	f, d := e.f, demandOf(a)
	r := f.locks.request(d, true)
	r.Keys, r.Trees = f.rules.keysOfTarget(d.asked())
	l, err := f.rules.table.Acquire(r)
	if err == nil {
		f.callers.ctl.Claims.Enter(a.Claim, l)
		f.locks.heart.Arm(a.TTL)
	}
	return l, err
}

// Covers implements ctl.Engine.
func (e ctlEngine) Covers(l *lockmgr.Lock, cl *ctl.Claim) bool {
	return e.f.rules.covers(l, &demand{claim: cl})
}

// Join implements ctl.Engine.
func (e ctlEngine) Join(by ctl.Caller) *lockmgr.Ancestor {
	c := by.(*caller)
	c.JoinGuard()
	return c.Guard()
}

// Fenced implements ctl.Engine.
func (e ctlEngine) Fenced(c ctl.Caller, keys []lockmgr.Key) error {
	return e.f.locks.fenced(c.(*caller), keys)
}

// Steal implements ctl.Engine.
func (e ctlEngine) Steal(by ctl.Caller, take func()) { e.f.locks.steal(by.(*caller), take) }

// Revoke implements ctl.Engine.
func (e ctlEngine) Revoke(h *lockmgr.Holder) error { return e.f.locks.revoke(h) }

// SettleThefts implements ctl.Engine.
func (e ctlEngine) SettleThefts(by ctl.Caller) {
	thief, _ := by.(*caller)
	e.f.locks.settleThefts(thief)
}

// CoverToken implements ctl.Engine.
func (e ctlEngine) CoverToken(token uint64) error { return e.f.disk.coverToken(token) }

// IsInTxn implements ctl.Engine.
func (e ctlEngine) IsInTxn(c ctl.Caller) bool { return c.(*caller).Txn() != nil }

// BeginTxn implements ctl.Engine.
func (e ctlEngine) BeginTxn(cl *ctl.Claim) { e.f.entries.beginTxn(cl) }

// ctlTxn is a transaction as package ctl needs it.
type ctlTxn struct{ *txn }

// Token implements ctl.Txn.
func (t ctlTxn) Token() uint64 { return t.ID() }

// Commit implements ctl.Txn.
func (t ctlTxn) Commit() (done bool, err error) {
	err = t.Txn.Commit()
	return !transaction.IsRefused(err), err
}

// Forget implements ctl.Txn.
func (t ctlTxn) Forget() { t.callers.running.Forget(t.Txn) }

// Viewer implements ctl.Engine.
func (e ctlEngine) Viewer(c ctl.Caller) report.Viewer { return viewerOf(c.(*caller)) }

// Record implements ctl.Engine.
func (e ctlEngine) Record(h *lockmgr.Holder, key string) report.Record {
	return e.f.locks.record(h, key)
}

// Refused implements ctl.Engine.
func (e ctlEngine) Refused(r *ctl.Refusal) {
	f, c := e.f, r.By.(*caller)
	x := refusals.Refusal{
		Path: r.Path, Name: r.Name, Op: r.Claim.Op, Errno: r.Errno, Wait: r.Wait, Reason: r.Reason,
		Holder: r.Holder, Owner: c.Owner(), UID: c.UID(), Lineage: c.Ancestors(),
	}
	f.reports.explain(x)
	f.reports.refusalEvent(&x, labelOfClaim(r.Claim), c, r.Full)
}

// Tell implements ctl.Engine.
func (e ctlEngine) Tell(event string, cl *ctl.Claim, o lockmgr.Owner, detail map[string]any) {
	e.f.locks.leaseEvent(event, labelOfClaim(cl), o, detail)
}

// eventActor says in the audit trail that a process was given a label.
const eventActor = "actor"

// TellLabel implements ctl.Engine.
func (e ctlEngine) TellLabel(o lockmgr.Owner, name string, uid uint32) {
	e.f.reports.event(audit.Event{Time: time.Now(), Event: eventActor, PID: o.PID, Actor: name, Detail: map[string]any{
		"program": e.f.callers.proc.Program(o.PID), "uid": uid,
	}})
}

// eventForget is written when earlier versions or refused bytes were erased.
const eventForget = "forget"

// Erase implements ctl.Engine.
func (e ctlEngine) Erase(by ctl.Caller, path string, version uint64, mine func(uid uint32) bool) (n ctl.Erased, err error) {
	f, c := e.f, by.(*caller)
	var errs [2]error
	n.Versions, n.Bytes, errs[0] = f.disk.versions.Forget(path, func(v *history.Version) bool {
		return (version == 0 || v.Number == version) && mine(v.Rights.UID)
	})
	if version == 0 {
		var bytes int64
		n.Rejected, bytes, errs[1] = f.recorder.forgetRejected(path, mine)
		n.Bytes += bytes
	}
	if n.Versions+n.Rejected > 0 {
		f.reports.event(audit.Event{
			Time: time.Now(), Event: eventForget, Path: path, PID: c.Owner().PID, Actor: c.Actor(),
			Detail: map[string]any{
				"versions": n.Versions, "rejected": n.Rejected, "bytes": n.Bytes, "program": c.Program(), "uid": c.UID(),
			},
		})
	}
	return n, errors.Join(errs[:]...)
}

// Unerased implements ctl.Engine.
func (e ctlEngine) Unerased(v report.Viewer, path string, version uint64) ctl.Unerased {
	s := e.f.view.source
	if version > 0 {
		k, known := s.VersionOf(path, version, v)
		return ctl.Unerased{Known: known, Current: known && k.Current && k.Event != string(history.Delete) && k.Event != string(history.RenameAway)}
	}
	below := s.HistoryLeadsOn(path, v) || s.rejects.Any(func(k *rejected.File) bool {
		return strings.HasPrefix(k.Path, path+"/") && (v.Privileged || v.UID == k.UID)
	})
	return ctl.Unerased{Below: below, Names: s.OtherNames(path, v)}
}

// Pin implements ctl.Engine.
func (e ctlEngine) Pin(v report.Viewer, path string, version uint64) (release func(), ok bool) {
	if !e.f.view.source.KnowsOf(path, version, v) {
		return nil, false
	}
	return e.f.disk.versions.Pin(path, version)
}

// IsStopping implements ctl.Engine.
func (e ctlEngine) IsStopping() bool { return e.f.life.isStopping() }

// Notice implements ctl.Engine.
func (e ctlEngine) Notice() string { return e.f.life.shutdownNotice() }
