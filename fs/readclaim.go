package fs

import (
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"latchfs/fs/access"
	"latchfs/fs/reach"
	"latchfs/fs/readclaim"
	"latchfs/lockmgr"
	"latchfs/lockmgr/policy"
)

// opRead is what a claim is held or wanted for.
const opRead = "read"

// reading is one OPEN for reading where reads claim.
type reading struct {
	c      *caller
	p      place
	path   string
	set    policy.Settings
	reader readclaim.Reader
}

// openReadClaims makes what keeps the claims of reads. The policy, the processes and the
// lock table are known.
func (f *FS) openReadClaims() {
	claims := func(l policy.LostUpdate) bool { return l == policy.Serialize || l == policy.Adaptive }
	f.locks.readClaims = readclaim.NewClaims(readclaim.Config{
		Enabled: claims(f.rules.policy.Defaults().LostUpdate) || slices.ContainsFunc(f.rules.policy.Rules(), func(r policy.Rule) bool {
			return claims(r.LostUpdate)
		}),
		Table: f.rules.table, Procs: f.callers.proc, Logf: f.disk.log.Debugf, Done: f.life.done,
		Ended: func(program string, written bool) { f.losses.lessons.Ended(program, written) },
	})
}

// claimRead takes the claim of an open for reading, where the policy says that
// reads claim, and waits for those who have it. The kernel holds no lock here.
// ESTALE means that the caller shall find the version that has been committed in
// the meantime.
func (op *opens) claimRead(cancel <-chan struct{}, in *OpenRequest, n *inode) unix.Errno {
	r := op.readingOf(in, n)
	if r == nil {
		return 0
	}
	for {
		if cl := op.locks.readClaims.Of(r.c.Owner(), r.path); cl != nil && op.locks.readClaims.Prolong(cl, r.set.ClaimTTL) {
			break
		}
		d := op.locks.fileDemand(r.c, opRead, r.set.Wait, r.p)
		d.mode, d.gate, d.since, d.ttl, d.yields = lockmgr.Update, true, readclaim.SinceEver, 0, false
		d.label = labelOf(r.c, opRead, r.path)
		d.label.read = readclaim.New(r.reader)
		if op.locks.fenced(r.c, op.rules.keysOf(d.places)) != nil {
			return 0 // what it writes is refused; it may look
		}
		began := time.Now()
		// A write-open's place in the queue is another one.
		l, e := op.parking.lockOrResume(d, [2]dkey{r.p.key(), r.p.key()}, nil, cancel)
		if e != 0 && op.life.isStopping() {
			return 0 // nobody will write any more
		}
		if e != 0 {
			return e
		}
		op.nodes.ns.RLock() // a directory above may have been renamed while it waited
		entered := op.locks.readClaims.Enter(d.label.read, op.nodes.path(r.p.dir, r.p.name), l, r.set.ClaimTTL)
		op.nodes.ns.RUnlock()
		if entered {
			op.losses.lessons.Claimed(r.reader.Program)
			break
		}
		if !op.callers.proc.Alive(r.c.Owner()) || time.Since(began) > r.set.Wait {
			return unix.EINTR
		}
	}
	if op.nodes.isReplaced(n) && !op.astray.walks.IsRepeated(r.c) { // openRead asks again
		return op.astray.staleAt(r.c, n)
	}
	if op.astray.isRenamed(n) { // while it waited: the file may have another name, or have had several
		return op.astray.comesAstray(r.c, n, false)
	}
	return 0
}

// readingOf tells whether an open for reading claims; nil if not.
func (op *opens) readingOf(in *OpenRequest, n *inode) *reading {
	rs := op.locks.readClaims
	if !rs.Enabled || op.disk.opts.ReadOnly || in.Flags&(unix.O_NONBLOCK|fmodeExec) != 0 || !n.isRegular() || op.life.isStopping() {
		return nil
	}
	dir, name := op.nodes.nameOf(n)
	if dir == nil {
		return nil
	}
	r := &reading{p: place{dir, name, n}, path: op.nodes.path(dir, name)}
	r.set = op.rules.settings(r.path)
	serialize, adaptive := r.set.LostUpdate == policy.Serialize, r.set.LostUpdate == policy.Adaptive
	if r.set.Mode != policy.Atomic || !serialize && !adaptive || op.rules.isAutoLive(n) {
		return nil
	}
	s := op.nodes.sessionOn(n, dir, name)
	if _, ok := op.nodes.named(n); !ok && s == nil {
		return nil // it was opened by a descriptor, and has no name any more
	}
	r.c = op.callers.callerOf(&in.Request)
	if r.c.Foreign() || op.callers.txnOf(r.c) != nil || !r.mayReplace(op) || r.observes(op) {
		return nil
	}
	if s != nil && r.c.BelongsTo(s.who.Load()) {
		return nil
	}
	family := r.c.Family()
	if family.Interactive {
		return nil // it has no end, and nobody knows what it does next
	}
	r.reader = readclaim.Reader{Owner: r.c.Owner(), Comm: r.c.Program(), Relatives: family.Relatives}
	if adaptive {
		r.reader.Program = op.callers.proc.Identify(r.c.Owner().PID).String()
		if !op.losses.lessons.Read(r.path, r.reader.Program, r.c.UID(), r.c.Owner(), family.Relatives) {
			return nil
		}
	}
	if rs.IsMarked(r.reader, r.path) || rs.IsFull(r.c.Owner()) {
		return nil
	}
	return r
}

// mayReplace reports whether the reader could write the file, or put another in its place:
// who cannot keeps nobody from it.
func (r *reading) mayReplace(op *opens) bool {
	if reach.May(r.c.User(), op.nodes.fdOf(r.p.inode), access.Write) {
		return true
	}
	var st unix.Stat_t
	return reach.May(r.c.User(), op.nodes.fdOf(r.p.dir), access.Write) &&
		unix.Fstat(op.nodes.fdOf(r.p.inode), &st) == nil && op.callers.mayTake(r.c, r.p.dir, &st) == 0
}

// observes reports whether the policy names the reader as one that never writes.
func (r *reading) observes(op *opens) bool {
	if len(r.set.Observers) == 0 {
		return false
	}
	if r.set.Observes(r.c.Program()) {
		return true
	}
	p := op.callers.proc.Identify(r.c.Owner().PID)
	return r.set.Observes(p.Comm, p.Exe, p.Script)
}
