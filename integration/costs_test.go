package integration

import (
	"cmp"
	"flag"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

var writeCosts = flag.Bool("costs.write", false, "write "+costFile+" anew, from what is measured")

// costFile has the most that each operation may cost, one count on a line.
const costFile = "testdata/costs.txt"

const costHead = `# What the daemon does for one operation of a program, at most: requests of the kernel,
# notifications to it, and system calls by name. TestCosts compares; it writes this file by
#   go test -count=1 -run '^TestCosts$' -args -costs.write
`

const (
	// costRuns is how often an operation is done while it is counted, so that what happens
	// once in a while counts little.
	costRuns = 50
	// costRounds is how often that is repeated when something is too high. What is on a
	// timer, as the end of the time for which the kernel may believe an answer, happens
	// more often the slower the machine is. What belongs to the operation is there in
	// each round.
	costRounds = 6
	// costSlack is how much a request, a notification or a sync may be above its figure: one
	// more for each operation is always found.
	costSlack = 0.5
	// costSlackCalls is that of system calls and of looks at /proc, beside half of the
	// figure. What a commit has put off for a second is done while others are counted, or
	// later: the slower the machine is, the more of it is counted. And processes that come
	// and go anywhere have files of /proc read again.
	costSlackCalls = 3
)

// slack is how much a count may be above its figure.
func slack(name string, figure float64) float64 {
	switch kind, _, _ := strings.Cut(name, " "); kind {
	case costRequest, costNotification, costSync:
		return costSlack
	}
	return costSlackCalls + figure/2
}

// costWorker does what its input says: an operation, and the numbers of its first and last turn.
// Its parent is init, so that its ancestors are few, wherever the tests are run.
const costWorker = `
import os, sys, threading
gone, alive = os.pipe()
if os.fork() > 0:
    os.close(alive)
    os.wait()
    os.read(gone, 1)  # until the worker has ended
    os._exit(0)
if os.fork() > 0: os._exit(0)
small, dir = b"x" * 4096, os.open(".", os.O_RDONLY)
def put(name, flags, data=small, sync=False):
    fd = os.open(name, os.O_WRONLY | flags, 0o644)
    os.write(fd, data)
    if sync: os.fsync(fd)
    os.close(fd)
def read(i):
    fd = os.open("file", os.O_RDONLY)
    os.read(fd, 65536)
    os.close(fd)
def careful(i):
    put("temp", os.O_CREAT | os.O_EXCL, sync=True)
    os.rename("temp", "careful")
    os.fsync(dir)
def make(i): put("new%s" % i, os.O_CREAT | os.O_EXCL)
def make_beside_threads(i):
    while threading.active_count() < 33:
        threading.Thread(target=threading.Event().wait, daemon=True).start()
    make("beside%d" % i)
def durably(i):
    put("durable%d" % i, os.O_CREAT | os.O_EXCL, sync=True)
    os.fsync(dir)
def churn(i):
    put("churn", os.O_CREAT | os.O_EXCL)
    os.unlink("churn")
operations = {
    "read": read, "stat": lambda i: os.stat("file"), "list": lambda i: os.listdir("dir"),
    "write nothing": lambda i: os.close(os.open("file", os.O_WRONLY)),
    "save": lambda i: put("file", os.O_TRUNC), "append": lambda i: put("records", os.O_APPEND, b"a record\n"),
    "create": make, "create with 33 threads": make_beside_threads, "create durably": durably, "create and unlink": churn, "careful save": careful,
    "prepare": lambda i: put("temp%d" % i, os.O_CREAT | os.O_EXCL),
    "rename": lambda i: os.rename("temp%d" % i, "renamed%d" % i),
    "rename over": lambda i: os.rename("temp%d" % i, "target"),
}
for line in sys.stdin:
    name, first, last = line.strip().rsplit(" ", 2)
    for i in range(int(first), int(last)):
        operations[name](i)
    print("done", flush=True)
`

// costOperations are what is counted.
var costOperations = []string{
	"read", "stat", "list", "write nothing", "save", "append", "create", "create durably", "create and unlink",
	"rename", "rename over", "careful save", "create with 33 threads", // last: the threads stay
}

// TestCosts counts what the daemon does for one operation of a program that has done it
// before, has one thread if not said otherwise and no children, on root's mount of an ext4 with a journal. It
// fails when any count is above its figure in costFile. It measures no time. What a save
// allocates it does not see.
func TestCosts(t *testing.T) {
	requireTool(t, "strace")
	needsPassthrough(t)
	m := mount(t, asInstalled(), onJournal(t), overItself(), withSeed(costFiles))
	w := &costWatch{t: t, m: m, worker: m.LaunchPython(t, costWorker)}
	if *writeCosts {
		measured := map[string]costs{}
		for _, operation := range costOperations {
			var all []costs
			w.count(operation, func(c costs) bool { all = append(all, c); return false })
			measured[operation] = median(all)
		}
		if err := os.WriteFile(costFile, []byte(costTable(measured)), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	figures, err := readCosts()
	if err != nil {
		t.Fatal(err)
	}
	for _, operation := range costOperations {
		var c costs
		w.count(operation, func(now costs) bool {
			c = c.least(now)
			return len(c.above(figures[operation])) == 0
		})
		if operation == "create durably" && !kernelAtLeast(t, 6, 13) {
			continue // the change times of directories do not tell; see commit.Store.FsyncDir
		}
		for _, what := range c.above(figures[operation]) {
			t.Errorf("%s: %s", operation, what)
		}
	}
	if t.Failed() {
		t.Logf("%s has the figures; if they have to rise, this writes it anew: go test -count=1 -run '^TestCosts$' -args -costs.write", costFile)
	}
}

// needsPassthrough skips the test where the kernel has none.
func needsPassthrough(t *testing.T) {
	t.Helper()
	var uts unix.Utsname
	if err := unix.Uname(&uts); err != nil {
		t.Fatal(err)
	}
	var major, minor int
	release := unix.ByteSliceToString(uts.Release[:])
	if _, err := fmt.Sscanf(release, "%d.%d", &major, &minor); err != nil {
		t.Fatalf("release %q of the kernel: %v", release, err)
	}
	if major < 6 || major == 6 && minor < 9 {
		t.Skipf("Linux %s has no passthrough", release)
	}
}

// costWatch counts what operations cost.
type costWatch struct {
	t      *testing.T
	m      *Mount
	worker *Proc
	asked  int // how often the worker was told to do something
}

// do has the worker do an operation, costRuns times.
func (w *costWatch) do(operation string, turn int) {
	w.t.Helper()
	w.worker.Send(fmt.Sprintf("%s %d %d", operation, turn, turn+costRuns))
	w.asked++
	eventually(w.t, operation+" is done", func() bool {
		if w.worker.Done() {
			w.t.Fatalf("%s: %s", operation, w.worker.Stderr())
		}
		return strings.Count(w.worker.Stdout(), "done") == w.asked
	})
}

// count counts in rounds, each of which is told to enough, until that says so.
func (w *costWatch) count(operation string, enough func(costs) bool) {
	w.t.Helper()
	for round := range costRounds {
		warm := 2 * round * costRuns
		counted := warm + costRuns
		if strings.HasPrefix(operation, "rename") {
			w.do("prepare", warm)
			w.do("prepare", counted)
		}
		w.do(operation, warm)
		tr := w.m.trace(w.t)
		w.do(operation, counted)
		if enough(tr.end(w.t).each(costRuns)) {
			return
		}
	}
}

// costs are how often something happens for one operation; its name begins with its kind.
type costs map[string]float64

// least is the smaller of two costs, in each of their counts. None at all is larger.
func (c costs) least(other costs) costs {
	if c == nil {
		return other
	}
	least := costs{}
	for name, count := range c {
		if count = min(count, other[name]); count > 0 {
			least[name] = count
		}
	}
	return least
}

// median is the middle one of each count.
func median(all []costs) costs {
	of := map[string][]float64{}
	for _, c := range all {
		for name, count := range c {
			of[name] = append(of[name], count)
		}
	}
	middle := costs{}
	for name, counts := range of {
		counts = append(counts, make([]float64, len(all)-len(counts))...)
		slices.Sort(counts)
		middle[name] = counts[len(counts)/2]
	}
	return middle
}

// above says which counts are above the figures.
func (c costs) above(figures costs) []string {
	var above []string
	for _, name := range slices.Sorted(maps.Keys(c)) {
		if count, most := c[name], figures[name]; count > most+slack(name, most) {
			above = append(above, fmt.Sprintf("%s: %.1f times instead of at most %.1f, which is %.1f more", name, count, most, count-most))
		}
	}
	return above
}

// costTable is the content of costFile.
func costTable(all map[string]costs) string {
	var b strings.Builder
	b.WriteString(costHead)
	for _, operation := range costOperations {
		fmt.Fprintf(&b, "\n[%s]\n", operation)
		c := all[operation]
		kind := func(name string) int { return slices.Index(costKinds, strings.Fields(name)[0]) }
		for _, name := range slices.SortedFunc(maps.Keys(c), func(x, y string) int {
			return cmp.Or(cmp.Compare(kind(x), kind(y)), strings.Compare(x, y))
		}) {
			if count := math.Round(c[name]*10) / 10; count > 0 {
				fmt.Fprintf(&b, "%s %v\n", name, count)
			}
		}
	}
	return b.String()
}

// readCosts reads costFile.
func readCosts() (map[string]costs, error) {
	data, err := os.ReadFile(filepath.FromSlash(costFile))
	if err != nil {
		return nil, err
	}
	all := map[string]costs{}
	var c costs
	for i, line := range strings.Split(string(data), "\n") {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		if operation, ok := strings.CutPrefix(line, "["); ok {
			c = costs{}
			all[strings.TrimSuffix(operation, "]")] = c
			continue
		}
		cut := strings.LastIndexByte(line, ' ')
		if cut < 0 || c == nil {
			return nil, fmt.Errorf("%s:%d: %q", costFile, i+1, line)
		}
		if c[line[:cut]], err = strconv.ParseFloat(line[cut+1:], 64); err != nil {
			return nil, fmt.Errorf("%s:%d: %w", costFile, i+1, err)
		}
	}
	return all, nil
}

// onJournal puts the data on an ext4 of its own, with a journal as users have it: what is
// done depends on the filesystem. It is large enough for passthrough.
func onJournal(t *testing.T) mountOption {
	t.Helper()
	needsDisks(t, "mkfs.ext4")
	const size = 1 << 30
	kind := diskKinds[0]
	kind.options = ""
	dir := inMemoryDir(t, size)
	image, disk := filepath.Join(dir, "image"), filepath.Join(dir, "disk")
	if err := os.Mkdir(disk, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := kind.makeImage(image, size, "-N", "16384", "-J", "size=32"); err != nil {
		t.Fatal(err)
	}
	if err := kind.mountImage(image, disk); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unmountDisk(t, disk) })
	return below(disk)
}

// costFiles makes what the worker works on.
func costFiles(data string) error {
	if err := os.Mkdir(filepath.Join(data, "dir"), 0o755); err != nil {
		return err
	}
	names := []string{"file", "records", "target", "careful"}
	for i := range 20 {
		names = append(names, fmt.Sprintf("dir/%d", i))
	}
	for _, name := range names {
		if err := os.WriteFile(filepath.Join(data, name), []byte("old\n"), 0o644); err != nil {
			return err
		}
	}
	return nil
}
