package fs

import (
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"latchfs/fs/advisory"
	"latchfs/fs/ctl"
	"latchfs/fs/denied"
	"latchfs/fs/heartbeat"
	"latchfs/fs/judge"
	"latchfs/fs/lockkey"
	"latchfs/fs/lockwait"
	"latchfs/fs/readclaim"
	"latchfs/fs/transaction"
	"latchfs/lockmgr"
	"latchfs/lockmgr/policy"
)

// locks takes the locks of files and names for those who ask, waits for them, passes them on,
// and says who is in the way.
type locks struct {
	heart      *heartbeat.Heart
	readClaims *readclaim.Claims
	advisory   *advisory.Room // the locks that programs take by themselves
	thefts     sync.Mutex     // held while thefts are settled
	settled    atomic.Uint64  // how many thefts are settled
	// advisoryKeys guards the keys of the locks that programs take by themselves: a rename
	// of a file holds it for writing, and whoever makes a key for reading.
	advisoryKeys sync.RWMutex

	*ground
	claimFiles *claimFiles
	losses     *losses
	recorder   *recorder
}

// label is what the lock table keeps for us beside each lock. The holder's
// process is described when somebody looks.
type label struct {
	session  atomic.Pointer[session]
	op       string
	path     string                    // when the lock was asked for
	moved    atomic.Pointer[string]    // the path since a directory above was renamed; nil: as it was
	name     string                    // of a named lock, which has no path
	actor    string                    // who it is for, as the holder said itself
	read     *readclaim.Claim          // the claim whose lock it is; nil: none's
	claim    *ctl.Claim                // a lock taken through the control file: it says where that is
	c        *caller                   // which has asked for the lock
	passed   judge.Passed              // content that was judged for a parked operation
	atomic   [2]bool                   // see demand.atomic
	deadline atomic.Pointer[time.Time] // until when the lock is waited for
}

// id is by what the lock is known: that of its session, or of a lock taken
// through the control file.
func (lb *label) id() string {
	if s := lb.session.Load(); s != nil {
		return s.id
	}
	if lb.claim != nil {
		return lb.claim.ID()
	}
	return ""
}

// ReadClaim implements readclaim.Labeled.
func (lb *label) ReadClaim() *readclaim.Claim { return lb.read }

// labelOf is the label of a lock that a caller asks for.
func labelOf(c *caller, op, path string) *label {
	return &label{op: op, path: path, c: c}
}

// newLabel is the label of the lock that is asked for.
func (d *demand) newLabel() *label {
	lb := labelOf(d.c, d.op, d.path)
	lb.atomic = d.atomic
	return lb
}

// demand is one request for locks on behalf of a caller.
type demand struct {
	c      *caller
	op     string
	path   string          // for messages
	places []place         // the names concerned, from which the keys are made
	target *lockkey.Target // trees that are to be locked in place of names
	claim  *ctl.Claim      // what a request through the control file asks for, in place of names
	handle *handle         // through which a client locks a file, in place of names
	keys   []lockmgr.Key   // in place of names
	wait   time.Duration   // 0 fails at once, < 0 waits for ever
	// patient is the request's cancel where the kernel holds no lock of a directory: then a
	// deadlock may be waited for that another thread can end. nil: it may not.
	patient <-chan struct{}
	label   *label
	lockTerms

	// judge, if not nil, is run under the lock where it may take its time.
	judge func(lb *label, cancel <-chan struct{}) unix.Errno
	// atomic says of which of the places the file was not live when they were asked for.
	atomic [2]bool
	// hasClaimFile: one of the places is a claim file.
	hasClaimFile bool

	// owner, with lineage, holds the lock in place of the caller.
	owner   *lockmgr.Owner
	lineage []lockmgr.Ancestor
	since   lockmgr.Birth      // from which owner's children are heirs; zero: from now on
	until   time.Time          // set by the first wait
	left    []lockmgr.Ancestor // see joinLeft
}

// lockTerms are how a demand wants its locks.
type lockTerms struct {
	mode   lockmgr.Mode
	class  lockmgr.Class
	client uint64
	span   lockmgr.Range
	ttl    time.Duration // the lease; 0: none
	yields bool          // once stale, it may be taken by whoever waits
	// keep leaves an interrupted request in the queue: a program that retries
	// keeps its place.
	keep  bool
	gate  bool           // see lockmgr.Request
	weak  bool           // see lockmgr.Request
	steal bool           // take it from holders whose lease has expired
	inbox *lockmgr.Inbox // is told when the wait is over
}

// triesAgain reports whether the program tries again what a stop has interrupted: an open, or a
// lock of its own. None does a rename(2).
func (d *demand) triesAgain() bool { return d.keep || d.class != lockmgr.Session }

// asked is what the demand is for, if that is not names; nil if it is.
func (d *demand) asked() *lockkey.Target {
	if d.claim == nil {
		return d.target
	}
	t := d.claim.Target()
	return &t
}

// forebears are the owner's ancestors. If the lock is for an ancestor of the caller, that
// ancestor inherits the guard lock that the caller has joined.
func (d *demand) forebears() []lockmgr.Ancestor {
	up := d.c.Ancestors()
	switch {
	case d.owner == nil && len(d.left) > 0:
		return append(slices.Clone(up), d.left...)
	case d.owner == nil:
		return up
	case d.c.Guard() == nil:
		return d.lineage
	}
	return append(slices.Clone(d.lineage), *d.c.Guard())
}

// fileDemand asks for the exclusive lock on names and on the inodes that have
// other names too, which all share one key.
func (lk *locks) fileDemand(c *caller, op string, wait time.Duration, places ...place) *demand {
	d := &demand{c: c, op: op, lockTerms: lockTerms{mode: lockmgr.Exclusive, class: lockmgr.Session}, wait: wait, places: places}
	if len(places) > 0 {
		d.path = lk.nodes.path(places[0].dir, places[0].name)
	}
	if t := lk.callers.txnOf(c); t != nil {
		o := t.Owner()
		d.owner, d.lineage, d.since = &o, t.forebears(c), t.Since()
	}
	if op == opOpen || op == opCreate {
		set := lk.rules.settings(d.path)
		d.ttl, d.yields = set.TTL, set.OnStale == policy.StealStale
	}
	return d
}

func (lk *locks) request(d *demand, noWait bool) lockmgr.Request {
	if d.label == nil && (!noWait || d.class != lockmgr.Session) {
		d.label = d.newLabel()
	}
	if d.label != nil && d.wait > 0 {
		at := time.Now().Add(d.wait)
		d.label.deadline.Store(&at)
	}
	r := lockmgr.Request{
		Keys: d.keys, Mode: d.mode, Class: d.class, Client: d.client, Range: d.span,
		Owner: d.c.Owner(), Since: lk.callers.proc.Now(),
		NoWait: noWait, Now: time.Now(), TTL: d.ttl, Yields: d.yields,
		Gate: d.gate, Weak: d.weak, Steal: d.steal, Inbox: d.inbox,
	}
	if d.owner != nil {
		r.Owner, r.Lineage = *d.owner, d.forebears()
		if d.since != (lockmgr.Birth{}) {
			r.Since = d.since
		}
	} else {
		r.Lineage = d.forebears()
	}
	if d.label != nil {
		r.Label = d.label
	}
	return r
}

// acquire enters the demand into the lock table. Nothing is renamed that concerns it
// between the making of the keys and their entry, where renames re-key them.
func (lk *locks) acquire(d *demand, noWait bool) (*lockmgr.Lock, error) {
	if t := lk.callers.txnOf(d.c); t != nil && t.IsOver() {
		return nil, transaction.ErrOver
	}
	if lk.isTooDeep(d) {
		return nil, errTooDeep
	}
	lk.meetReadClaims(d)
	r := lk.request(d, noWait)
	began := time.Now()
	for {
		lk.nodes.ns.RLock()
		lk.advisoryKeys.RLock()
		switch {
		case d.handle != nil:
			r.Keys = []lockmgr.Key{lk.advisory.Key(d.handle, d.class)}
		case d.places != nil:
			r.Keys, r.Trees, r.Steal = lk.rules.keysOf(d.places), nil, d.steal
			lk.claimFiles.claimed(d, &r)
		case d.asked() != nil:
			r.Keys, r.Trees = lk.rules.keysOfTarget(d.asked())
		}
		l, err := lk.rules.table.Acquire(r)
		if err == nil && d.claim != nil {
			lk.callers.ctl.Claims.Enter(d.claim, l)
		}
		lk.advisoryKeys.RUnlock()
		lk.nodes.ns.RUnlock()
		lk.settleThefts(d.c)
		if (err != nil || !l.Held()) && (d.c.JoinGuard() || lk.claimFiles.passOn(l, err) || lk.joinLeft(d, l, err)) {
			if err == nil {
				lk.rules.table.Cancel(l, denied.ErrMoved)
				lk.rules.table.Release(l)
			}
			r.Lineage = d.forebears()
			continue
		}
		if lk.outlasts(err, d, began) {
			continue
		}
		if err == nil {
			lk.heart.Arm(d.ttl)
			if !d.hasClaimFile {
				err = lk.fenced(d.c, r.Keys)
			}
			if err != nil {
				lk.rules.table.Cancel(l, err)
				lk.rules.table.Release(l)
				return nil, err
			}
		}
		if err != nil || !l.Held() || lk.covers(l, d) {
			return l, err
		}
		lk.rules.table.Release(l) // the name changed hands between the look and the lock
	}
}

// covers reports whether a lock is still the one that the demand needs.
func (lk *locks) covers(l *lockmgr.Lock, d *demand) bool {
	return lk.rules.covers(l, d) && lk.claimFiles.covers(l, d)
}

// outlasts reports whether a deadlock that the demand of a moment ago has met is over.
func (lk *locks) outlasts(err error, d *demand, began time.Time) bool {
	threads := began // of a program's own locks fcntl(2) takes a process for one waiter
	switch {
	case d.class != lockmgr.Session || d.patient == nil:
	case d.wait < 0:
		threads = time.Now().Add(lockwait.ThreadGrace)
	default:
		threads = began.Add(d.wait)
	}
	return lockwait.Outlast(err, began.Add(lockwait.Grace), threads, wanted{lk, d})
}

// lock takes the locks, waiting as long as the demand allows. A refusal is
// recorded for .locks/why.
func (lk *locks) lock(d *demand, cancel <-chan struct{}) (*lockmgr.Lock, unix.Errno) {
	l, err := lk.acquireOrClosed(d, d.wait == 0)
	if err != nil {
		return nil, lk.refuse(d, err)
	}
	return lk.await(l, d, cancel)
}

// await waits until l is granted, refused, timed out or interrupted. The lock
// that is granted in the end may be another one: see covers. Of an interrupted
// wait that keeps its place the waiting lock is returned beside EINTR.
func (lk *locks) await(l *lockmgr.Lock, d *demand, cancel <-chan struct{}) (*lockmgr.Lock, unix.Errno) {
	for {
		w := lk.waiting(d, cancel)
		if d.label != nil && d.label.read != nil {
			w.Stop = lk.life.stopping // a reader need not wait for writers that will not come
		}
		var e unix.Errno
		began := time.Now()
		err := w.Lock(l, wanted{lk, d})
		again := lk.outlasts(err, d, began)
		if err != nil && !again {
			e = lk.refuse(d, err)
		}
		if e == 0 && d.class == lockmgr.Session {
			lk.settleThefts(nil)
			if err := lk.fenced(d.c, l.Keys()); err != nil && !d.hasClaimFile {
				lk.rules.table.Cancel(l, err)
				lk.rules.table.Release(l)
				return nil, lk.refuse(d, err)
			}
		}
		if e != 0 || !again && lockwait.IsGranted(l, d.class) && lk.covers(l, d) {
			return l, e
		}
		lk.rules.table.Cancel(l, denied.ErrMoved)
		lk.rules.table.Release(l)
		if l, err = lk.acquire(d, d.wait == 0); err != nil {
			return nil, lk.refuse(d, err)
		}
	}
}

// waiting is how the demand waits.
func (lk *locks) waiting(d *demand, cancel <-chan struct{}) *lockwait.Wait {
	return &lockwait.Wait{
		Table: lk.rules.table, Signals: lk.callers.proc, Thread: d.c.TID(), Class: d.class,
		Limit: d.wait, Until: &d.until, Stop: lk.life.timeUp, Cancel: cancel, Keep: d.keep, Again: d.triesAgain(),
	}
}

// maxPath is how long a path may be from the mount's root. Programs that go down step by
// step come deeper than one system call can name; but the path stands in sessions, in the
// history and in the audit trail.
const maxPath = 4 * unix.PathMax

// errTooDeep refuses to change what has a longer one.
var errTooDeep = errors.New("the path is longer than a path may be")

// isTooDeep reports whether the demand is for a name so deep. What is there can be removed.
func (lk *locks) isTooDeep(d *demand) bool {
	if d.class != lockmgr.Session || d.op == opUnlink || d.op == opRmdir {
		return false
	}
	return len(d.path) >= maxPath || len(d.places) > 1 && slices.ContainsFunc(d.places[1:], func(p place) bool {
		return len(lk.nodes.path(p.dir, p.name)) >= maxPath
	})
}
