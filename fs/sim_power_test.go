package fs

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/anishathalye/porcupine"
)

// What programs may expect when the power fails (DESIGN §4.3, durability "auto"): what has
// replaced a version is on the disk when the call returns; what is new is whole or not there,
// and names come to the disk in the order in which they were made, within a second or so.

// simPower is a state of the model on a disk whose power may fail.
type simPower struct {
	now  simState
	disk []simState // what else the disk may hold: the states since the last one that is known to be there
}

// newMark marks a version, or a record, of which the disk may hold a part: it is new, and nobody
// has synced it. A power cut takes it away as a whole, or leaves it.
const newMark = "?"

func (s simPower) equal(o simPower) bool {
	return maps.Equal(s.now, o.now) && slices.EqualFunc(s.disk, o.disk, maps.Equal)
}

// steps are the states after an operation; none if it could not have gone like that.
func (s simPower) steps(o simOp) (all []any) {
	switch o.kind {
	case "settled":
		return []any{simPower{now: s.now.withoutMarks()}}
	case "powercut":
		for _, at := range append(s.disk, s.now.onDisk()) {
			for _, left := range at.afterCut() {
				all = append(all, simPower{now: left})
			}
		}
		return all
	}
	was := s.now.onDisk()
	for _, after := range s.now.steps(o) {
		n := after.(simState)
		switch {
		case maps.Equal(n.onDisk(), was):
			all = append(all, simPower{n, s.disk})
		case s.now.waitsForDisk(o):
			all = append(all, simPower{now: n.without(o, s.now)})
		default:
			all = append(all, s.followedBy(n, o, was))
		}
	}
	return all
}

// followedBy is the state n, which o has made and nobody has synced. Without what is new alone it
// is the one before, which need not be remembered.
func (s simPower) followedBy(n simState, o simOp, was simState) simPower {
	if made := s.now.makes(o); made != "" {
		n[newMark+made] = "new"
		return simPower{n, s.disk}
	}
	if slices.ContainsFunc(s.disk, func(old simState) bool { return maps.Equal(old, was) }) {
		return simPower{n, s.disk}
	}
	return simPower{n, append(slices.Clip(s.disk), was)}
}

// onDisk is what a state has on the disk: no process.
func (s simState) onDisk() simState {
	n := maps.Clone(s)
	maps.DeleteFunc(n, func(k, _ string) bool { return strings.ContainsRune("#~!", rune(k[0])) })
	return n
}

func (s simState) withoutMarks() simState {
	n := maps.Clone(s)
	maps.DeleteFunc(n, func(k, _ string) bool { return strings.HasPrefix(k, newMark) })
	return n
}

// waitsForDisk reports whether what an operation makes of the state is on the disk when it
// returns.
func (s simState) waitsForDisk(o simOp) bool {
	if o.killed || o.errno != 0 {
		return false
	}
	switch o.kind {
	case "write":
		return o.synced || s.holds(s["#"+o.handle]) != ""
	case "truncate", "commit":
		return true
	case "rename": // with "auto", whoever has synced what replaces the old version waits for no more than that
		name, _ := s.at(o.path, o.dir)
		to, _ := s.at(o.to, o.dirTo)
		return s[to] != "" && o.flags == 0 && s.isNew(s.holds(name))
	}
	return false
}

// isNew reports whether a version is marked, or a record that was added to it.
func (s simState) isNew(version string) bool {
	base, records := recordsOf(version)
	return s[newMark+base] != "" || slices.ContainsFunc(records, func(r string) bool { return s[newMark+r] != "" })
}

// without takes the marks off what an operation has brought to the disk.
func (s simState) without(o simOp, before simState) simState {
	if o.kind == "commit" {
		for _, v := range before.stagedIn(o.txn) {
			s.unmark(v)
		}
	}
	if o.kind != "rename" {
		return s
	}
	name, _ := before.at(o.path, o.dir)
	s.unmark(before.holds(name))
	return s
}

// unmark takes the marks off a version with all its records.
func (s simState) unmark(version string) {
	base, records := recordsOf(version)
	for _, part := range append(records, base) {
		delete(s, newMark+part)
	}
}

// makes is the version, or the record, that an operation makes where there was none.
func (s simState) makes(o simOp) string {
	switch {
	case o.kind == "write" && s.holds(s["#"+o.handle]) == "":
		return o.version
	case o.kind == "openlog":
		return "empty"
	case o.kind == "append":
		return "{" + o.version + "}"
	}
	return ""
}

// recordsOf takes a version apart.
func recordsOf(version string) (base string, records []string) {
	at := strings.IndexByte(version, '{')
	if at < 0 {
		return version, nil
	}
	records = strings.SplitAfter(version[at:], "}")
	return version[:at], records[:len(records)-1] // the last is empty
}

// afterCut are the states that a cut may leave of one that the disk holds.
func (s simState) afterCut() (all []simState) {
	all = []simState{s.withoutMarks()}
	for _, name := range slices.Sorted(maps.Keys(s)) {
		if strings.HasPrefix(name, newMark) {
			continue
		}
		var more []simState
		for _, left := range s.remains(name) {
			for _, n := range all {
				n = maps.Clone(n)
				if n[name] = left; left == "" {
					delete(n, name)
				}
				more = append(more, n)
			}
		}
		all = append(all, more...)
	}
	return all
}

// remains are the things that a cut may leave of what a name holds, other than all of it.
func (s simState) remains(name string) (all []string) {
	base, records := recordsOf(s.holds(name))
	if s[newMark+base] != "" && !strings.HasPrefix(name, "=") {
		all = append(all, "")
	}
	if strings.HasPrefix(s[name], "=") { // its content goes by the number that the names have in common
		return all
	}
	for i, r := range records {
		if s[newMark+r] != "" {
			all = append(all, base+strings.Join(records[:i], ""))
		}
	}
	return all
}

// maxCuts is how often the power fails in one simulation at most.
const maxCuts = 3

// settlesIn is after which time what is new is on the disk, if the daemon lives.
const settlesIn = 2500 * time.Millisecond

// simMoment is a moment in both times.
type simMoment struct {
	at    time.Time
	clock int64
}

// simCut is a power cut, for the model.
type simCut struct {
	clock   int64
	settled int64 // what had returned by then is on the disk; 0: nothing
}

// passes notes that time passes.
func (w *simWorld) passes() {
	if w.disk != nil {
		w.moments = append(w.moments, simMoment{time.Now(), w.now()})
	}
}

// cuts lets the power fail now and then: now, or as the daemon is about to take a step.
func (w *simWorld) cuts() bool {
	w.mu.Lock()
	cuts := w.hazards.cuts > 0 && len(w.powerCuts) < maxCuts && w.doom.IntN(1000) < w.hazards.cuts
	if !cuts || w.daemon.doomed > w.daemon.steps {
		w.mu.Unlock()
		return false
	}
	w.powerless = true
	later := w.doom.IntN(4) > 0
	if later {
		w.daemon.doomed = w.daemon.steps + 1 + w.doom.IntN(25)
	}
	w.mu.Unlock()
	if !later {
		w.crashAt("")
	}
	return !later
}

// deathNow says what the next death of the daemon is.
func (w *simWorld) deathNow() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.powerless {
		return "the power fails"
	}
	return "the daemon is killed"
}

// othersSyncNow lets somebody else sync now and then before a step of the daemon, so that the
// disk holds the names as they are then, and sometimes all.
func (w *simWorld) othersSyncNow(step string) {
	if w.disk == nil || step == "utimens" || step == "mkdir" {
		return
	}
	w.mu.Lock()
	syncs := w.hazards.cuts > 0 && w.doom.IntN(8) == 0
	sync, how := w.disk.othersSync, "a file"
	if syncs && w.doom.IntN(4) == 0 {
		sync, how = w.disk.sync, "all"
	}
	w.mu.Unlock()
	if !syncs {
		return
	}
	w.tracef("      somebody else syncs %s", how)
	if err := sync(); err != nil && !w.isDark() {
		w.failf("somebody else cannot sync: %v", err)
	}
}

func (w *simWorld) isDark() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.dark
}

// losesPower cuts the power, if that is what the daemon dies of.
func (w *simWorld) losesPower() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.powerless {
		return
	}
	w.powerless, w.dark = false, true
	if err := w.disk.fail(); err != nil {
		panic(err)
	}
	w.clock++
	c := simCut{clock: w.clock}
	for _, m := range w.moments {
		if m.at.After(w.daemon.began) && time.Since(m.at) >= settlesIn {
			c.settled = m.clock
		}
	}
	w.powerCuts = append(w.powerCuts, c)
}

// reboot ends all programs, and mounts the disk again, if the power has failed.
func (w *simWorld) reboot() {
	if !w.isDark() {
		return
	}
	for range 10_000 {
		synctest.Wait()
		all, ready := w.procs.living(), w.ready()
		if len(all) == 0 && len(ready) == 0 {
			break
		}
		for _, p := range all {
			p.kill()
		}
		for _, x := range ready {
			w.resume(x)
		}
		if len(ready) == 0 {
			time.Sleep(time.Millisecond)
		}
	}
	if err := w.disk.reboot(); err != nil {
		panic(err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.dark, w.rebooted = false, true
}

// restarts starts the programs anew after the power has failed, as boot scripts are; at is when
// the daemon has answered.
func (w *simWorld) restarts(at int64) {
	if !w.rebooted {
		return
	}
	w.rebooted = false
	w.model.loses(w.powerCuts[w.told:], at)
	w.told = len(w.powerCuts)
	for _, prog := range w.opts.script.programs {
		if !w.directed {
			w.launch(nil, prog)
		}
	}
}

// loses notes power cuts, after which a daemon has answered.
func (m *simModel) loses(cuts []simCut, answered int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, c := range cuts {
		m.done["power cut"]++
		if c.settled != 0 {
			m.ops = append(m.ops, porcupine.Operation{ClientId: -1, Input: simOp{kind: "settled"}, Call: c.settled, Return: c.settled})
		}
		m.ops = append(m.ops, porcupine.Operation{ClientId: -1, Input: simOp{kind: "powercut"}, Call: c.clock, Return: answered})
	}
}

// drawCuts is a script whose power fails.
func drawCuts(seed uint64) simScript {
	s := drawScript(seed)
	s.hazards.lazy, s.hazards.faults = 0, 0
	s.hazards.cuts = []int{5, 15, 40}[rand.New(rand.NewPCG(seed, 12)).IntN(3)]
	return s
}

// TestPowerCuts runs simulations whose power fails.
func TestPowerCuts(t *testing.T) {
	for _, kind := range simDiskKinds {
		t.Run(kind.name, func(t *testing.T) {
			disk := newSimDisk(t, kind)
			runSeeds(t, 30, func(seed uint64) simOptions { return simOptions{seed: seed, script: drawCuts(seed), disk: disk} })
		})
	}
}

// A file to which was just appended takes the place of another one, and the power fails: what
// has replaced the old version has all its records.
func TestPowerFailsAfterALogIsRenamed(t *testing.T) {
	disk := newSimDisk(t, simDiskKinds[0])
	script := simScript{programs: []simProgram{simProgramOf("ann", "log a", "mv a d/a"), simProgramOf("bob", "cat d/a")}, hazards: simHazards{cuts: 1}}
	w := inTurnsOf(t, simOptions{seed: 1, script: script, disk: disk, turns: []string{"ann to the end", "cut", "bob to the end"}})
	if len(w.powerCuts) == 0 {
		t.Fatal("the power has not failed")
	}
}

// The power fails at each step of a save, and the file is the old version or the new one.
func TestPowerFailsInASave(t *testing.T) {
	disk := newSimDisk(t, simDiskKinds[0])
	for _, line := range []string{"echo a", "save a", "log a", "sync b", "txn a d/a", "mv a d/a", "truncate a"} {
		for step := range 12 {
			t.Run(fmt.Sprint(line, " ", step), func(t *testing.T) {
				script := simScript{programs: []simProgram{simProgramOf("ann", line), simProgramOf("bob", "cat a")}, hazards: simHazards{cuts: 1}}
				inTurnsOf(t, simOptions{seed: 1, script: script, disk: disk, turns: []string{fmt.Sprintf("cut at step %d", step+1), "ann to the end", "bob to the end"}})
			})
		}
	}
}
