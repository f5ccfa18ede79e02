package fs

import (
	"fmt"
	"math/rand/v2"
	"os"

	"latchfs/fs/dcache"
	"latchfs/fs/rewalk"
	"latchfs/fs/selftest"
)

// FS is the filesystem: it turns the kernel's requests into operations on the data directory.
// The kernel reaches it by Requests.
//
// Mutex order. A goroutine that holds one of these mutexes takes only mutexes of the lines below;
// those of one line are never held together. TestMutexOrder holds the source to it.
//
//	appends.Queue.mu, ctl.Conversation.mu, heartbeat.Heart.round, listing.Stream.mu
//	records.Appender.mu
//	locks.thefts
//	transaction.Txn.mu
//	nodes.ns
//	locks.advisoryKeys
//	session.mu
//	nodes.paths
//	advisory.Room.ends
//	handle.mu
//	filing.Clerk.mu, iomode.Node.mu
//	nodes.mu
//	filed.Room.mu
//	account.Turns.mu
//	disk.tokenMu, account.Book.mu, account.Presence.mu, account.Rate.mu, advisory.Room.mu
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
	ground
	engine
	operations

	selfTest selftest.Test
}

// ground is the lowest floor: what there is on disk, what the kernel knows of it, who asks,
// and which rules hold. Each part uses only those above it in this list, here and on the
// other floors.
type ground struct {
	view    *view
	disk    *disk
	nodes   *nodes
	kernel  *kernel
	rules   *rules
	callers *callers
	life    *life
	reports *reports
	astray  *astray
	names   *names
	handles *handles
}

// engine is the floor on which the promises are kept: locks, sessions, commits, and what is
// told of them.
type engine struct {
	txns       *txns
	losses     *losses
	recorder   *recorder
	live       *live
	claimFiles *claimFiles
	locks      *locks
	judging    *judging
	recovery   *recovery
	commits    *commits
	endings    *endings
	moves      *moves
	sessions   *sessions
	parking    *parking
}

// operations is the highest floor: what the kernel asks for.
type operations struct {
	advisoryLocks *advisoryLocks
	appending     *appending
	contents      *contents
	attrs         *attrs
	opens         *opens
	entries       *entries
	listings      *listings
}

func newFS(o Options) *FS {
	f := &FS{}
	f.wire()
	f.disk.opts, f.disk.log, f.disk.privileged = o, o.Log, os.Geteuid() == 0
	f.rules.policy = o.Policy
	f.life.done, f.life.timeUp, f.life.stopping = make(chan struct{}), make(chan struct{}), make(chan struct{})
	f.kernel.nextID = rootID
	f.nodes.kernelNodes, f.nodes.inodes, f.nodes.dentries = map[uint64]*kernelNode{}, map[inoKey]*inode{}, dcache.New[nameState]()
	f.nodes.sessions, f.nodes.replacing = map[*session]struct{}{}, map[inoKey]bool{}
	f.nodes.moves = make(chan struct{})
	f.handles.open = map[uint64]*handle{}
	f.sessions.epoch, f.sessions.fillNow = fmt.Sprintf("%08x", rand.Uint32()), fillNow
	f.endings.lookDelay = lookDelay
	f.opens.glances = make(chan struct{}, maxGlances)
	f.openJudge()
	f.astray.walks, f.astray.strayed = rewalk.New[dkey](rewalkEngine{f}), rewalk.NewStrangers[dkey](strayedWait)
	f.callers.book, f.callers.descriptors, f.callers.looks = newBook(), newDescriptors(), newLooks()
	f.callers.turns, f.callers.views = newTurns()
	f.openTrimmer()
	f.openMarkers()
	f.view.source = newSource(f)
	return f
}

// wire makes the parts, each with those that it uses.
func (f *FS) wire() {
	f.view = &view{}
	f.disk = &disk{}
	f.nodes = &nodes{disk: f.disk}
	f.kernel = &kernel{disk: f.disk, nodes: f.nodes, view: f.view}
	f.rules = &rules{disk: f.disk, nodes: f.nodes}
	f.callers = &callers{disk: f.disk, nodes: f.nodes}
	f.life = &life{disk: f.disk, nodes: f.nodes, rules: f.rules}
	f.reports = &reports{callers: f.callers, disk: f.disk, life: f.life, nodes: f.nodes, rules: f.rules}
	f.astray = &astray{callers: f.callers, disk: f.disk, nodes: f.nodes, reports: f.reports, rules: f.rules}
	f.names = &names{astray: f.astray, callers: f.callers, disk: f.disk, kernel: f.kernel, nodes: f.nodes, reports: f.reports, rules: f.rules}
	f.handles = &handles{callers: f.callers, disk: f.disk, kernel: f.kernel, nodes: f.nodes, rules: f.rules}
	f.txns = &txns{ground: &f.ground}
	f.losses = &losses{ground: &f.ground, txns: f.txns}
	f.recorder = &recorder{ground: &f.ground, losses: f.losses}
	f.live = &live{ground: &f.ground, losses: f.losses, recorder: f.recorder}
	f.claimFiles = &claimFiles{ground: &f.ground}
	f.locks = &locks{ground: &f.ground, claimFiles: f.claimFiles, losses: f.losses, recorder: f.recorder}
	f.judging = &judging{ground: &f.ground, locks: f.locks, losses: f.losses, recorder: f.recorder}
	f.recovery = &recovery{ground: &f.ground, txns: f.txns}
	f.commits = &commits{ground: &f.ground, claimFiles: f.claimFiles, judging: f.judging, live: f.live, locks: f.locks, losses: f.losses, recorder: f.recorder, recovery: f.recovery}
	f.endings = &endings{ground: &f.ground, commits: f.commits, judging: f.judging, live: f.live, locks: f.locks, losses: f.losses, recorder: f.recorder}
	f.moves = &moves{ground: &f.ground, commits: f.commits, endings: f.endings, locks: f.locks}
	f.sessions = &sessions{ground: &f.ground, commits: f.commits, judging: f.judging, locks: f.locks, losses: f.losses, txns: f.txns}
	f.parking = &parking{ground: &f.ground, endings: f.endings, locks: f.locks, recovery: f.recovery, txns: f.txns}
	f.advisoryLocks = &advisoryLocks{ground: &f.ground, engine: &f.engine}
	f.appending = &appending{ground: &f.ground, engine: &f.engine}
	f.contents = &contents{ground: &f.ground, engine: &f.engine, appending: f.appending}
	f.attrs = &attrs{ground: &f.ground, engine: &f.engine, appending: f.appending, contents: f.contents}
	f.opens = &opens{ground: &f.ground, engine: &f.engine, appending: f.appending, attrs: f.attrs, contents: f.contents}
	f.entries = &entries{ground: &f.ground, engine: &f.engine, appending: f.appending, attrs: f.attrs, opens: f.opens}
	f.listings = &listings{ground: &f.ground, engine: &f.engine, attrs: f.attrs, opens: f.opens}
}
