package integration

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

var nonsenseFor = flag.Duration("nonsense", 0, "how long a user makes nonsense on each mount of TestNonsense")

// saving saves a file again and again, by writing it and by renaming a new one over it,
// reads each save back, and says at each line that it is sent how long they took.
const saving = `
import json, os, select, statistics, sys, time
path = sys.argv[1]
times, n = [], 0
while True:
    n += 1
    text = "version %d\n" % n * 100
    new = path + ".new" if n % 2 else path
    begun = time.monotonic()
    with open(new, "w") as f:
        f.write(text)
    if new != path:
        os.rename(new, path)
    times.append(time.monotonic() - begun)
    with open(path) as f:
        if f.read() != text:
            sys.exit("save %d is not there" % n)
    if n == 1:
        print("saving", flush=True)
    if select.select([0], [], [], 0.002)[0]:
        if not os.read(0, 1):
            break
        print(json.dumps({"Saves": len(times), "Median": statistics.median(times), "Longest": max(times)}), flush=True)
        times = []
`

type savingTimes struct {
	Saves           int
	Median, Longest float64 // seconds
}

// burden is what the daemon uses: threads, descriptors, KiB of memory.
type burden struct{ threads, descriptors, memory int }

func (m *Mount) burden(t *testing.T) burden {
	t.Helper()
	entries, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", m.PID()))
	if err != nil {
		t.Fatal(err)
	}
	return burden{m.daemonStatus(t, "Threads"), len(entries), m.daemonStatus(t, "VmRSS")}
}

// An ordinary user who makes nonsense on every interface brings nothing down: meanwhile
// others' saves succeed, and afterwards the daemon has what it had before.
func TestNonsense(t *testing.T) {
	inStress(t)
	script, err := os.ReadFile("testdata/nonsense.py")
	if err != nil {
		t.Fatal(err)
	}
	how := *nonsenseFor
	switch {
	case how != 0:
	case stress():
		how = 5 * time.Minute // on each of two mounts
	default:
		how = 1500 * time.Millisecond
	}
	strangerMounts(t, func(t *testing.T, m *Mount) { nonsense(t, m, string(script), how) }, lockTimeout(300*time.Millisecond))
}

func nonsense(t *testing.T, m *Mount, script string, how time.Duration) {
	alice := m.launchAs(t, ordinaryUID, bench.python, "-c", saving, m.Path("alice/f"))
	alice.AwaitLine("saving")
	asked := 0
	times := func() (s savingTimes) {
		t.Helper()
		var lines []string
		asked++
		alice.Send("")
		eventually(t, "the times of the saves", func() bool {
			lines = strings.Split(alice.Stdout(), "\n")
			return len(lines) > asked+1 || alice.Done()
		})
		if alice.Done() {
			t.Fatalf("a save of another user failed:\n%s", alice.Stderr())
		}
		m.decode(lines[asked], &s)
		return s
	}
	seed := drawnSeed()
	bob := func(root string, how time.Duration) string {
		t.Helper()
		p := m.launchAs(t, otherUID, bench.python, "-c", script, root, filepath.Join(root, "bob"), filepath.Join(root, "alice/f"),
			fmt.Sprint(seed), fmt.Sprint(how.Seconds()))
		select {
		case <-p.done:
		case <-time.After(how + 2*patience):
			t.Fatalf("seed %d: the nonsense does not end: %s", seed, describe(p.PID()))
		}
		return p.OK()
	}
	time.Sleep(min(how/6, 10*time.Second)) // what is measured
	quiet, before := times(), m.burden(t)
	if how >= compared {
		besideOthers(t, times, bob, m.Dir, how)
	} else {
		report := bob(m.Dir, how)
		loud := times()
		didEverything(t, report, how)
		t.Logf("seed %d: saves took %.2f ms before (%d), %.2f ms meanwhile (%d), the longest %.0f ms",
			seed, 1000*quiet.Median, quiet.Saves, 1000*loud.Median, loud.Saves, 1000*loud.Longest)
	}
	if !m.Running() {
		t.Fatalf("latchfs has ended:\n%s", m.log())
	}
	m.AwaitClear(t)
	alice.Close()
	alice.OK()
	settles(t, m, before)
}

// compared is from how long on others' saves are compared, in so many rounds.
const (
	compared       = 12 * time.Second
	comparedRounds = 3
)

// besideOthers fails the test if others' saves take more than twice as long while a user
// makes nonsense on the mount as while he makes the same on a plain directory, which
// takes the processors as well. The rounds take turns, for the machine may be busy.
func besideOthers(t *testing.T, times func() savingTimes, bob func(root string, how time.Duration) string, mnt string, how time.Duration) {
	t.Helper()
	each := how / comparedRounds
	var quiet, plain, loud []float64
	longest := 0.0
	for range comparedRounds {
		times() // what the former round has left is over
		time.Sleep(each / 6)
		quiet = append(quiet, times().Median)
		dir := plainStrangers(t)
		times()
		bob(dir, each)
		plain = append(plain, times().Median)
		report := bob(mnt, each)
		now := times()
		didEverything(t, report, each)
		loud, longest = append(loud, now.Median), max(longest, now.Longest)
	}
	for _, list := range [][]float64{quiet, plain, loud} {
		slices.Sort(list)
	}
	const mid = comparedRounds / 2
	t.Logf("medians of saves in seconds: before %.4f, beside nonsense on a plain directory %.4f, beside nonsense on the mount %.4f; the longest %.3f",
		quiet, plain, loud, longest)
	t.Logf("saves took %.1f times as long as before, and %.1f times as long as beside the plain directory", loud[mid]/quiet[mid], loud[mid]/plain[mid])
	if stress() && loud[mid] > 2*max(quiet[mid], plain[mid]) {
		t.Errorf("the saves took %.1f times as long as beside the same nonsense on a plain directory", loud[mid]/plain[mid])
	}
}

// plainStrangers makes a plain directory with what strangerMounts has in its data.
func plainStrangers(t *testing.T) string {
	t.Helper()
	root, err := os.MkdirTemp(bench.root, "plain-")
	if err == nil {
		t.Cleanup(func() { os.RemoveAll(root) })
		err = fillStrangers(root)
	}
	if err == nil {
		err = os.Chmod(root, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	return root
}

// settles fails the test unless the daemon's burden comes near to what it was before.
func settles(t *testing.T, m *Mount, before burden) {
	t.Helper()
	var now burden
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); time.Sleep(20 * poll) {
		now = m.burden(t)
		if now.threads <= before.threads+30 && now.descriptors <= before.descriptors+20 && (m.raced() || now.memory <= before.memory+64<<10) {
			t.Logf("threads, descriptors, KiB: %v before, %v after", before, now)
			return
		}
	}
	t.Errorf("threads, descriptors, KiB: %v before, %v after, with %q", before, now, m.openFiles())
}

// openFiles lists what the daemon has open.
func (m *Mount) openFiles() []string { return openFilesOf(m.PID()) }

// openFilesOf lists what a process has open; nothing of one that has ended.
func openFilesOf(pid int) []string {
	dir := fmt.Sprintf("/proc/%d/fd", pid)
	entries, _ := os.ReadDir(dir)
	var names []string
	for _, e := range entries {
		name, _ := os.Readlink(filepath.Join(dir, e.Name()))
		names = append(names, name)
	}
	return names
}

// didEverything fails the test unless there was time enough for calls of every kind to
// succeed, and did.
func didEverything(t *testing.T, report string, how time.Duration) {
	t.Helper()
	var did struct {
		Workers int
		Kinds   map[string]struct{ Made, Fine int }
	}
	if err := json.Unmarshal([]byte(report), &did); err != nil {
		t.Fatalf("%v in %q", err, report)
	}
	var made, fine int
	for kind, n := range did.Kinds {
		made, fine = made+n.Made, fine+n.Fine
		if how >= time.Minute && n.Fine == 0 {
			t.Errorf("none of %d calls of the kind %q succeeded", n.Made, kind)
		}
	}
	if made < 2000 || fine == 0 {
		t.Errorf("%d calls of 2000 were made, %d succeeded", made, fine)
	}
	t.Logf("%d calls, %d of which succeeded, of %d processes: %v", made, fine, did.Workers, did.Kinds)
}
