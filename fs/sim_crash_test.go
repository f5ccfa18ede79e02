package fs

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"golang.org/x/sys/unix"

	"latchfs/journal"
	"latchfs/journal/commit"
	"latchfs/journal/commit/fsck"
)

// The death of a simulation's daemon, and the next one.

// drawHazards makes up what happens to the programs and to the daemon. It comes from
// random numbers of its own, as in drawLocks.
func drawHazards(seed uint64, kills int) simHazards {
	r := rand.New(rand.NewPCG(seed, 6))
	return simHazards{kills: kills, crashes: []int{0, 0, 10, 40}[r.IntN(4)], faults: []int{0, 0, 0, 30}[r.IntN(4)], lazy: []int{0, 0, 0, 0, 1}[r.IntN(5)], aimed: drawAimed(seed), passes: drawPasses(seed), updates: drawPolicy(seed), ttl: drawTTL(seed)}
}

// drawLinks adds commands that give files a second name and write them, in place then, to
// the scripts of those whose daemon dies: there it matters where it dies.
func (s *simScript) drawLinks(seed uint64, names []string) {
	r := rand.New(rand.NewPCG(seed, 7))
	if !s.hazards.harmDaemon() || len(names) < 2 || r.IntN(2) == 0 {
		return
	}
	i := r.IntN(len(names))
	from, to := names[i], names[(i+1+r.IntN(len(names)-1))%len(names)]
	for j, line := range []string{"ln " + from + " " + to, "echo " + from, "cut " + to} {
		p := &s.programs[r.IntN(2)] // not the guest, who may only read
		at := r.IntN(len(p.lines) + 1)
		if j == 0 {
			at = 0
		}
		p.lines = slices.Insert(p.lines, at, line)
	}
}

// harmDaemon reports whether anything happens to the daemon.
func (h simHazards) harmDaemon() bool { return h.crashes > 0 || h.faults > 0 || h.cuts > 0 }

// String is the hazards as flags of the test.
func (h simHazards) String() (s string) {
	for _, x := range []struct {
		n    int
		name string
	}{{h.kills, "kills"}, {h.crashes, "crashes"}, {h.faults, "faults"}, {h.cuts, "cuts"}, {h.lazy, "lazy"}, {h.aimed, "aimed"}, {h.passes, "passes"}, {h.ttl, "ttl"}, {h.judges, "judges"}, {h.lease, "lease"}, {h.hidden, "hidden"}} {
		if x.n > 0 {
			s += fmt.Sprintf(" -%s %d", x.name, x.n)
		}
	}
	if h.updates != "" {
		s += " -updates " + string(h.updates)
	}
	return s
}

// fewer are the hazards with one of them less.
func (h simHazards) fewer() (all []simHazards) {
	for _, one := range []func(*simHazards) *int{
		func(h *simHazards) *int { return &h.kills },
		func(h *simHazards) *int { return &h.crashes },
		func(h *simHazards) *int { return &h.faults },
		func(h *simHazards) *int { return &h.cuts },
		func(h *simHazards) *int { return &h.lazy },
		func(h *simHazards) *int { return &h.aimed },
		func(h *simHazards) *int { return &h.passes },
		func(h *simHazards) *int { return &h.ttl },
		func(h *simHazards) *int { return &h.judges },
		func(h *simHazards) *int { return &h.lease },
		func(h *simHazards) *int { return &h.hidden },
	} {
		less := h
		if *one(&less) = 0; less != h {
			all = append(all, less)
		}
	}
	if less := h; h.updates != "" {
		less.updates = ""
		all = append(all, less)
	}
	return all
}

// harm does harm to the daemon now and then, and reports whether it has.
func (w *simWorld) harm() bool {
	w.mu.Lock()
	crashes := w.hazards.crashes > 0 && w.doom.IntN(1000) < w.hazards.crashes
	later := crashes && w.doom.IntN(3) > 0
	if later && w.daemon.doomed == 0 {
		w.daemon.doomed = w.daemon.steps + 1 + w.doom.IntN(40)
	}
	if w.hazards.faults > 0 && w.doom.IntN(1000) < w.hazards.faults {
		w.daemon.failing = w.daemon.steps + 1 + w.doom.IntN(12)
		w.daemon.full = 0
		if w.doom.IntN(3) == 0 {
			w.daemon.full = 1 + w.doom.IntN(4)
		}
	}
	w.mu.Unlock()
	if crashes && !later {
		w.crashAt("")
	}
	return crashes || w.cuts()
}

// dooms lets a daemon that begins die during its recovery now and then.
func (w *simWorld) dooms(d *simDaemon) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if (w.hazards.crashes > 0 || w.hazards.cuts > 0) && len(w.buried) > 0 && w.doom.IntN(4) == 0 {
		d.doomed = 1 + w.doom.IntN(12)
		w.powerless = w.hazards.cuts > 0
	}
}

// crashAt lets the daemon die when it is about to take a step, which has a name or, as
// "step 3", a number from here; or at once.
func (w *simWorld) crashAt(step string) {
	if step == "" {
		w.logf("%s", w.deathNow())
		w.daemon.die()
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if n := 0; strings.HasPrefix(step, "step ") {
		if _, err := fmt.Sscanf(step, "step %d", &n); err != nil {
			panic(err)
		}
		w.daemon.doomed = w.daemon.steps + n
		return
	}
	w.daemon.fatal = step
}

// fault is asked before each step of the daemon on the disk.
func (d *simDaemon) fault(step string) error {
	if d.dead.Load() {
		return unix.EIO
	}
	d.w.othersSyncNow(step)
	d.w.mu.Lock()
	dies, fails := d.fatal == step, unix.Errno(0)
	if d.broken == step && d.answers {
		fails, d.broken = unix.EIO, ""
	}
	if step != "utimens" && step != "mkdir" { // whether they are needed depends on the time of day, and on chance
		d.steps++
		dies = dies || d.steps == d.doomed || d.strikesLocked(step)
		if fails == 0 {
			fails = d.failsLocked()
		}
	}
	d.w.mu.Unlock()
	d.w.tracef("      the daemon takes the step %q", step)
	switch {
	case !dies && fails == 0:
		return nil
	case !dies:
		d.w.logf("the disk fails at the step %q: %s", step, result(fails))
		d.w.model.fails()
		return fails
	}
	d.w.logf("%s as the daemon is about to take the step %q", d.w.deathNow(), step)
	d.die()
	return unix.EIO
}

// failsLocked is the error of the step that is due, if it is to fail: once, or as long as
// the disk is full. simWorld.mu is held.
func (d *simDaemon) failsLocked() unix.Errno {
	switch {
	case !d.answers || d.failing == 0 || d.steps < d.failing:
		return 0
	case d.full == 0:
		d.failing = 0
		return unix.EIO
	case d.steps >= d.failing+d.full:
		d.failing = 0
		return 0
	}
	return unix.ENOSPC
}

// simMender is the program that saves every file when the disk does not fail any more.
const simMender = "mender"

// mend saves a file. It may be refused once, where the history still has a name of the file
// that could not be taken away: that makes it one that is written in place; or where what another
// program has stored through a mapping is committed between its read and its save: it reads anew
// then. And it may hear of a fault that came in the background.
func (p *simProc) mend(path string) {
	e := p.echo(path, path, "")
	if e == unix.EBUSY {
		p.cat(path)
	}
	if e == unix.EBUSY || p.w.model.mayFail(e, p.w.now()) { // and hears of what failed in the background
		e = p.echo(path, path, "")
	}
	if e != 0 && e != unix.ENOENT {
		p.w.failf("%s cannot save %s when the disk is well: %s", p, path, result(e))
	}
}

// disarm lets all be well from now on, with the daemon and its disk, too.
func (w *simWorld) disarm() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.hazards = simHazards{}
	w.daemon.doomed, w.daemon.fatal, w.daemon.failing, w.daemon.broken = 0, "", 0, ""
}

// failAt lets the next step of that name fail, or the one that has the number as of crashAt.
func (w *simWorld) failAt(step string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if n := 0; strings.HasPrefix(step, "step ") {
		if _, err := fmt.Sscanf(step, "step %d", &n); err != nil {
			panic(err)
		}
		w.daemon.failing = w.daemon.steps + n
		return
	}
	w.daemon.broken = step
}

// grave is the name of a directory that is no more, which the descriptors of dead daemons
// lead to.
func (w *simWorld) grave() string { return fmt.Sprintf("%s/%d.grave", w.base, w.opts.seed) }

// die is the end of the daemon's process: from now on nothing that its goroutines do
// comes to the disk, and nobody hears of it.
func (d *simDaemon) die() {
	if d.dead.Swap(true) {
		return
	}
	d.w.losesPower()
	grave := d.w.grave()
	if err := os.Mkdir(grave, 0o700); err != nil {
		panic(err)
	}
	fd, err := unix.Open(grave, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		panic(err)
	}
	defer unix.Close(fd)
	if err := os.Remove(grave); err != nil {
		panic(err)
	}
	keeps := &d.w.keeps
	keeps.Lock()
	defer keeps.Unlock()
	d.w.mu.Lock()
	if d.w.dark { // the kernel dies, too
		clear(keeps.fds)
	}
	d.w.mu.Unlock()
	below := func() []int { return slices.DeleteFunc(openBelow(d.w.dir), keeps.has) }
	for open := below(); len(open) > 0; open = below() {
		for _, of := range open {
			// EBUSY: a goroutine has closed it since, and is just opening another file by
			// its number (dup(2)). If that is below, too, the next look finds it.
			if err := unix.Dup3(fd, of, unix.O_CLOEXEC); err != nil && err != unix.EBUSY {
				panic(err)
			}
		}
	}
}

func (d *simDaemon) isDead() bool { return d.dead.Load() }

// openBelow are the descriptors of a directory, and of what is below it.
func openBelow(dir string) (all []int) {
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		panic(err)
	}
	for _, e := range list {
		to, err := os.Readlink("/proc/self/fd/" + e.Name())
		if to, _ = strings.CutSuffix(to, " (deleted)"); err != nil || to != dir && !strings.HasPrefix(to, dir+"/") {
			continue
		}
		var fd int
		if _, err := fmt.Sscan(e.Name(), &fd); err == nil {
			all = append(all, fd)
		}
	}
	return all
}

// revive starts the next daemon over the data of one that has died. Whoever waits for that
// is told that nobody answers.
func (w *simWorld) revive() {
	for w.daemon.isDead() {
		old := w.daemon
		w.buried = append(w.buried, old)
		for _, x := range w.ready() {
			if x.of == old {
				w.resume(x)
			}
		}
		go old.end()
		synctest.Wait()
		w.reboot()
		w.examine("the death of the daemon", journal.Problem)
		err := w.start()
		if err != nil && !w.daemon.isDead() {
			w.failf("the daemon does not start again: %v", err)
			_ = os.RemoveAll(w.dir + "/" + commit.StateDirName) // so that the simulation can end
			w.daemon.die()
		}
		synctest.Wait() // it may die in what it does in the background
	}
	w.model.checkSynced()
	w.logf("the next daemon answers")
	w.model.count("death of the daemon")
	at := w.now()
	for _, d := range w.buried {
		if d.kernel.ended == 0 {
			d.kernel.ended = at
		}
	}
	w.model.abandoned()
	w.restarts(at)
}

// examine looks for what the daemon should not have left.
func (w *simWorld) examine(after string, bad ...journal.Severity) {
	root, err := os.Open(w.dir)
	if err != nil {
		panic(err)
	}
	defer root.Close()
	state, err := os.Open(w.dir + "/" + commit.StateDirName)
	if err != nil {
		panic(err)
	}
	defer state.Close()
	found, err := fsck.Check(context.Background(), int(root.Fd()), state)
	if err != nil {
		w.failf("fsck fails after %s: %v", after, err)
		return
	}
	for _, f := range found.Findings {
		if slices.Contains(bad, f.Severity) {
			w.failf("after %s fsck finds in %s: %s; %s", after, f.Path, f.What, f.Means)
		}
	}
}

// The daemon dies at each step of a save, and the file is the old version or the new one.
func TestDaemonDiesInASave(t *testing.T) {
	for _, step := range []string{"writeback", "begin", "link", "exchange", "keep", "done", "syncdir"} {
		t.Run(step, func(t *testing.T) {
			w := inTurns(t, []simProgram{simProgramOf("ann", "echo a"), simProgramOf("bob", "count a")},
				"ann until FLUSH a", "crash at "+step, "ann to the end", "bob to the end")
			if len(w.buried) != 1 {
				t.Fatal("the daemon has not died")
			}
		})
	}
}

// Likewise where a file with two names is written in place.
func TestDaemonDiesInPlace(t *testing.T) {
	for _, step := range []string{"begin", "syncjournal", "copy", "truncate", "unlink", "done"} {
		t.Run(step, func(t *testing.T) {
			w := inTurns(t, []simProgram{simProgramOf("ann", "ln a b", "log a", "echo b"), simProgramOf("bob", "count a")},
				"ann until FLUSH b", "crash at "+step, "ann to the end", "bob to the end")
			if len(w.buried) != 1 {
				t.Fatal("the daemon has not died")
			}
		})
	}
}

// A step of a save fails. The program is told, or the save is done all the same, and the
// next one succeeds.
func TestDiskFailsInASave(t *testing.T) {
	for _, line := range []string{"echo a", "save a", "log a"} {
		for _, step := range []string{"tmpfile", "writeback", "fsync", "begin", "link", "exchange", "rename", "keep", "done", "syncdir", "unlink", "record", "write"} {
			inTurns(t, []simProgram{simProgramOf("ann", line), simProgramOf("bob", "count a")}, "fault at "+step, "ann to the end", "bob to the end")
		}
	}
}
