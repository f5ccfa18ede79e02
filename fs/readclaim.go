package fs

import (
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"latchfs/fs/access"
	"latchfs/fs/lockkey"
	"latchfs/fs/reach"
	"latchfs/fs/readclaim"
	"latchfs/lockmgr"
	"latchfs/lockmgr/knowledge"
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
	f.readClaims = readclaim.NewClaims(readclaim.Config{
		Enabled: claims(f.policy.Defaults().LostUpdate) || slices.ContainsFunc(f.policy.Rules(), func(r policy.Rule) bool {
			return claims(r.LostUpdate)
		}),
		Table: f.table, Procs: f.proc, Logf: f.log.Debugf, Done: f.done,
		Ended: func(program string, written bool) { f.lessons.Ended(program, written) },
	})
}

// meetReadClaims is for a demand that may meet the claims of reads, or ends the marks of a
// process that has read without writing.
func (f *FS) meetReadClaims(d *demand) {
	claims, marks := f.readClaims.Any()
	if marks = marks && d.mode == lockmgr.Exclusive; !claims && !marks {
		return
	}
	var paths []string
	for _, p := range d.places {
		paths = append(paths, f.path(p.dir, p.name))
	}
	f.readClaims.AwaitHeirs(d.c.owner, paths)
	if marks {
		of := []lockmgr.Owner{d.c.owner}
		for _, a := range d.c.ancestors() {
			of = append(of, a.Owner)
		}
		f.readClaims.Unmark(of, paths)
	}
}

// learnOfWrite notes for adaptive paths who has made a new version.
func (f *FS) learnOfWrite(path string, who knowledge.Who) {
	if f.lessons == nil {
		return
	}
	if set := f.settings(path); set.LostUpdate == policy.Adaptive {
		f.lessons.Wrote(path, who, set.Fade)
	}
}

// claimRead takes the claim of an open for reading, where the policy says that
// reads claim, and waits for those who have it. The kernel holds no lock here.
// ESTALE means that the caller shall find the version that has been committed in
// the meantime.
func (f *FS) claimRead(cancel <-chan struct{}, in *OpenRequest, n *inode) unix.Errno {
	r := f.readingOf(in, n)
	if r == nil {
		return 0
	}
	for {
		if cl := f.readClaims.Of(r.c.owner, r.path); cl != nil && f.readClaims.Prolong(cl, r.set.ClaimTTL) {
			break
		}
		d := f.fileDemand(r.c, opRead, r.set.Wait, r.p)
		d.mode, d.gate, d.since, d.ttl, d.yields = lockmgr.Update, true, readclaim.SinceEver, 0, false
		d.label = r.c.label(opRead, r.path)
		d.label.read = readclaim.New(r.reader)
		if f.fenced(r.c, f.keysOf(d.places)) != nil {
			return 0 // what it writes is refused; it may look
		}
		began := time.Now()
		// A write-open's place in the queue is another one.
		l, e := f.lockOrResume(d, [2]dkey{r.p.key(), r.p.key()}, nil, cancel)
		if e != 0 && f.isClosing() {
			return 0 // nobody will write any more
		}
		if e != 0 {
			return e
		}
		f.ns.RLock() // a directory above may have been renamed while it waited
		entered := f.readClaims.Enter(d.label.read, f.path(r.p.dir, r.p.name), l, r.set.ClaimTTL)
		f.ns.RUnlock()
		if entered {
			f.lessons.Claimed(r.reader.Program)
			break
		}
		if !f.proc.Alive(r.c.owner) || time.Since(began) > r.set.Wait {
			return unix.EINTR
		}
	}
	if f.isReplaced(n) && !f.walks.Repeated(r.c) {
		return f.staleAt(r.c, n)
	}
	return 0
}

// readingOf tells whether an open for reading claims; nil if not.
func (f *FS) readingOf(in *OpenRequest, n *inode) *reading {
	rs := f.readClaims
	if !rs.Enabled || f.opts.ReadOnly || in.Flags&(unix.O_NONBLOCK|fmodeExec) != 0 || !n.isRegular() || f.isClosing() {
		return nil
	}
	dir, name := f.nameOf(n)
	if dir == nil {
		return nil
	}
	r := &reading{p: place{dir, name, n}, path: f.path(dir, name)}
	r.set = f.settings(r.path)
	serialize, adaptive := r.set.LostUpdate == policy.Serialize, r.set.LostUpdate == policy.Adaptive
	if r.set.Mode != policy.Atomic || !serialize && !adaptive || f.isAutoLive(n) {
		return nil
	}
	s := f.sessionOn(n, dir, name)
	if _, ok := f.named(n); !ok && s == nil {
		return nil // it was opened by a descriptor, and has no name any more
	}
	r.c = f.callerOf(&in.Request)
	if r.c.foreign() || f.txnOf(r.c) != nil || !r.mayReplace(f) || r.observes(f) {
		return nil
	}
	if s != nil && r.c.kinOf(s.who.Load()) {
		return nil
	}
	family := f.proc.Family(r.c.owner)
	if family.Interactive {
		return nil // it has no end, and nobody knows what it does next
	}
	r.reader = readclaim.Reader{Owner: r.c.owner, Comm: r.c.program(), Relatives: family.Relatives}
	if adaptive {
		r.reader.Program = f.proc.Identify(r.c.owner.PID).String()
		if !f.lessons.Read(r.path, r.reader.Program, r.c.uid, r.c.owner, family.Relatives) {
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
func (r *reading) mayReplace(f *FS) bool {
	if reach.May(r.c.user(), f.fdOf(r.p.inode), access.Write) {
		return true
	}
	var st unix.Stat_t
	return reach.May(r.c.user(), f.fdOf(r.p.dir), access.Write) &&
		unix.Fstat(f.fdOf(r.p.inode), &st) == nil && f.mayTake(r.c, r.p.dir, &st) == 0
}

// observes reports whether the policy names the reader as one that never writes.
func (r *reading) observes(f *FS) bool {
	if len(r.set.Observers) == 0 {
		return false
	}
	if r.set.Observes(r.c.program()) {
		return true
	}
	p := f.proc.Identify(r.c.owner.PID)
	return r.set.Observes(p.Comm, p.Exe, p.Script)
}

// family is the caller with its relatives.
func (c *caller) family() knowledge.Who {
	who, _ := c.f.updates.LearnersOf(c.owner)
	return who
}

// inodeKeys are the keys of the session's lock that stand for an inode with several
// names: of any of them a claim may be.
func (s *session) inodeKeys() []lockmgr.Key {
	if !s.inPlace {
		return nil
	}
	return slices.DeleteFunc(s.lock.Keys(), func(k lockmgr.Key) bool { return !lockkey.IsInode(k) })
}
