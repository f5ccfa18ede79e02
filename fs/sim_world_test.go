package fs

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"
)

// simWorld is one simulation: a filesystem on a real directory, below a kernel and
// processes that are the simulation's own. Everything that happens stops again and
// again (see park), and a seed decides who goes on. Time is that of the bubble
// (testing/synctest): it passes when nobody can do anything, or by decision of the seed.
type simWorld struct {
	base     string   // beside the data
	dir      string   // the data
	disk     *simDisk // on which they lie, if its power may fail; or nil
	daemon   *simDaemon
	kernel   *simKernel   // of the mount that there is now
	buried   []*simDaemon // those that have died
	procs    *simProcs
	uid, gid uint32
	opts     simOptions
	picks    *rand.Rand // what happens next
	chances  *rand.Rand // who stops inside the daemon; guarded by mu

	mu       sync.Mutex
	parked   []*simParked
	serial   int
	steps    int
	clock    int64
	lines    []string
	failures []string
	kinds    []string // of the failures
	began    time.Time
	took     time.Duration // until the last line; guarded by mu
	over     bool
	running  int // programs
	model    simModel
	keeps    simKept
	lookers  atomic.Int32 // at .locks
	last     string       // who went on last
	stick    int          // in hundred, how often the same one goes on
	directed bool         // by the test's turns
	inside   int          // in hundred, how often a request stops inside the daemon
	hazards  simHazards
	doom     *rand.Rand // what happens to the daemon, and to its disk; guarded by mu
	aims     *rand.Rand // where harm comes that is aimed; guarded by mu

	powerless bool // the daemon's next death is that of the machine; guarded by mu, as the next two
	dark      bool // that has come
	powerCuts []simCut
	rebooted  bool        // and the programs have not been started since
	told      int         // how many of powerCuts the model knows
	moments   []simMoment // that have passed
}

// simOptions are what one simulation is made of.
type simOptions struct {
	seed   uint64
	script simScript
	trace  bool     // show each request
	atOnce bool     // often all go on who can
	disk   *simDisk // where the data lie, if the power fails
	// turns, if there are any, say who goes on, in place of the seed: "ann until OPEN"
	// lets ann go on until it is about to do what has that text, "ann to the end" as long
	// as it can, "the kernel to the end" sends every RELEASE that is due, and "kill ann"
	// kills it; "crash" kills the daemon, and "crash at exchange" does so when it is about
	// to take that step; "cut" and "cut at exchange" cut the power; "fault at exchange" lets the disk fail then; "forget a" lets the kernel
	// forget the names a; "6s pass" lets so much time pass. Afterwards each goes on until it cannot.
	turns []string
	// alarm, if not nil, says what is to count as broken, beside the promises; starts is
	// called when the simulation starts.
	alarm  func(simOp) string
	starts func()
}

// simParked is somebody who waits until it is its turn.
type simParked struct {
	serial int
	what   string
	turn   chan struct{}
	of     *simDaemon // whose death lets it go on; or nil
	until  int        // the step before which it is not its turn; -1: not drawn yet
}

// park waits until the seed lets the caller go on.
func (w *simWorld) park(what string) { w.parkFor(what, nil) }

func (w *simWorld) parkFor(what string, of *simDaemon) {
	w.mu.Lock()
	w.serial++
	at := &simParked{w.serial, what, make(chan struct{}), of, -1}
	w.parked = append(w.parked, at)
	w.mu.Unlock()
	<-at.turn
}

// logf adds a line to the transcript.
func (w *simWorld) logf(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.over {
		w.took = time.Since(w.began)
	}
	w.lines = append(w.lines, fmt.Sprintf("%9.3fs  ", w.took.Seconds())+fmt.Sprintf(format, args...))
}

func (w *simWorld) tracef(format string, args ...any) {
	if w.opts.trace {
		w.logf(format, args...)
	}
}

// failf notes that a promise was broken.
func (w *simWorld) failf(format string, args ...any) {
	w.logf("BROKEN: "+format, args...)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.failures, w.kinds = append(w.failures, fmt.Sprintf(format, args...)), append(w.kinds, format)
}

// now is a moment in the order of all beginnings and ends of system calls.
func (w *simWorld) now() int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.clock++
	return w.clock
}

// moved tells of a rename that has happened; what had the new name has the old one, or
// none.
func (w *simWorld) moved(p *simProc, a *simInode, old string, b *simInode, name string, exchanged bool) {
	w.model.changes(p, simName{a, old}, "has renamed")
	w.model.changes(p, simName{b, name}, "has replaced")
	if p.isInTxn() {
		p.txn.moves = append(p.txn.moves, simMove{simName{a, old}, simName{b, name}})
		return
	}
	w.filesMove(a, old, b, name, exchanged)
}

// removed tells of a name that was taken away.
func (w *simWorld) removed(p *simProc, dir *simInode, name string) {
	w.model.changes(p, simName{dir, name}, "has removed")
	if p.isInTxn() {
		p.txn.moves = append(p.txn.moves, simMove{from: simName{dir, name}})
		return
	}
	w.filesLose(dir, name)
}

// inUse are the inodes that system calls are using.
func (w *simWorld) inUse() map[*simInode]bool {
	used := map[*simInode]bool{}
	all := w.procs.living()
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, p := range all {
		maps.Copy(used, p.using)
	}
	return used
}

// simBase is where simulations have their data: a filesystem in memory, if there is one.
func simBase(t testing.TB) string {
	if unix.Access("/dev/shm", unix.W_OK) != nil {
		return t.TempDir()
	}
	dir, err := os.MkdirTemp("/dev/shm", "latchfs-simulation-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// maxIdle is how long nobody may be able to do anything before somebody hangs.
const maxIdle = 5 * time.Minute

// run lets things happen until all programs have ended and all is quiet.
func (w *simWorld) run() {
	var idle time.Duration
	pause := time.Millisecond
	for {
		synctest.Wait()
		if w.daemon.isDead() {
			w.revive()
		}
		ready := w.ready()
		if len(ready) == 0 {
			if w.isQuiet() {
				return
			}
			if idle > maxIdle {
				w.failf("nothing happens any more: %s", w.stuck())
				return
			}
			time.Sleep(pause)
			idle += pause
			pause = min(2*pause, time.Second)
			continue
		}
		idle, pause = 0, time.Millisecond
		w.mu.Lock()
		w.steps++
		w.mu.Unlock()
		w.passes()
		w.step(ready)
	}
}

// step is one thing that happens.
func (w *simWorld) step(ready []*simParked) {
	if w.directed {
		if next := w.turnOf(ready); next != nil {
			w.resume(next)
		}
		return
	}
	if w.harm() {
		return
	}
	switch x := w.picks.IntN(1000); {
	case x < 15:
		w.kernel.evict(w.picks.IntN)
		return
	case x < 40:
		if w.model.isLate() {
			break
		}
		d := []time.Duration{time.Millisecond, 30 * time.Millisecond, 150 * time.Millisecond, 1100 * time.Millisecond}[w.picks.IntN(4)]
		w.tracef("      %v pass", d)
		time.Sleep(d)
		return
	case x < 40+w.hazards.kills:
		if all := w.procs.living(); len(all) > 0 {
			p := all[w.picks.IntN(len(all))]
			w.logf("%s is killed", p)
			p.kill()
		}
		return
	}
	ready = w.awake(ready)
	if w.opts.atOnce && w.picks.IntN(3) > 0 {
		for _, x := range ready {
			w.resume(x)
		}
		return
	}
	next := ready[w.picks.IntN(len(ready))]
	if w.picks.IntN(100) < w.stick {
		if i := slices.IndexFunc(ready, func(x *simParked) bool { return who(x.what) == w.last }); i >= 0 {
			next = ready[i]
		}
	}
	if w.strikes(next) {
		return
	}
	w.resume(next)
}

// resume lets one go on.
func (w *simWorld) resume(next *simParked) {
	w.last = who(next.what)
	w.tracef("      %s", next.what)
	w.mu.Lock()
	w.parked = slices.DeleteFunc(w.parked, func(x *simParked) bool { return x == next })
	w.mu.Unlock()
	close(next.turn)
}

func who(what string) string {
	first, _, _ := strings.Cut(what, " ")
	return first
}

// ready are those who wait for their turn, in an order that is the same each time.
func (w *simWorld) ready() []*simParked {
	w.mu.Lock()
	defer w.mu.Unlock()
	slices.SortStableFunc(w.parked, func(a, b *simParked) int {
		if c := strings.Compare(a.what, b.what); c != 0 {
			return c
		}
		return a.serial - b.serial
	})
	for _, x := range w.parked { // several may have stopped at once
		if x.until < 0 {
			x.until = w.sleepsLocked(x.what)
		}
	}
	return slices.Clone(w.parked)
}

func (w *simWorld) isQuiet() bool {
	w.kernel.mu.Lock()
	defer w.kernel.mu.Unlock()
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.running == 0 && w.kernel.releases == 0
}

func (w *simWorld) stuck() string {
	var all []string
	for _, p := range w.procs.living() {
		if p.doing != "" {
			all = append(all, fmt.Sprintf("%s waits in %s", p, p.doing))
		}
	}
	return strings.Join(all, "; ")
}

// simulate runs one simulation and returns what was broken, and the transcript.
func simulate(t *testing.T, dir string, o simOptions) (w *simWorld) {
	data := fmt.Sprintf("%s/%d", dir, o.seed)
	if o.script.hazards.cuts == 0 {
		o.disk = nil
	} else if o.disk == nil {
		o.disk = newSimDisk(t, simDiskKinds[0])
	}
	if o.disk != nil {
		data = fmt.Sprintf("%s/%d", o.disk.root(), o.seed)
	}
	defer o.script.ofAnotherUser()()
	if err := os.Mkdir(data, 0o755); err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(data)
	defer time.AfterFunc(time.Minute, func() {
		panic(fmt.Sprintf("simulation %d hangs: somebody waits for what the bubble does not see", o.seed))
	}).Stop()
	if o.starts != nil {
		o.starts()
	}
	synctest.Test(t, func(t *testing.T) {
		w = &simWorld{
			opts: o, base: dir, dir: data, disk: o.disk, hazards: o.script.hazards, began: time.Now(), uid: uint32(os.Getuid()), gid: uint32(os.Getgid()),
			picks: rand.New(rand.NewPCG(o.seed, 1)), chances: rand.New(rand.NewPCG(o.seed, 2)),
			doom: rand.New(rand.NewPCG(o.seed, 5)), aims: rand.New(rand.NewPCG(o.seed, 10)),
		}
		w.stick, w.inside = []int{0, 50, 80, 95}[w.picks.IntN(4)], []int{0, 0, 5, 30}[w.picks.IntN(4)]
		if w.directed = len(o.turns) > 0; w.directed {
			w.inside = 0
		}
		w.model.w = w
		w.model.prepare(t, data)
		if w.disk != nil {
			if err := w.disk.sync(); err != nil {
				t.Fatal(err)
			}
		}
		w.procs = newSimProcs(w)
		if err := w.start(); err != nil {
			t.Fatal(err)
		}
		for _, prog := range o.script.programs {
			w.launch(nil, prog)
		}
		w.run()
		w.disarm()
		if o.script.hazards.faults > 0 {
			w.launch(nil, simProgramOf(simMender, w.model.looks()...))
			w.run()
		}
		w.launch(nil, simProgramOf("observer", w.model.looks()...))
		w.run()
		time.Sleep(10 * time.Second)
		w.run()
		w.model.checkLate()
		w.checkEmpty()
		w.checkClaims()
		w.model.checkSlows()
		synctest.Wait()
		w.kernel.forgetUnused()
		w.stop()
	})
	w.over = true
	w.model.check() // outside of the bubble, where time does not pass while something is looked for
	return w
}
