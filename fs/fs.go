package fs

import (
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"latchfs/fs/account"
	"latchfs/fs/advisory"
	"latchfs/fs/changes"
	"latchfs/fs/ctimes"
	"latchfs/fs/ctl"
	"latchfs/fs/datadir"
	"latchfs/fs/dcache"
	"latchfs/fs/filed"
	"latchfs/fs/filing"
	"latchfs/fs/heartbeat"
	"latchfs/fs/judge"
	"latchfs/fs/knowledgelog"
	"latchfs/fs/lessons"
	"latchfs/fs/lostupdate"
	"latchfs/fs/markers"
	"latchfs/fs/merging"
	"latchfs/fs/mounts"
	"latchfs/fs/reach"
	"latchfs/fs/readclaim"
	"latchfs/fs/records"
	"latchfs/fs/refusals"
	"latchfs/fs/rewalk"
	"latchfs/fs/selftest"
	"latchfs/fs/submounts"
	"latchfs/fs/tally"
	"latchfs/fs/transaction"
	"latchfs/fs/trim"
	"latchfs/fs/versions"
	"latchfs/journal"
	"latchfs/journal/audit"
	"latchfs/journal/commit"
	"latchfs/lockmgr"
	"latchfs/lockmgr/knowledge"
	"latchfs/lockmgr/policy"
)

// FS is the filesystem: it turns the kernel's requests into operations on the data directory.
// The kernel reaches it by Requests.
//
// Mutex order. Whoever holds one of these mutexes takes only mutexes of the lines below;
// those of one line are never held together. TestMutexOrder holds the source to it.
//
//	appends.Queue.mu, ctl.Conversation.mu, heartbeat.Heart.round, listing.Stream.mu
//	records.Appender.mu
//	FS.thefts
//	transaction.Txn.mu
//	FS.ns
//	FS.clientKeys
//	session.mu
//	FS.paths
//	advisory.Room.ends
//	handle.mu
//	filing.Clerk.mu, ioState.mu
//	FS.mu
//	filed.Room.mu
//	account.Turns.mu
//	FS.tokenMu, account.Book.mu, account.Presence.mu, account.Rate.mu, advisory.Room.mu
//	audit.Trail.mu, bases.Store.mu, ctl.Actors.mu, ctl.Claims.mu
//	heartbeat.Heart.mu, lessons.Lessons.file, markers.Finder.mu, mounts.Watch.mu
//	reach.Look.mu, readclaim.Claims.mu, records.Room.mu, refusals.Ring.mu, rejected.Store.mu
//	rewalk.Strangers.mu, rewalk.Table.mu, selftest.Test.mu, submounts.Table.mu
//	transaction.Running.mu, trim.Trimmer.mu, unfinished.Gaps.mu, versions.Recorder.mu, vnodes.Table.mu
//
// A transaction holds the mutexes of all its sessions at once. Nobody holds any mutex
// while waiting for a lock of the lock table, nor while sending the kernel an entry
// notification.
type FS struct {
	fault func(step string) error // see commit.Store.SetFault; set by simulations

	opts        Options
	log         Logger
	srv         Kernel
	policy      *policy.Policy
	table       *lockmgr.Table
	proc        Procs
	journal     *journal.Journal // nil when mounted read-only
	trail       *audit.Trail     // nil when mounted read-only
	trailFails  atomic.Bool      // the last event could not be written
	store       *commit.Store
	changes     *changes.Teller    // tells of changes of names
	versions    *versions.Recorder // enters changes of names into the history; nil when mounted read-only
	knowledge   *knowledge.Table   // who has read what; nil when mounted read-only
	remembers   *knowledgelog.Log  // keeps what is known over a restart; nil when mounted read-only
	updates     *lostupdate.Judge  // decides what changes would lose
	judge       *judge.Judge       // asks validators about content; its checks end with the sessions
	bases       merging.Bases      // what replaced versions held, to merge with
	glances     chan struct{}      // slots for closer looks at files changed around the mount
	source      *source
	virt        *virtual
	walks       *walks
	strayed     *rewalk.Strangers[dkey] // callers that cannot be told apart, and were told to walk again
	heart       *heartbeat.Heart
	txns        transaction.Running
	ctl         *ctl.Server    // answers the control file, and has the locks taken through it
	book        *account.Book  // of what users make us keep
	descriptors *account.Book  // of those that users cost us
	looks       *account.Rate  // at descriptors, for each user
	turns       *account.Turns // of requests
	views       *account.Turns // of those that look into .locks
	readClaims  *readclaim.Claims
	advisory    *advisory.Room   // the locks that programs take by themselves
	appenders   records.Room     // who appends records
	filed       *filed.Room      // the claims that are made by files
	clerk       *filing.Clerk    // tells the room of such files
	markers     *markers.Finder  // of databases
	lessons     *lessons.Lessons // of programs; nil when no path asks for it
	refused     refusals.Ring
	omitted     tally.Tally[audit.Event] // refusals that the audit trail counts
	passthrough bool                     // the kernel reads and writes backing files itself, where we let it
	mounts      *mounts.Watch
	trim        *trim.Trimmer // keeps descriptors free
	selfTest    selftest.Test
	submounts   submounts.Table
	dir         *datadir.Dir
	rootfd      int // O_PATH on the data directory
	procfd      int // /proc/self/fd
	state       *os.File
	stateKey    inoKey // its inode, whatever a name that leads there looks like
	privileged  bool   // root: files can be given to their creators
	dev         uint64 // the data directory's device
	mountDev    uint64 // the mount's device
	mountID     int
	maxInodes   int
	fillNow     int64         // see the constant; simulations have all files large
	lookDelay   time.Duration // see the constant

	done    chan struct{} // closed when the mount is gone
	closing chan struct{} // closed when waiters are to give up
	// draining is closed when a stop begins, and new sessions are held back.
	draining chan struct{}

	thefts  sync.Mutex    // held while the consequences of thefts are drawn
	settled atomic.Uint64 // how many thefts have had theirs

	drainOnce sync.Once
	closeOnce sync.Once
	doneOnce  sync.Once
	cleanOnce sync.Once
	refusing  atomic.Bool // no new sessions: a stop has begun
	serial    atomic.Uint64
	sessionNo atomic.Uint64
	ownWaits  atomic.Uint64 // how many waits for an own session have begun or ended
	saves     atomic.Uint64 // how many saves have begun to replace a file
	renamed   atomic.Uint64 // how many names have changed hands; changed with nodes.mu held
	epoch     string        // distinguishes session ids of different runs

	// ns guards the paths of which lock keys are made: a rename of a directory holds it
	// for writing, and whoever makes keys for reading.
	ns sync.RWMutex
	// clientKeys guards the keys of the locks that programs take by themselves: a rename
	// of a file holds it for writing, and whoever makes a key for reading.
	clientKeys sync.RWMutex
	// paths guards what is known of paths: a rename of a directory holds it for
	// writing, and whoever compares or enters a version for reading.
	paths sync.RWMutex

	tokenMu    sync.Mutex    // held while tokens are reserved on disk
	tokenLimit atomic.Uint64 // tokens below are reserved on disk

	mu          sync.Mutex // guards what follows
	nextID      uint64 // guarded by nodes.mu
	nextFH      uint64 // guarded by nodes.mu, like what follows
	nodes       map[uint64]*kernelNode
	inodes      map[inoKey]*inode
	names       *dcache.Tree[nameState]
	sessions    map[*session]struct{}
	replacing   map[inoKey]bool // inodes that a save is taking the place of
	handles     map[uint64]*handle
	commitTimes ctimes.Table[inoKey] // what new files show; guarded by nodes.mu
	moves       chan struct{}        // closed when the next session moves
}

func newFS(o Options) *FS {
	f := &FS{
		opts: o, log: o.Log, policy: o.Policy, privileged: os.Geteuid() == 0,
		done: make(chan struct{}), closing: make(chan struct{}), draining: make(chan struct{}),
		nextID: rootID, fillNow: fillNow, lookDelay: lookDelay,
		nodes: map[uint64]*kernelNode{}, inodes: map[inoKey]*inode{}, names: dcache.New[nameState](),
		sessions: map[*session]struct{}{}, replacing: map[inoKey]bool{}, handles: map[uint64]*handle{},
		moves: make(chan struct{}),
		epoch: fmt.Sprintf("%08x", rand.Uint32()),
	}
	f.glances = make(chan struct{}, maxGlances)
	f.openJudge()
	f.walks, f.strayed = rewalk.New[dkey](walkEngine{f}), rewalk.NewStrangers[dkey](strayedWait)
	f.book, f.descriptors, f.looks = newBook(), newDescriptors(), newLooks()
	f.turns, f.views = newTurns()
	f.openTrimmer()
	f.openMarkers()
	f.source = newSource(f)
	return f
}

// root is the data directory.
func (f *FS) root() reach.Root { return reach.Root{FD: f.rootfd} }

func (f *FS) newSessionID() string {
	return fmt.Sprintf("%s-%d", f.epoch, f.sessionNo.Add(1))
}

// isClosing reports whether a stop has begun: new sessions are held back, and
// refused in the end.
func (f *FS) isClosing() bool { return f.refusing.Load() }

// tokenBlock is how many fencing tokens are reserved on disk at once.
const tokenBlock = 1 << 16

// coverToken makes sure that a token in use is below what a crash would
// remember as issued.
func (f *FS) coverToken(token uint64) error {
	if token+tokenBlock/2 <= f.tokenLimit.Load() {
		return nil
	}
	f.tokenMu.Lock()
	defer f.tokenMu.Unlock()
	for token+tokenBlock/2 > f.tokenLimit.Load() {
		first, err := f.journal.ReserveTokens(tokenBlock)
		if err != nil {
			return err
		}
		f.tokenLimit.Store(first + tokenBlock)
	}
	return nil
}
