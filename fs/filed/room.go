package filed

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"latchfs/fs/claimfile"
	"latchfs/fs/ctl"
	"latchfs/fs/lockkey"
	"latchfs/lockmgr"
	"latchfs/lockmgr/policy/lockfile"
	"latchfs/lockmgr/proc"
)

// Place is where a claim file is: a name, which its directories take along. It is
// comparable.
type Place any

// Engine is what a Room works on.
type Engine interface {
	// Path is the path of a place now.
	Path(p Place) string
	// Remove removes a stale claim file; it asks MayRemove under the lock of the name.
	Remove(p Place) error
	// SettleThefts does what follows from a lock that was taken away.
	SettleThefts()
	// Tell writes an event about a claim to the audit trail.
	Tell(event string, cl *ctl.Claim, o lockmgr.Owner, detail map[string]any)
	// Log writes a line to the log of the daemon.
	Log(path, line string)
	// MayHold reports whether a process may have the claim that somebody else has filed.
	MayHold(by ctl.Caller, o lockmgr.Owner) bool
	// Changed is told that there is something new to remember over a restart.
	Changed()
	// Left is told that a claim at a place is over.
	Left(p Place)
}

// Locks are the locks of claims; *ctl.Server and *ctl.Claims have them.
type Locks interface {
	Stand(st *ctl.Standing) (*ctl.Claim, error)
	GiveBack(cl *ctl.Claim)
	HandTo(cl *ctl.Claim, o lockmgr.Owner, since lockmgr.Birth)
	Renew(cl *ctl.Claim, now time.Time)
	LastBeat(cl *ctl.Claim) time.Time
	Expire(cl *ctl.Claim, now time.Time)
	Revoke(cl *ctl.Claim)
}

// Procs tells of processes; *proc.Reader says what each method answers.
type Procs interface {
	Process(pid int32) (proc.Thread, error)
	Alive(o lockmgr.Owner) bool
	WatchEnd(o lockmgr.Owner) (dead <-chan struct{}, end func() proc.End, stop func(), err error)
	Now() lockmgr.Birth
}

// Config is what a Room stands on.
type Config struct {
	Engine Engine
	Locks  Locks
	Procs  Procs
	Host   string
	Boot   time.Time
	Done   <-chan struct{} // closed when the mount is gone
}

// Room has all filed claims of a mount.
type Room struct {
	c Config
	n atomic.Int32 // claims, those that were lost among them

	mu   sync.Mutex // guards what follows, and all claims
	at   map[Place]*Claim
	of   map[*ctl.Claim]*Claim
	lost map[*Claim]struct{}
}

// New makes a room without claims.
func New(c Config) *Room {
	return &Room{c: c, at: map[Place]*Claim{}, of: map[*ctl.Claim]*Claim{}, lost: map[*Claim]struct{}{}}
}

// Member is a process that may hold a claim, with those of its descendants that were born
// after a moment.
type Member struct {
	Owner lockmgr.Owner
	Since lockmgr.Birth
}

// Filing is a version of a claim file.
type Filing struct {
	At     Place
	Rule   *lockfile.Convention
	Target lockkey.Target // what it stands for, and the file itself
	// By has written it; Chain is who may hold it, the nearest first: the writer and its
	// ancestors up to an interactive shell.
	By      ctl.Caller
	Chain   []Member
	Content claimfile.Content
	Made    time.Time // when it got its content
	// Restored: it was there when the mount started, and By stands for its owner. Of the
	// chain those who live may have the claim.
	Restored bool
}

// Claim is one claim file's.
type Claim struct {
	place  Place
	rule   *lockfile.Convention
	target lockkey.Target
	by     ctl.Caller
	rec    *claimfile.Record // nil: malformed
	made   time.Time
	held   *ctl.Claim

	named    bool      // the chain is the process that the record names
	chain    []Member  // who may hold it next; the first holds it, if any
	progress time.Time // when it was last seen to be in use
	gone     time.Time // when the last of the chain was found dead; zero: somebody lives

	timer    *time.Timer   // looks whether it is stale by now; nil: time alone never makes it so
	watched  lockmgr.Owner // whose end is being watched
	unwatch  chan struct{} // closed to stop that
	passed   chan struct{} // closed when the holder has died and another one has the claim, or nobody
	from     lockmgr.Owner // the holder that has died last
	handing  chan struct{} // closed when that one's claim is another one's, or nobody's
	began    time.Time
	restored bool // see Filing.Restored
	failed   int  // how often its file could not be removed
	expired  bool // it was found stale
	removing bool // it is stale, and its file about to be removed
	over     bool
}

// Count is how many claims there are.
func (r *Room) Count() int { return int(r.n.Load()) }

// IsAt reports whether there is a claim at a place.
func (r *Room) IsAt(p Place) bool {
	if r.Count() == 0 || p == nil {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.at[p] != nil
}

// Has reports whether there is a claim at a place that is held, and not stale.
func (r *Room) Has(p Place) bool {
	if r.Count() == 0 {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	cl := r.at[p]
	return cl != nil && !r.judgeLocked(cl).Stale
}

// Holders are the claims that are held or lost, with who may have them.
func (r *Room) Holders() map[Place][]Member {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := make(map[Place][]Member, len(r.at))
	for p, cl := range r.at {
		all[p] = cl.chain
	}
	return all
}

// judgeLocked judges a claim now. r.mu is held.
func (r *Room) judgeLocked(cl *Claim) claimfile.Verdict {
	if beat := r.c.Locks.LastBeat(cl.held); beat.After(cl.progress) {
		cl.progress = beat
	}
	return claimfile.Judge(cl.rule, cl.rec, &claimfile.Look{
		Now: time.Now(), Boot: r.c.Boot, Host: r.c.Host, Made: cl.made, Progress: cl.progress,
		Gone: !cl.gone.IsZero(), Dead: r.deadFor(cl),
	})
}

// deadFor tells for a claim whether a process is dead. The process that is known to have
// the claim is told from a later one with its id.
func (r *Room) deadFor(cl *Claim) func(pid int32) bool {
	return func(pid int32) bool {
		switch {
		case cl.named && !cl.gone.IsZero():
			return true
		case len(cl.chain) > 0 && cl.chain[0].Owner.PID == pid:
			return !r.c.Procs.Alive(cl.chain[0].Owner)
		case cl.by.Foreign() && !cl.restored:
			return false // the id may be of another pid namespace
		}
		_, err := r.c.Procs.Process(pid)
		return errors.Is(err, proc.ErrGone)
	}
}
