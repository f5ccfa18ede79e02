package integration

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path"
	"slices"
	"strings"
	"testing"
	"time"
)

// hastySessions is reverie's claim for those who cannot wait for five minutes.
const hastySessions = `
[[claim]]
glob = "/reverie/locks/**/*.lock"
format = "owner-dir"
covers = "file"
root = "reverie/locks"
tree = "reverie"
ttl = "200ms"
`

// The programs of five lock systems change files of one mount, several of each at once;
// some of them are killed. No file is torn, no change that was reported is lost or made
// twice, and no lock stays.
func TestFiveSystemsTogether(t *testing.T) {
	inTestAll(t)
	ways := []way{{"root", func(*mountOptions) {}}}
	if stress() || os.Geteuid() != 0 {
		ways = append(ways, way{"user", asUser()})
	}
	inWays(t, func(t *testing.T, m *Mount) {
		requireTool(t, "flock", "jq", "setsid", "sha256sum")
		until := time.Now()
		if stress() {
			until = until.Add(10 * time.Minute)
		}
		for round := 1; round <= 2 || time.Now().Before(until); round++ {
			mixedRound(t, m, round, uint64(drawnSeed())+uint64(round))
			if t.Failed() {
				return
			}
		}
	}, []mountOption{withPolicy(hastySessions), withArgs("--preset", "cleo=cleo", "--preset", "clawdbot=clawdbot",
		"--preset", "tower-fleet=fleet", "--preset", "beads=beads", "--preset", "reverie=reverie")}, ways...)
}

// mixedRound has workers of every system do what a seed chooses, and looks at what that
// has made of their files.
func mixedRound(t *testing.T, m *Mount, round int, seed uint64) {
	t.Helper()
	const workers = 3
	t.Logf("round %d: seed %d", round, seed)
	x := &mix{t: t, m: m, seed: seed, rnd: rand.New(rand.NewPCG(seed, 16))}
	for _, kind := range mixedKinds {
		p := &mixedPart{kind: kind, s: kind.make(t, m, fmt.Sprintf("%s/r%d", kind.name, round))}
		x.parts = append(x.parts, p)
		for w := range workers {
			worker := &mixedWorker{part: p}
			for i := range kind.attempts {
				worker.plan = append(worker.plan, x.draw(p, fmt.Sprintf("%s-%d-%d", kind.name, w, i)))
			}
			x.workers = append(x.workers, worker)
		}
	}
	x.work()
	x.noneStuck()
	for _, p := range x.parts {
		p.check(x)
	}
}

// An attempt is one change that a program is asked to make.
type attempt struct {
	text     string
	argv     []string // with variables of the environment first
	input    string   // a line for its standard input
	files    []int    // which lists of the kind get the text
	locked   bool     // at the point "read" it has the lock of its system
	point    string   // where it pauses
	fate     mixedFate
	patience int // how many others end while it pauses; with diesSoon: how many looks it lives

	p            *Proc
	acknowledged bool
	resumed      bool
	reached      bool // the point
	waited       int  // looks since it has reached the point, or was started
	since        int  // how many had ended when it reached the point
}

// mixedFate is what becomes of an attempt at its point.
type mixedFate int

const (
	runs mixedFate = iota // it has no point
	goesOn
	dies
	diesSoon // of chance: anywhere
)

// mixedPart is one system at work, with all attempts that were made.
type mixedPart struct {
	kind  mixedKind
	s     *system
	made  []*attempt
	stale bool // a program has said that a lock is stale
}

type mixedWorker struct {
	part *mixedPart
	plan []*attempt
	now  *attempt
}

// mix is a round of all systems.
type mix struct {
	t       *testing.T
	m       *Mount
	seed    uint64
	rnd     *rand.Rand
	parts   []*mixedPart
	workers []*mixedWorker
	ended   int
	last    time.Time // when one ended
}

// draw chooses an attempt.
func (x *mix) draw(p *mixedPart, text string) *attempt {
	a := p.kind.draw(x.rnd, p.s, text)
	fates := []mixedFate{runs, goesOn, goesOn, dies, dies}
	if stress() {
		fates = append(fates, diesSoon)
	}
	point := a.point
	a.text, a.fate, a.point = text, fates[x.rnd.IntN(len(fates))], ""
	a.patience = 1 + x.rnd.IntN(4)
	switch {
	case a.fate == diesSoon:
		a.patience = 1 + x.rnd.IntN(200)
	case point == "":
		a.fate = runs
	case a.fate != runs:
		a.point = point
	}
	return a
}

// work has all workers do their attempts, each one after another.
func (x *mix) work() {
	x.t.Helper()
	for x.last = time.Now(); ; time.Sleep(poll) {
		busy := false
		for _, w := range x.workers {
			if w.now != nil {
				x.look(w)
			} else if len(w.plan) > 0 {
				w.now, w.plan = w.plan[0], w.plan[1:]
				w.part.start(x.t, w.now)
			}
			busy = busy || w.now != nil || len(w.plan) > 0
		}
		if !busy {
			return
		}
		if time.Since(x.last) > 3*patience {
			x.t.Fatalf("seed %d: nobody ends any more\n%s", x.seed, x.m.Locks("status.json"))
		}
	}
}

// look tells an attempt that is under way to go on, kills it, or notes its end.
func (x *mix) look(w *mixedWorker) {
	a := w.now
	if a.p.Done() {
		w.part.end(x.t, a)
		w.now = nil
		x.ended, x.last = x.ended+1, time.Now()
		return
	}
	a.waited++
	if a.fate == diesSoon && a.waited > a.patience {
		a.kill()
		return
	}
	if a.point == "" || a.resumed {
		return
	}
	if !a.reached {
		if a.reached = strings.Contains(a.p.Stdout(), "at "+a.point+"\n"); !a.reached {
			return
		}
		a.since, a.waited = x.ended, 0
		x.alone(w)
	}
	// Those that wait for it do not end: it does not wait for them for ever.
	if x.ended-a.since < a.patience && a.waited < 150 {
		return
	}
	if a.fate == dies {
		a.kill()
		return
	}
	a.resumed = true
	a.p.Close()
}

// alone fails the test if two have the lock of one system. One of tower-fleet that is
// stale may be stolen.
func (x *mix) alone(w *mixedWorker) {
	for _, other := range x.workers {
		if other != w && other.part == w.part && !w.part.kind.steals && w.now.holds() && other.now != nil && other.now.holds() {
			x.t.Errorf("seed %d: %s and %s have one lock", x.seed, w.now.text, other.now.text)
		}
	}
}

// holds tells whether a program pauses under the lock of its system.
func (a *attempt) holds() bool {
	return a.locked && a.point == "read" && a.reached && !a.resumed && !a.p.Done()
}

// kill ends a program with all that it has started, also one that is an orphan.
func (a *attempt) kill() {
	a.resumed = true
	killOrphan(a.p)
	a.p.Kill()
}

// start starts the program of an attempt.
func (p *mixedPart) start(t *testing.T, a *attempt) {
	t.Helper()
	argv := a.argv
	if a.point != "" {
		argv = append([]string{"PAUSE=" + a.point}, argv...)
	}
	if p.stale && p.kind.steals {
		argv = append([]string{"FORCE=1"}, argv...)
		p.stale = false
	}
	p.made = append(p.made, a)
	a.p = p.s.start(t, argv...)
	if a.input != "" {
		a.p.Send(a.input)
	}
	if a.point == "" {
		a.p.Close()
	}
}

// end notes how the program of an attempt has ended. What the file has then is whole.
func (p *mixedPart) end(t *testing.T, a *attempt) {
	t.Helper()
	o := a.p.Wait()
	a.acknowledged = p.kind.acknowledged(o)
	p.stale = p.stale || strings.Contains(o.Stdout, `"lock_stale"`)
	if p.kind.ended != nil {
		p.kind.ended(p.s, a)
	}
	p.kind.lists(t, p.s)
}

// noneStuck shows that the locks of those that were killed end, and that everybody can
// change every file again.
func (x *mix) noneStuck() {
	x.t.Helper()
	if !*plain {
		left := x.m.AwaitStatus(x.t, fmt.Sprintf("seed %d: no lock but tower-fleet's", x.seed), func(s Status) bool {
			return !slices.ContainsFunc(s.HeldLocks, func(l HeldLock) bool { return l.Name != "web" && path.Base(l.Name) != "web.lock" })
		})
		if left.HolderOf("web") != nil {
			x.m.AwaitStale(x.t, "web")
			mustEndWith(x.t, x.m.Latchfs(x.t, "steal", "--force", "--name", "web"), 0)
		}
	}
	for _, p := range x.parts {
		n := 0
		eventually(x.t, "a change by "+p.kind.name, func() bool {
			n++
			a := p.kind.draw(rand.New(rand.NewPCG(x.seed, uint64(n))), p.s, fmt.Sprintf("%s-last-%d", p.kind.name, n))
			a.text, a.point = fmt.Sprintf("%s-last-%d", p.kind.name, n), ""
			p.start(x.t, a)
			p.end(x.t, a)
			return a.acknowledged
		})
	}
	if *plain {
		return
	}
	x.m.AwaitClear(x.t)
	for _, p := range x.parts {
		for _, file := range p.kind.files {
			x.m.WriteFile(p.s.path(file), p.s.read(file)) // who knows of none of these locks
		}
	}
}

// check compares what was acknowledged with what the files have.
func (p *mixedPart) check(x *mix) {
	t := x.t
	t.Helper()
	acknowledged, killed := 0, 0
	lists := p.kind.lists(t, p.s)
	known := map[string]bool{"first": true}
	for _, a := range p.made {
		known[a.text] = true
		if a.acknowledged {
			acknowledged++
		}
		if a.fate >= dies && a.resumed {
			killed++
		}
		for i, list := range lists {
			n := 0
			for _, text := range list {
				if text == a.text {
					n++
				}
			}
			if n > 1 || n == 0 && a.acknowledged && slices.Contains(a.files, i) {
				t.Errorf("seed %d: %s is %d times in %s (acknowledged: %t)\n%s%s", x.seed, a.text, n, p.kind.files[i],
					a.acknowledged, a.p.Stdout(), a.p.Stderr())
			}
		}
	}
	for _, text := range slices.Concat(lists...) {
		if !known[text] {
			t.Errorf("seed %d: nobody has written %q", x.seed, text)
		}
	}
	p.whole(x)
	t.Logf("%s: %d attempts, %d acknowledged, %d killed", p.kind.name, len(p.made), acknowledged, killed)
}
