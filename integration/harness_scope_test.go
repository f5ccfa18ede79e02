package integration

import (
	"flag"
	"fmt"
	"hash/fnv"
	"maps"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// Each test is a part of `make test`, of `make test-all` or of `make stress`, by these
// rules:
//
//   - A test that calls inStress is a part of make stress and make hiccups alone: whether
//     it finds anything depends on chance, on what the scheduler does or on what time it
//     leaves to the processes. What has to pass before a change lands knows its
//     interleaving: it has fixed seeds, and awaits events.
//   - A test that calls inTestAll is a part of make test-all alone, on all mounts.
//     Tests that take many seconds call it.
//   - A test on the mounts of forEachMount is a part of make test with passthrough and
//     as an ordinary user, and a part of make test-all without passthrough.
//   - All other tests are a part of make test alone. A test that mounts nothing by
//     mount or forEachMount says so by inTest.
//
// make test runs with -short, the rest of make test-all with -rest; without either
// everything but the first kind runs.

var rest = flag.Bool("rest", false, "run only what -short leaves out")

const (
	leftToTestAll = "left to make test-all"
	doneByTest    = "a part of make test"
	leftToStress  = "left to make stress: what it finds depends on chance"
)

// longTests has the names of the tests that have called inTestAll.
var longTests sync.Map

// testName is the name of the test that t is or is a part of.
func testName(t testing.TB) string {
	name, _, _ := strings.Cut(t.Name(), "/")
	return name
}

// inTestAll makes a test a part of make test-all alone.
func inTestAll(t testing.TB) {
	t.Helper()
	longTests.Store(testName(t), true)
	if testing.Short() {
		t.Skip(leftToTestAll)
	}
}

// inStress makes a test, or a part of one, a part of make stress and make hiccups alone.
func inStress(t testing.TB) {
	t.Helper()
	if !stress() && !hiccups() {
		t.Skip(leftToStress)
	}
}

// inTest skips a test where only the rest runs.
func inTest(t testing.TB) {
	t.Helper()
	if _, long := longTests.Load(testName(t)); *rest && !long {
		t.Skip(doneByTest)
	}
}

// A way is one way in which latchfs runs.
type way struct {
	name   string
	option mountOption
}

// waysOf returns those of all ways in which t runs now.
func waysOf(t testing.TB, all ...way) []way {
	_, long := longTests.Load(testName(t))
	return slices.DeleteFunc(all, func(w way) bool {
		onlyRest := w.name == "root-nopassthrough"
		return !long && (testing.Short() && onlyRest || *rest && !onlyRest)
	})
}

// alongside lets a test, or a case with a mount of its own, run while others do that
// have called it. A test may call it that mostly waits, expects nothing to be done in
// less than a second, and writes through no descriptor of its own on the mount: while
// another test starts a program, that program has this one's descriptors for a moment,
// and a file is open until the last of them is closed.
func alongside(t *testing.T) {
	t.Helper()
	t.Parallel()
}

// drawn returns the random choices of a test that has no seed of its own. They are the
// same in each run but those of make stress.
func drawn(t testing.TB) *rand.Rand {
	name := fnv.New64()
	fmt.Fprint(name, t.Name())
	return rand.New(rand.NewPCG(uint64(drawnSeed()), name.Sum64()))
}

// missingTools has what this share of the tests was missing.
var missingTools = struct {
	mu sync.Mutex // guards of
	of lacks
}{of: lacks{}}

// lacks has for each program that is not installed the tests, and parts of tests, that
// were left out for it.
type lacks map[string]map[string]bool

// leftOut notes that a test, or a part of it, needs a program that is missing.
func leftOut(t testing.TB, part string, programs ...string) {
	missingTools.mu.Lock()
	defer missingTools.mu.Unlock()
	for _, program := range programs {
		missingTools.of.add(program, strings.TrimSuffix(testName(t)+"/"+part, "/"))
	}
}

func (l lacks) add(program, part string) {
	if l[program] == nil {
		l[program] = map[string]bool{}
	}
	l[program][part] = true
}

// tell names each missing program once, with what was left out for it.
func (l lacks) tell() {
	for _, program := range slices.Sorted(maps.Keys(l)) {
		parts := slices.Sorted(maps.Keys(l[program]))
		fmt.Fprintf(os.Stderr, "%s is not installed; this was left out: %s\n", program, strings.Join(parts, ", "))
	}
}

// progress has the tests with mounts, for those who watch the run.
var progress = struct {
	mu      sync.Mutex // guards what follows
	begun   map[string]bool
	running map[string]int // mounts of each
}{begun: map[string]bool{}, running: map[string]int{}}

// noteProgress enters a mount of a test until that ends.
func noteProgress(t testing.TB) {
	name := testName(t)
	step := func(by int) {
		progress.mu.Lock()
		defer progress.mu.Unlock()
		progress.begun[name] = true
		if progress.running[name] += by; progress.running[name] == 0 {
			delete(progress.running, name)
		}
	}
	step(1)
	t.Cleanup(func() { step(-1) })
}

// tellProgress tells every few seconds what runs of a share, where the tests do not tell it.
func tellProgress(share string) {
	if testing.Verbose() {
		return
	}
	began := time.Now()
	go func() {
		for range time.Tick(15 * time.Second) {
			progress.mu.Lock()
			running := slices.Sorted(maps.Keys(progress.running))
			fmt.Fprintf(os.Stderr, "%7v  share %s: %d tests with mounts have begun; now %s\n",
				time.Since(began).Round(time.Second), share, len(progress.begun), strings.Join(running, ", "))
			progress.mu.Unlock()
		}
	}()
}

// runBeside lets one test more than there are processors run at once, unless -parallel
// says how many, for those that run alongside mostly wait.
func runBeside() {
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	if !given {
		flag.Set("test.parallel", fmt.Sprint(runtime.NumCPU()+1))
	}
}
