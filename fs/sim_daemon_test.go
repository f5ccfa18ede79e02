package fs

import (
	"slices"
	"sync"
	"sync/atomic"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"latchfs/fs/locksdir"
	"latchfs/journal"
	"latchfs/lockmgr/policy"
)

// The daemon of a simulation.

// simDaemon is one life of the daemon, from its start to its stop or its death.
type simDaemon struct {
	w      *simWorld
	fs     *FS
	kernel *simKernel
	dead   atomic.Bool
	began  time.Time
	tidies chan struct{} // holds one while it removes the file of a stale claim

	// Guarded by simWorld.mu.
	doomed int    // the number of the step of its disk that it does not live to see; 0: none
	fatal  string // likewise, the step's name
	steps  int    // that it has taken
	last   string // the name of the last

	answers bool   // it has started
	failing int    // the number of the step at which the disk begins to fail; 0: none
	full    int    // for how many steps it is full then; 0: one step fails otherwise
	broken  string // the name of a step that fails
}

func (d *simDaemon) park(what string) { d.w.parkFor(what, d) }

// perhapsPark is park inside the daemon, where nobody holds a mutex: the bubble does not
// see that somebody waits for one.
func (d *simDaemon) perhapsPark(what string) {
	w := d.w
	w.mu.Lock()
	stops := d.answers && !d.dead.Load() && w.inside > 0 && w.lookers.Load() == 0 && w.chances.IntN(100) < w.inside
	w.mu.Unlock()
	if stops && d.fs.holdsNoMutex() {
		d.park(what)
	}
}

// start makes the filesystem, as Start does, without a mount.
func (w *simWorld) start() error {
	o := Options{Dir: w.dir, LockTimeout: simWait, Log: simLog{w: w}}
	if text := w.opts.script.rules(); text != "" {
		p, err := policy.Parse("simulation", []byte("[defaults]\n"+text))
		if err != nil {
			return err
		}
		o.Policy = p.WithDefaults(o.LockTimeout)
	}
	if err := o.Validate(); err != nil {
		return err
	}
	f := newFS(o)
	d := &simDaemon{w: w, fs: f, began: time.Now(), tidies: make(chan struct{}, 1)}
	d.kernel = newSimKernel(d)
	w.daemon, w.kernel = d, d.kernel
	w.dooms(d)
	f.kernel.srv, f.disk.fault = w.kernel, d.fault
	f.disk.passthrough = w.opts.script.hazards.passes > 0
	f.openCallers(simEyes{w.procs, d})
	if err := f.openData(); err != nil {
		return err
	}
	if err := f.openState(); err != nil {
		return err
	}
	f.openUpdates()
	f.openChanges()
	f.openReadClaims()
	f.openAdvisory()
	f.openControlRoom()
	f.claimFiles.remove = d.removeClaim
	d.judges()
	var err error
	if f.disk.procfd, err = unix.Open("/proc/self/fd", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0); err != nil {
		return err
	}
	f.nodes.maxInodes = 1000
	w.crowds(f)
	if w.opts.seed%2 == 0 {
		f.sessions.fillNow = 0 // all files are large
	}
	f.disk.mountID = 4000 + len(w.buried)
	f.disk.mountDev = unix.Mkdev(0, uint32(f.disk.mountID))
	f.view.virt = newVirtual(f, locksdir.New(f.view.source))
	if err := f.kernel.plantRoot(); err != nil {
		return err
	}
	if err := f.claimFiles.clerk.Restore(f.disk.rootfd); err != nil {
		return err
	}
	go f.astray.walks.Sweep(f.life.done)
	go f.nodes.trim.Run()
	go f.recorder.pruneRejected()
	go f.losses.remembers.Keep(f.life.done, f.losses.sweepKnowledge)
	if !f.disk.journal.Clean() {
		go f.recovery.sweepOrphans()
	}
	w.mu.Lock()
	d.answers = true
	w.mu.Unlock()
	return nil
}

// stop ends the filesystem, and closes what a process's end would close.
func (w *simWorld) stop() {
	w.daemon.end()
	synctest.Wait()
	for _, d := range append(w.buried, w.daemon) {
		d.close()
	}
	closeBelow(w.dir)
	if len(w.model.faults) == 0 && !w.daemon.isDead() {
		w.examine("a stop", journal.Recoverable, journal.Problem)
	} else { // the next start puts away what could not be put away, or not yet
		w.examine("a stop", journal.Problem)
	}
	closeBelow(w.grave())
}

// end ends all that the daemon does.
func (d *simDaemon) end() {
	d.fs.Stop()
	d.fs.Abandon()
	d.fs.Close()
}

// close closes what the daemon has open still.
func (d *simDaemon) close() {
	for _, fd := range []int{d.fs.disk.rootfd, d.fs.disk.procfd} {
		unix.Close(fd)
	}
	_ = d.fs.disk.state.Close()
	d.fs.nodes.mu.Lock()
	defer d.fs.nodes.mu.Unlock()
	for _, n := range d.fs.nodes.inodes {
		if n.fd >= 0 {
			unix.Close(n.fd)
		}
	}
}

// closeBelow closes what is still open of a directory: the lock of the state directory,
// which a daemon keeps until it ends.
func closeBelow(dir string) {
	for _, fd := range openBelow(dir) {
		unix.Close(fd)
	}
}

// holdsNoMutex reports whether nobody holds a mutex of the filesystem's for which
// somebody may wait.
func (f *FS) holdsNoMutex() bool {
	var taken []sync.Locker
	defer func() {
		for _, l := range slices.Backward(taken) {
			l.Unlock()
		}
	}()
	try := func(l interface {
		sync.Locker
		TryLock() bool
	}) bool {
		if !l.TryLock() {
			return false
		}
		taken = append(taken, l)
		return true
	}
	if !try(&f.locks.thefts) || !try(&f.nodes.ns) || !try(&f.nodes.paths) ||
		!f.locks.advisory.IsFree() || !f.locks.heart.IsFree() || !try(&f.nodes.mu) {
		return false
	}
	for _, t := range f.callers.running.All() {
		if !try(t) {
			return false
		}
	}
	for s := range f.nodes.sessions {
		if !try(&s.mu) {
			return false
		}
	}
	for _, n := range f.nodes.kernelNodes {
		if !n.io.IsFree() {
			return false
		}
	}
	for _, h := range f.handles.open {
		if !try(&h.mu) || h.app != nil && !h.app.IsFree() {
			return false
		}
	}
	return true
}

// fails notes that the disk fails.
func (m *simModel) fails() {
	at := m.w.now()
	m.count("fault of the disk")
	m.mu.Lock()
	defer m.mu.Unlock()
	m.faults = append(m.faults, at)
}

// losesLate notes that the disk has failed in the background, which somebody is told later.
func (m *simModel) losesLate() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.lostLate = true
}

// mayFail reports whether an error may come from a fault of the disk that has come since,
// or earlier in the background.
func (m *simModel) mayFail(e unix.Errno, since int64) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if e != unix.EIO && e != unix.ENOSPC {
		return false
	}
	return m.lostLate || slices.ContainsFunc(m.faults, func(at int64) bool { return at > since })
}

// checkEmpty looks for what dead processes have left behind.
func (w *simWorld) checkEmpty() {
	held, waiting := w.daemon.fs.rules.table.Len()
	if held > 0 || waiting > 0 {
		w.failf("%d locks are held and %d waited for, and everybody is dead", held, waiting)
	}
	f := w.daemon.fs
	f.nodes.mu.Lock()
	defer f.nodes.mu.Unlock()
	sessions, handles, names := len(f.nodes.sessions), len(f.handles.open), 0
	f.nodes.dentries.All(func(d *dentry) {
		if d.State.busy() {
			names++
		}
	})
	if sessions > 0 || handles > 0 || names > 0 || f.astray.walks.Any() {
		go w.failf("%d sessions, %d handles, %d names in session and %d walks are left, and everybody is dead", sessions, handles, names, f.astray.walks.Len())
	}
	if files := f.locks.advisory.Len(); files > 0 {
		go w.failf("somebody locks through %d files, and everybody is dead", files)
	}
	for _, k := range f.nodes.kernelNodes {
		if k.opens > 0 || k.pins > 0 || k.holds > 0 || len(k.was) > 0 {
			id := k.id
			go w.failf("node %d is still in use, and everybody is dead", id)
		}
	}
	for _, n := range f.nodes.inodes {
		if n.sess != nil || n.shadow != nil || n.awaited > 0 || n.inside > 0 || n.writers > 0 {
			ino := n.key.ino
			go w.failf("inode %d is still in use, and everybody is dead", ino)
		}
	}
}
