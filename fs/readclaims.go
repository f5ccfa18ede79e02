package fs

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"latchfs/lockmgr"
	"latchfs/lockmgr/knowledge"
	"latchfs/lockmgr/policy"
	"latchfs/lockmgr/proc"
)

// readClaim is the update lock that an open for reading has taken, so that who
// reads in order to write comes one after the other (DESIGN 6). It belongs to a
// process, at first the reader; when that exits as programs do that have done
// their work, to its nearest relative who lives: `jq . f > t && mv t f` reads in one
// process and renames in another, with the shell as their parent.
//
// It is a gate: the whole family of its owner passes, and each of them who reads
// claims for itself, so that the workers of one script wait for each other, too.
//
// It ends with the family's next version of the file, with its owner when that is
// killed or fails, or that has no relatives, and when nobody of the family has read
// for the policy's claim-ttl.
type readClaim struct {
	label  *label
	reader lockmgr.Owner
	comm   string // of the reader
	// program is what has been learned to write back, where that is why it claims.
	program string

	// Guarded by readClaims.mu.
	path  string
	lock  *lockmgr.Lock // nil before it is granted
	owner lockmgr.Owner
	heirs []lockmgr.Owner // whose it may be next
	until time.Time
	timer *time.Timer
	ended bool
}

// family is a process that has claims.
type family struct {
	owner  lockmgr.Owner
	claims map[*readClaim]struct{}
	quit   chan struct{} // closed when the last claim is gone
	passed chan struct{} // closed when the claims of a dead process are others'
	dead   bool
}

// readClaims are all of them.
type readClaims struct {
	f       *FS
	enabled bool         // the policy knows paths where reads claim
	n       atomic.Int32 // claims
	marked  atomic.Int32 // marks

	mu       sync.Mutex // guards what follows
	families map[lockmgr.Owner]*family
	marks    map[mark]bool
}

const (
	// maxFamilyClaims bounds the claims of one process: who reads so much writes
	// little of it back.
	maxFamilyClaims = 256
	// goneGrace is how long a claim outlives its file: tools that unlink and create
	// do so at once.
	goneGrace = 500 * time.Millisecond
	// passGrace bounds the wait for the claims of a process that is dead to be
	// passed on, which takes no time.
	passGrace = 50 * time.Millisecond
)

// sinceEver is before the birth of every process: all descendants are heirs.
var sinceEver = lockmgr.Birth{PID: -1}

func newReadClaims(f *FS) *readClaims {
	rs := &readClaims{f: f, families: map[lockmgr.Owner]*family{}, marks: map[mark]bool{}}
	claims := func(l policy.LostUpdate) bool { return l == policy.Serialize || l == policy.Adaptive }
	rs.enabled = claims(f.policy.Defaults().LostUpdate) || slices.ContainsFunc(f.policy.Rules(), func(r policy.Rule) bool {
		return claims(r.LostUpdate)
	})
	return rs
}

// of is the claim on a path that a process has, nil if none.
func (rs *readClaims) of(o lockmgr.Owner, path string) *readClaim {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	return rs.ofLocked(o, path)
}

func (rs *readClaims) ofLocked(o lockmgr.Owner, path string) *readClaim {
	if fam := rs.families[o]; fam != nil {
		for cl := range fam.claims {
			if cl.path == path {
				return cl
			}
		}
	}
	return nil
}

// isFull reports whether a process has as many claims as it may have.
func (rs *readClaims) isFull(o lockmgr.Owner) bool {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	fam := rs.families[o]
	return fam != nil && len(fam.claims) >= maxFamilyClaims
}

// prolong notes another read of the owner. Where others wait the claim ends when
// it would have: a program that reads again and again would keep them out for ever.
// It is false if the claim has ended.
func (rs *readClaims) prolong(cl *readClaim, ttl time.Duration) bool {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	if cl.ended {
		return false
	}
	if !rs.f.table.IsAwaited(cl.lock) {
		cl.until = time.Now().Add(ttl)
	}
	return true
}

// enter makes a granted lock the claim of its reader. It is false if that has
// died, or the claim has ended already.
func (rs *readClaims) enter(cl *readClaim, l *lockmgr.Lock, ttl time.Duration) bool {
	fam := rs.joinAndLock(cl.reader)
	defer rs.mu.Unlock()
	if fam == nil || cl.ended {
		cl.ended = true
		rs.leaveLocked(fam, nil)
		rs.f.table.Release(l)
		return false
	}
	rs.n.Add(1)
	cl.lock, cl.owner, cl.until = l, cl.reader, time.Now().Add(ttl)
	cl.timer = time.AfterFunc(ttl, func() { rs.expire(cl) })
	old := rs.ofLocked(cl.reader, cl.path)
	fam.claims[cl] = struct{}{}
	if old != nil { // another thread was as fast
		rs.replaceLocked(old, cl)
	}
	return true
}

// joinAndLock returns the family of a process, made if need be and then watched,
// and locks rs.mu. It is nil if the process is dead.
func (rs *readClaims) joinAndLock(o lockmgr.Owner) *family {
	rs.mu.Lock()
	if fam := rs.families[o]; fam != nil {
		return fam.living()
	}
	rs.mu.Unlock()
	dead, end, stop, err := rs.f.proc.WatchEnd(o)
	if err != nil {
		rs.f.log.Debugf("the end of process %d cannot be watched: %v", o.PID, err)
		dead, end, stop = nil, func() proc.End { return proc.End{} }, func() {}
	}
	alive := rs.f.proc.Alive(o)
	rs.mu.Lock()
	if fam := rs.families[o]; fam != nil || !alive {
		stop()
		return fam.living()
	}
	fam := &family{owner: o, claims: map[*readClaim]struct{}{}, quit: make(chan struct{}), passed: make(chan struct{})}
	rs.families[o] = fam
	go rs.attend(fam, dead, end, stop)
	return fam
}

// living is fam, or nil if it is none or its claims are being passed on.
func (fam *family) living() *family {
	if fam == nil || fam.dead {
		return nil
	}
	return fam
}

// replaceLocked ends a claim in favour of another one of the same owner. Where others
// wait that ends no later, for the reason that prolong gives. rs.mu is held.
func (rs *readClaims) replaceLocked(old, cl *readClaim) {
	if old.until.Before(cl.until) && rs.f.table.IsAwaited(cl.lock) {
		rs.shortenLocked(cl, old.until)
	}
	rs.endLocked(old, replaced)
}

// shortenLocked lets a claim end at a moment, if it would end later. rs.mu is held.
func (rs *readClaims) shortenLocked(cl *readClaim, until time.Time) {
	if cl.lock != nil && !cl.ended && until.Before(cl.until) {
		cl.until = until
		cl.timer.Reset(max(time.Until(until), 0))
	}
}

// expire ends a claim whose time is up.
func (rs *readClaims) expire(cl *readClaim) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	if cl.ended {
		return
	}
	if rest := time.Until(cl.until); rest > 0 {
		cl.timer.Reset(rest)
		return
	}
	rs.markLocked(cl)
	rs.endLocked(cl, inVain)
}

// outcome is what came of a claim.
type outcome uint8

const (
	inVain   outcome = iota // its family has not written the file
	used                    // it has
	replaced                // the family has another lock
)

// endLocked lets the next one read. rs.mu is held.
func (rs *readClaims) endLocked(cl *readClaim, how outcome) {
	if cl.ended {
		return
	}
	cl.ended = true
	if cl.lock == nil {
		return // its reader is about to find out
	}
	rs.n.Add(-1)
	cl.timer.Stop()
	rs.leaveLocked(rs.families[cl.owner], cl)
	rs.f.table.Release(cl.lock)
	if how != replaced {
		rs.f.lessons.Ended(cl.program, how == used)
	}
}

// leaveLocked takes a claim, if any, out of its family, and forgets a family that
// has none left. rs.mu is held.
func (rs *readClaims) leaveLocked(fam *family, cl *readClaim) {
	if fam == nil {
		return
	}
	delete(fam.claims, cl)
	if len(fam.claims) == 0 && !fam.dead && rs.families[fam.owner] == fam {
		delete(rs.families, fam.owner)
		close(fam.quit)
	}
}

// on are the claims that are held on a path, or on an inode with several names.
func (rs *readClaims) on(path string, inodes ...lockmgr.Key) []*readClaim {
	if rs.n.Load() == 0 {
		return nil
	}
	var claims []*readClaim
	for _, h := range rs.f.table.Holders(append(inodes, lockmgr.Key(path)), nil) {
		if lb, ok := h.Label.(*label); ok && lb.read != nil {
			claims = append(claims, lb.read)
		}
	}
	return claims
}

// written ends the claims on a path of which who has made a new version: those who
// have them let the writer in, so it was for their sake. The writer's lock is still
// held, or has just been.
func (rs *readClaims) written(path string, who knowledge.Who, inodes ...lockmgr.Key) {
	if ls := rs.f.lessons; ls != nil {
		if set := rs.f.settings(path); set.LostUpdate == policy.Adaptive {
			ls.Wrote(path, who, set.Fade)
		}
	}
	claims := rs.on(path, inodes...)
	rs.mu.Lock()
	defer rs.mu.Unlock()
	for _, cl := range claims {
		rs.endLocked(cl, used)
	}
}

// removed lets the claims on a path end soon that leads to nothing now.
func (rs *readClaims) removed(path string) {
	claims := rs.on(path)
	rs.mu.Lock()
	defer rs.mu.Unlock()
	for _, cl := range claims {
		rs.shortenLocked(cl, time.Now().Add(goneGrace))
	}
}

// drop ends a claim because somebody says so.
func (rs *readClaims) drop(cl *readClaim) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	rs.endLocked(cl, replaced)
}

// locked ends the claim of a process that has locked the file by itself, with flock
// or fcntl: who does so says when he is done.
func (rs *readClaims) locked(o lockmgr.Owner, path string) {
	if rs.n.Load() == 0 {
		return
	}
	if cl := rs.of(o, path); cl != nil {
		rs.drop(cl)
	}
}
