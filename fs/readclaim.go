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
func (pk *parking) claimRead(cancel <-chan struct{}, in *OpenRequest, n *inode) unix.Errno {
	r := pk.readingOf(in, n)
	if r == nil {
		return 0
	}
	for {
		if cl := pk.locks.readClaims.Of(r.c.owner, r.path); cl != nil && pk.locks.readClaims.Prolong(cl, r.set.ClaimTTL) {
			break
		}
		d := pk.txns.fileDemand(r.c, opRead, r.set.Wait, r.p)
		d.mode, d.gate, d.since, d.ttl, d.yields = lockmgr.Update, true, readclaim.SinceEver, 0, false
		d.label = r.c.label(opRead, r.path)
		d.label.read = readclaim.New(r.reader)
		if pk.locks.fenced(r.c, pk.rules.keysOf(d.places)) != nil {
			return 0 // what it writes is refused; it may look
		}
		began := time.Now()
		// A write-open's place in the queue is another one.
		l, e := pk.lockOrResume(d, [2]dkey{r.p.key(), r.p.key()}, nil, cancel)
		if e != 0 && pk.life.isClosing() {
			return 0 // nobody will write any more
		}
		if e != 0 {
			return e
		}
		pk.nodes.ns.RLock() // a directory above may have been renamed while it waited
		entered := pk.locks.readClaims.Enter(d.label.read, pk.nodes.path(r.p.dir, r.p.name), l, r.set.ClaimTTL)
		pk.nodes.ns.RUnlock()
		if entered {
			pk.losses.lessons.Claimed(r.reader.Program)
			break
		}
		if !pk.callers.proc.Alive(r.c.owner) || time.Since(began) > r.set.Wait {
			return unix.EINTR
		}
	}
	if pk.names.isReplaced(n) && !pk.astray.walks.Repeated(r.c) {
		return pk.astray.staleAt(r.c, n)
	}
	return 0
}

// readingOf tells whether an open for reading claims; nil if not.
func (pk *parking) readingOf(in *OpenRequest, n *inode) *reading {
	rs := pk.locks.readClaims
	if !rs.Enabled || pk.disk.opts.ReadOnly || in.Flags&(unix.O_NONBLOCK|fmodeExec) != 0 || !n.isRegular() || pk.life.isClosing() {
		return nil
	}
	dir, name := pk.nodes.nameOf(n)
	if dir == nil {
		return nil
	}
	r := &reading{p: place{dir, name, n}, path: pk.nodes.path(dir, name)}
	r.set = pk.rules.settings(r.path)
	serialize, adaptive := r.set.LostUpdate == policy.Serialize, r.set.LostUpdate == policy.Adaptive
	if r.set.Mode != policy.Atomic || !serialize && !adaptive || pk.rules.isAutoLive(n) {
		return nil
	}
	s := pk.nodes.sessionOn(n, dir, name)
	if _, ok := pk.nodes.named(n); !ok && s == nil {
		return nil // it was opened by a descriptor, and has no name any more
	}
	r.c = pk.callers.callerOf(&in.Request)
	if r.c.foreign() || pk.callers.txnOf(r.c) != nil || !r.mayReplace(pk) || r.observes(pk) {
		return nil
	}
	if s != nil && r.c.kinOf(s.who.Load()) {
		return nil
	}
	family := pk.callers.proc.Family(r.c.owner)
	if family.Interactive {
		return nil // it has no end, and nobody knows what it does next
	}
	r.reader = readclaim.Reader{Owner: r.c.owner, Comm: r.c.program(), Relatives: family.Relatives}
	if adaptive {
		r.reader.Program = pk.callers.proc.Identify(r.c.owner.PID).String()
		if !pk.losses.lessons.Read(r.path, r.reader.Program, r.c.uid, r.c.owner, family.Relatives) {
			return nil
		}
	}
	if rs.IsMarked(r.reader, r.path) || rs.IsFull(r.c.owner) {
		return nil
	}
	return r
}

// mayReplace reports whether the reader could write the file, or put another in its place:
// who cannot keeps nobody from it.
func (r *reading) mayReplace(pk *parking) bool {
	if reach.May(r.c.user(), pk.nodes.fdOf(r.p.inode), access.Write) {
		return true
	}
	var st unix.Stat_t
	return reach.May(r.c.user(), pk.nodes.fdOf(r.p.dir), access.Write) &&
		unix.Fstat(pk.nodes.fdOf(r.p.inode), &st) == nil && pk.callers.mayTake(r.c, r.p.dir, &st) == 0
}

// observes reports whether the policy names the reader as one that never writes.
func (r *reading) observes(pk *parking) bool {
	if len(r.set.Observers) == 0 {
		return false
	}
	if r.set.Observes(r.c.program()) {
		return true
	}
	p := pk.callers.proc.Identify(r.c.owner.PID)
	return r.set.Observes(p.Comm, p.Exe, p.Script)
}
