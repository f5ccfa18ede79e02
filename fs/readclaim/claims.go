package readclaim

import (
	"sync"
	"sync/atomic"
	"time"

	"latchfs/lockmgr"
	"latchfs/lockmgr/proc"
)

// Claim is the claim of one read.
type Claim struct {
	reader  lockmgr.Owner
	comm    string // of the reader
	program string

	// Guarded by Claims.mu.
	path  string
	lock  *lockmgr.Lock // nil before it is granted
	owner lockmgr.Owner
	heirs []lockmgr.Owner // whose it may be next
	until time.Time
	timer *time.Timer
	ended bool
}

// Reader is who asks for a claim.
type Reader struct {
	Owner lockmgr.Owner
	Comm  string // what its program is called
	// Relatives are the processes whose the claim may be when the reader has exited, the
	// nearest first.
	Relatives []lockmgr.Owner
	// Program is what has been learned to write back, where that is why it claims.
	Program string
}

// New returns a claim that has no lock yet: it goes with the request for that (Labeled),
// and begins with Enter.
func New(r Reader) *Claim {
	return &Claim{reader: r.Owner, comm: r.Comm, program: r.Program, heirs: r.Relatives}
}

// Labeled is a label of a lock that may belong to a claim.
type Labeled interface {
	ReadClaim() *Claim // nil: the lock is of another kind
}

// family is a process that has claims.
type family struct {
	owner  lockmgr.Owner
	claims map[*Claim]struct{}
	quit   chan struct{} // closed when the last claim is gone
	passed chan struct{} // closed when the claims of a dead process are others'
	dead   bool
}

// Procs are the processes.
type Procs interface {
	Alive(o lockmgr.Owner) bool
	// WatchEnd closes dead when the process has ended; end says how, then. See
	// proc.Reader.WatchEnd.
	WatchEnd(o lockmgr.Owner) (dead <-chan struct{}, end func() proc.End, stop func(), err error)
}

// Config is what claims need.
type Config struct {
	Enabled bool // there are paths where reads claim; else there never is a claim
	Table   lockmgr.Authority
	Procs   Procs
	// Ended is told when a claim has ended for which something was learned of the program,
	// and whether its family has written the file. It must not call back.
	Ended func(program string, written bool)
	Logf  func(format string, args ...any) // for debugging
	Done  <-chan struct{}                  // closed when nobody's end is watched any more
}

// Claims are all of a mount.
type Claims struct {
	Config
	held   atomic.Int32 // claims
	marked atomic.Int32 // marks

	mu       sync.Mutex // guards what follows
	families map[lockmgr.Owner]*family
	marks    map[mark]bool
}

const (
	// mostOfProcess bounds the claims of one process: who reads so much writes little of
	// it back.
	mostOfProcess = 256
	// goneGrace is how long a claim outlives its file: tools that unlink and create
	// do so at once.
	goneGrace = 500 * time.Millisecond
	// passGrace bounds the wait for the claims of a process that is dead to be
	// passed on, which takes no time.
	passGrace = 50 * time.Millisecond
)

// SinceEver is before the birth of every process: all descendants of a claim's owner are
// heirs of its lock.
var SinceEver = lockmgr.Birth{PID: -1}

// NewClaims returns claims: none yet.
func NewClaims(c Config) *Claims {
	return &Claims{Config: c, families: map[lockmgr.Owner]*family{}, marks: map[mark]bool{}}
}

// Of is the claim on a path that a process has, nil if none.
func (cs *Claims) Of(o lockmgr.Owner, path string) *Claim {
	if cs.held.Load() == 0 {
		return nil
	}
	cs.mu.Lock()
	defer cs.mu.Unlock()
	return cs.ofLocked(o, path)
}

func (cs *Claims) ofLocked(o lockmgr.Owner, path string) *Claim {
	if fam := cs.families[o]; fam != nil {
		for cl := range fam.claims {
			if cl.path == path {
				return cl
			}
		}
	}
	return nil
}

// IsFull reports whether a process has as many claims as it may have.
func (cs *Claims) IsFull(o lockmgr.Owner) bool {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	fam := cs.families[o]
	return fam != nil && len(fam.claims) >= mostOfProcess
}

// Paths are the names with claims, each with what the program is called that has read it.
func (cs *Claims) Paths() map[string]string {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	all := map[string]string{}
	for _, fam := range cs.families {
		for cl := range fam.claims {
			all[cl.path] = cl.comm
		}
	}
	return all
}

// Prolong notes another read of the owner: the claim lasts for ttl from now on, unless
// others wait for it. It is false if the claim has ended.
func (cs *Claims) Prolong(cl *Claim, ttl time.Duration) bool {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if cl.ended {
		return false
	}
	if !cs.Table.IsAwaited(cl.lock) {
		cl.until = time.Now().Add(ttl)
	}
	return true
}

// Enter makes a granted lock the claim of its reader on a path, for ttl. It is false if the
// reader has died, or the claim has ended already: the lock is given back then.
func (cs *Claims) Enter(cl *Claim, path string, l *lockmgr.Lock, ttl time.Duration) bool {
	fam := cs.joinAndLock(cl.reader)
	defer cs.mu.Unlock()
	if fam == nil || cl.ended {
		cl.ended = true
		cs.leaveLocked(fam, nil)
		cs.Table.Release(l)
		return false
	}
	cs.held.Add(1)
	cl.path, cl.lock, cl.owner, cl.until = path, l, cl.reader, time.Now().Add(ttl)
	cl.timer = time.AfterFunc(ttl, func() { cs.expire(cl) })
	old := cs.ofLocked(cl.reader, cl.path)
	fam.claims[cl] = struct{}{}
	if old != nil { // another thread was as fast
		cs.replaceLocked(old, cl)
	}
	return true
}

// joinAndLock returns the family of a process, made if need be and then watched,
// and locks cs.mu. It is nil if the process is dead.
func (cs *Claims) joinAndLock(o lockmgr.Owner) *family {
	cs.mu.Lock()
	if fam := cs.families[o]; fam != nil {
		return fam.living()
	}
	cs.mu.Unlock()
	dead, end, stop, err := cs.Procs.WatchEnd(o)
	if err != nil {
		cs.Logf("the end of process %d cannot be watched: %v", o.PID, err)
		dead, end, stop = nil, func() proc.End { return proc.End{} }, func() {}
	}
	alive := cs.Procs.Alive(o)
	cs.mu.Lock()
	if fam := cs.families[o]; fam != nil || !alive {
		stop()
		return fam.living()
	}
	fam := &family{owner: o, claims: map[*Claim]struct{}{}, quit: make(chan struct{}), passed: make(chan struct{})}
	cs.families[o] = fam
	go cs.attend(fam, dead, end, stop)
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
// wait that ends no later, for the reason that Prolong has. cs.mu is held.
func (cs *Claims) replaceLocked(old, cl *Claim) {
	if old.until.Before(cl.until) && cs.Table.IsAwaited(cl.lock) {
		cs.shortenLocked(cl, old.until)
	}
	cs.endLocked(old, replaced)
}

// shortenLocked lets a claim end at a moment, if it would end later. cs.mu is held.
func (cs *Claims) shortenLocked(cl *Claim, until time.Time) {
	if cl.lock != nil && !cl.ended && until.Before(cl.until) {
		cl.until = until
		cl.timer.Reset(max(time.Until(until), 0))
	}
}

// expire ends a claim whose time is up.
func (cs *Claims) expire(cl *Claim) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if cl.ended {
		return
	}
	if rest := time.Until(cl.until); rest > 0 {
		cl.timer.Reset(rest)
		return
	}
	cs.markLocked(cl)
	cs.endLocked(cl, inVain)
}

// outcome is what came of a claim.
type outcome uint8

const (
	inVain   outcome = iota // its family has not written the file
	used                    // it has
	replaced                // the family has another lock
)

// endLocked lets the next one read. cs.mu is held.
func (cs *Claims) endLocked(cl *Claim, how outcome) {
	if cl.ended {
		return
	}
	cl.ended = true
	if cl.lock == nil {
		return // its reader is about to find out
	}
	cs.held.Add(-1)
	cl.timer.Stop()
	cs.leaveLocked(cs.families[cl.owner], cl)
	cs.Table.Release(cl.lock)
	if how != replaced {
		cs.Ended(cl.program, how == used)
	}
}

// leaveLocked takes a claim, if any, out of its family, and forgets a family that
// has none left. cs.mu is held.
func (cs *Claims) leaveLocked(fam *family, cl *Claim) {
	if fam == nil {
		return
	}
	delete(fam.claims, cl)
	if len(fam.claims) == 0 && !fam.dead && cs.families[fam.owner] == fam {
		delete(cs.families, fam.owner)
		close(fam.quit)
	}
}

// on are the claims that are held on a path, or on an inode with several names.
func (cs *Claims) on(path string, inodes ...lockmgr.Key) []*Claim {
	if cs.held.Load() == 0 {
		return nil
	}
	var claims []*Claim
	for _, h := range cs.Table.Holders(append(inodes, lockmgr.Key(path)), nil) {
		if lb, ok := h.Label.(Labeled); ok && lb.ReadClaim() != nil {
			claims = append(claims, lb.ReadClaim())
		}
	}
	return claims
}

// Written ends the claims on a path, or on an inode with several names, of which somebody
// has made a new version: those who have them let the writer in, so it was for their sake.
// The writer's lock is still held, or has just been.
func (cs *Claims) Written(path string, inodes ...lockmgr.Key) {
	claims := cs.on(path, inodes...)
	cs.mu.Lock()
	defer cs.mu.Unlock()
	for _, cl := range claims {
		cs.endLocked(cl, used)
	}
}

// Removed lets the claims on a path end soon that leads to nothing now.
func (cs *Claims) Removed(path string) {
	claims := cs.on(path)
	cs.mu.Lock()
	defer cs.mu.Unlock()
	for _, cl := range claims {
		cs.shortenLocked(cl, time.Now().Add(goneGrace))
	}
}

// Drop ends a claim because somebody says so.
func (cs *Claims) Drop(cl *Claim) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	cs.endLocked(cl, replaced)
}

// Locked ends the claim of a process that has locked the file by itself, with flock
// or fcntl: who does so says when he is done.
func (cs *Claims) Locked(o lockmgr.Owner, path string) {
	if cl := cs.Of(o, path); cl != nil {
		cs.Drop(cl)
	}
}

// Follow gives the claims and the marks the paths by which their files are reached now
// that a directory was renamed.
func (cs *Claims) Follow(now func(path string) string) {
	if !cs.Enabled {
		return
	}
	cs.mu.Lock()
	defer cs.mu.Unlock()
	for _, fam := range cs.families {
		for cl := range fam.claims {
			cl.path = now(cl.path)
		}
	}
	cs.moveMarksLocked(now)
}
