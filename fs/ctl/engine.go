package ctl

import (
	"errors"
	"time"

	"golang.org/x/sys/unix"

	"latchfs/fs/account"
	"latchfs/fs/lockkey"
	"latchfs/fs/report"
	"latchfs/lockmgr"
	"latchfs/lockmgr/policy"
	"latchfs/lockmgr/proc"
)

// Caller is a process that has sent a request.
type Caller interface {
	// TID is the id of its thread, 0 if that cannot be seen.
	TID() uint32
	UID() uint32
	GID() uint32
	Owner() lockmgr.Owner
	// Foreign reports whether nothing is known about the process.
	Foreign() bool
	// Ancestors are the process's ancestors, the nearest first.
	Ancestors() []lockmgr.Ancestor
}

// ErrAtWork refuses to take a lock away from a holder that is about to finish what it has it
// for, and then ends it.
var ErrAtWork = errors.New("the holder is about to finish")

// Engine is what the requests are about: files, their locks, and who may do what.
type Engine interface {
	// MayLock refuses a lock that the caller may not take. A weak one keeps no writers
	// out.
	MayLock(c Caller, t *lockkey.Target, m lockmgr.Mode) (weak bool, err error)
	// MayClaim refuses a claim that stands, which keeps writers out also where the
	// directory of a path is still to be made.
	MayClaim(c Caller, t *lockkey.Target) error
	// IsOrphaned reports whether nobody lives who may have a standing claim.
	IsOrphaned(cl *Claim) bool
	// Owns reports whether the file at a path is the caller's or, where there is none,
	// the directory.
	Owns(c Caller, path string) bool
	// Reserved reports whether no file may have this name, in the root or elsewhere.
	Reserved(name string, inRoot bool) bool
	// Settings are the policy's for a path.
	Settings(path string) policy.Settings

	// Keys are the lock table's names for a target.
	Keys(t *lockkey.Target) (keys, trees []lockmgr.Key)
	// NameKeys are those of a path alone. It takes no mutex.
	NameKeys(path string) []lockmgr.Key
	// HoldPaths keeps the paths of directories as they are, until release is called.
	HoldPaths() (release func())
	// Acquire enters a request into the lock table, and the claim into Claims.
	Acquire(a *Ask) (*lockmgr.Lock, error)
	// Take is Acquire of what is not waited for, where no directory gets another name
	// meanwhile: HoldPaths is not for those who are in the middle of a commit.
	Take(a *Ask) (*lockmgr.Lock, error)
	// Covers reports whether a lock is on all that its claim is on: a file may have been
	// renamed while it was waited for.
	Covers(l *lockmgr.Lock, cl *Claim) bool
	// Join makes the caller a descendant of whoever holds the lock that its environment
	// names, and returns that holder, nil if there is none.
	Join(c Caller) *lockmgr.Ancestor
	// Fenced refuses the keys to the descendants of a stolen claim on them.
	Fenced(c Caller, keys []lockmgr.Key) error
	// SettleThefts does what follows from the locks that were stolen; by is the thief, nil
	// if that was the next in the queue.
	SettleThefts(by Caller)
	// Steal has take take locks away for the thief by, and does what follows. The next in the
	// queue, who may have them before take returns, does nothing of that meanwhile.
	Steal(by Caller, take func())
	// Revoke takes an active lock away, for take of Steal. It refuses with ErrAtWork while
	// its holder is about to finish what it has the lock for.
	Revoke(h *lockmgr.Holder) error
	// CoverToken makes sure that no lock gets the token again after a crash.
	CoverToken(token uint64) error

	// IsInTxn reports whether the caller is part of a transaction.
	IsInTxn(c Caller) bool
	// BeginTxn makes a claim a transaction, with SetTxn.
	BeginTxn(cl *Claim)

	// Viewer is the caller as somebody who looks into .locks.
	Viewer(c Caller) report.Viewer
	// Record describes a lock, as it is shown under a key.
	Record(h *lockmgr.Holder, key string) report.Record
	// Refused remembers a refusal for .locks/why and the audit trail.
	Refused(r *Refusal)
	// Tell writes an event about a claim to the audit trail. The detail is the event's.
	Tell(event string, cl *Claim, o lockmgr.Owner, detail map[string]any)
	// TellLabel writes to the audit trail that a process was given a label.
	TellLabel(o lockmgr.Owner, name string, uid uint32)
	// Erase erases what is kept of a file, one version or (0) all with the refused bytes,
	// as far as it is that of users who are mine.
	Erase(c Caller, path string, version uint64, mine func(uid uint32) bool) (Erased, error)
	// Unerased says what Erase leaves, as far as the viewer may know of it. It changes
	// nothing.
	Unerased(v report.Viewer, path string, version uint64) Unerased

	// Pin keeps the content of a version until release is called, if the viewer may know of
	// the version and there is one.
	Pin(v report.Viewer, path string, version uint64) (release func(), ok bool)

	// IsStopping reports whether no lock is taken any more; Notice says so to people.
	IsStopping() bool
	Notice() string
}

// Ask asks for a claim's lock.
type Ask struct {
	Claim   *Claim
	By      Caller
	Owner   lockmgr.Owner // whose the lock is to be
	Lineage []lockmgr.Ancestor
	Mode    lockmgr.Mode
	Weak    bool
	Wait    time.Duration // 0 fails at once, < 0 waits for ever
	TTL     time.Duration // 0: no lease
	Yields  bool          // once stale, it may be taken by whoever waits
	Steal   bool          // take it from holders whose lease has expired
	Inbox   *lockmgr.Inbox
}

// Erased counts what was erased.
type Erased struct {
	Versions, Rejected int
	Bytes              int64
}

// Unerased is what is there besides what is kept of a path or a version of it.
type Unerased struct {
	Known   bool     // there is, or was, this version
	Current bool     // it is what the file holds now
	Below   bool     // something is kept of files below the path
	Names   []string // other names of the file under which something of it is kept
}

// Refusal is a request for a lock that was refused.
type Refusal struct {
	Claim      *Claim
	By         Caller
	Path, Name string // what of the claim's target was not to be had
	Errno      unix.Errno
	Wait       time.Duration
	Reason     string // for people who are shown the holder beside it
	Full       string // for others
	Holder     *report.Record
}

// Label is what the engine keeps in the lock table beside a lock.
type Label interface {
	// UID is the user who has taken the lock.
	UID() uint32
	// Claim is the claim whose lock it is, nil if it is no claim's.
	Claim() *Claim
}

// labelOf is the engine's label of a lock, nil if it has none.
func labelOf(h *lockmgr.Holder) Label {
	lb, _ := h.Label.(Label)
	return lb
}

// Txn is a transaction under way.
type Txn interface {
	// Token is its id.
	Token() uint64
	// Commit publishes all of it. If it is not done, err says why; if it is and there is
	// an error, it is not known to be on disk.
	Commit() (done bool, err error)
	// Rollback takes everything back, unless it is over.
	Rollback(reason string)
	// Forget lets its members be ordinary processes again.
	Forget()
}

// Procs tells of processes; *proc.Reader says what each method answers.
type Procs interface {
	Process(pid int32) (proc.Thread, error)
	All() []lockmgr.Owner
	Lineage(pid int32) []lockmgr.Ancestor
	IDs(pid int32) []int32
	Family(o lockmgr.Owner) proc.Family
	Descendants(pid int32) []int32
	Alive(o lockmgr.Owner) bool
	Exit(tid uint32) (sig int, exiting bool)
	Watch(o lockmgr.Owner) (dead <-chan struct{}, stop func(), err error)
	Pending(tid uint32) proc.Pending
	Opens(pid int32, f proc.File) (writable, readable int, err error)
	Describe(pid int32) proc.Description
	EnvOf(o lockmgr.Owner, names []string) string
}

// Views is what .locks shows.
type Views interface {
	Held() []report.Record
	Sight(v report.Viewer) report.Sight
}

// Config is what a Server stands on.
type Config struct {
	Engine   Engine
	Procs    Procs
	Table    lockmgr.Authority
	Book     *account.Book // of what users make the daemon keep
	Views    Views
	Defaults policy.Settings // for locks that stand for no file
	ActorEnv []string        // variables by which a process says under which label it works
	Epoch    string          // tells the ids of claims from those of other runs
	Draining <-chan struct{} // closed when waits are to be given up
	Done     <-chan struct{} // closed when the mount is gone
}

// Server has all conversations, claims and labels of a mount.
type Server struct {
	Config
	Claims *Claims
	Actors *Actors
}

// New makes a server, whose Config is complete.
func New(c Config) *Server {
	return &Server{Config: c, Claims: newClaims(&c), Actors: newActors(&c)}
}
