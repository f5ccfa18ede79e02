package fs

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"latchfs/lockmgr/policy"
)

var (
	simSeed   = flag.Uint64("seed", 0, "run this simulation alone, and show what happens")
	simTrace  = flag.Bool("trace", false, "show each request of the simulation, too")
	simSeeds  = flag.Int("seeds", 0, "how many simulations to run")
	simAtOnce = flag.Bool("atonce", false, "with -seeds: let all go on at once who can, for the race detector; no seed repeats that")
	simFirst  = flag.Bool("first", false, "with -seeds: stop at the first one that fails, and do not make it smaller")
	simText   = flag.String("programs", "", "with -seed: what the programs do, \"ann: cat a; rm a | bob: mv a b\"")
	simHarm   simHazards // with -programs
)

func init() {
	flag.IntVar(&simHarm.kills, "kills", 0, "with -programs: how many of a thousand steps kill a program")
	flag.IntVar(&simHarm.crashes, "crashes", 0, "with -programs: how many of a thousand steps kill the daemon")
	flag.IntVar(&simHarm.cuts, "cuts", 0, "how many of a thousand steps cut the power; without -programs, whether it is cut at all")
	flag.IntVar(&simHarm.lazy, "lazy", 0, "with -programs: 1 lets no close wait for the disk (durability = \"lazy\")")
	flag.IntVar(&simHarm.aimed, "aimed", 0, "with -programs: 1 lets harm come where it shows")
	flag.IntVar(&simHarm.passes, "passes", 0, "with -programs: 1 lets the kernel read and write backing files itself (passthrough)")
	flag.IntVar(&simHarm.ttl, "ttl", 0, "with -programs: how many milliseconds a read claim lasts")
	flag.IntVar(&simHarm.judges, "judges", 0, "with -programs: what the policy asks of the content of files (simJudges)")
	flag.IntVar(&simHarm.lease, "lease", 0, "with -programs: how many milliseconds a lease lasts; of an odd one the next in the queue gets what is stale")
	flag.IntVar(&simHarm.hidden, "hidden", 0, "with -programs: how programs are hidden that hide (sim_hidden_test.go)")
	flag.Func("updates", "what the policy says of lost updates; without -programs, of all seeds", func(s string) error {
		simHarm.updates = policy.LostUpdate(s)
		return nil
	})
	flag.IntVar(&simHarm.faults, "faults", 0, "with -programs: how many of a thousand steps make the disk fail")
}

// maxBroken is after how many failures there is enough to read.
const maxBroken = 3

// TestSimulation runs simulations of programs that use the same few files: see
// docs/architecture.md.
func TestSimulation(t *testing.T) {
	dir := simBase(t)
	if *simSeed != 0 {
		script := drawScript(*simSeed)
		if simHarm.cuts > 0 {
			script = drawCuts(*simSeed)
		}
		if *simText != "" {
			script = parseScript(*simText, simHarm)
		}
		w := simulate(t, dir, simOptions{seed: *simSeed, script: script, trace: *simTrace})
		t.Log("\n" + w.transcript())
		if len(w.failures) > 0 && *simText == "" {
			small := shrink(t, dir, w)
			t.Logf("Shrunk to this:\n%s\nTo see it again:\n%s", small.transcript(), small.replay())
		}
		if len(w.failures) > 0 {
			t.Fatal(strings.Join(w.failures, "\n"))
		}
		return
	}
	runSeeds(t, 300, func(seed uint64) simOptions { return simOptions{seed: seed, script: drawScript(seed)} })
}

// runSeeds runs so many simulations, or other ones if the environment or a flag says so.
func runSeeds(t *testing.T, n int, of func(seed uint64) simOptions) {
	dir := simBase(t)
	first := uint64(1)
	if os.Getenv("LATCHFS_STRESS") != "" {
		first, n = uint64(time.Now().UnixNano()), 33*n
	}
	if *simSeeds != 0 {
		first, n = 1, *simSeeds
	}
	broken, whole := 0, map[bool]string{true: " -cuts 1"}
	done := map[string]int{}
	steps, began := 0, time.Now()
	for seed := first; seed < first+uint64(n) && broken < maxBroken; seed++ {
		o := of(seed)
		o.atOnce = *simAtOnce
		w := simulate(t, dir, o)
		steps += w.steps
		for k, v := range w.model.done {
			done[k] += v
		}
		if len(w.failures) > 0 {
			broken++
			if *simFirst {
				t.Fatalf("seed %d:\n%s", seed, w.transcript())
			}
			small := shrink(t, dir, w)
			t.Errorf("seed %d, shrunk to this:\n%s\nTo see it again:\n%s\nThe whole of it:\ngo test ./fs -v -run 'TestSimulation$' -args -seed %d%s",
				seed, small.transcript(), small.replay(), seed, whole[w.disk != nil])
		}
	}
	took := time.Since(began)
	t.Logf("%d seeds, %d steps in %v: %.0f seeds and %.0f steps a second", n, steps, took, float64(n)/took.Seconds(), float64(steps)/took.Seconds())
	for _, k := range slices.Sorted(maps.Keys(done)) {
		t.Logf("%-24s %d", k, done[k])
	}
}

func (w *simWorld) transcript() string {
	return fmt.Sprintf("The programs:\n%s\nWhat happened:\n%s", w.opts.script, strings.Join(w.lines, "\n"))
}

// inTurns runs programs in an order that the test says; see simOptions.turns.
func inTurns(t *testing.T, programs []simProgram, turns ...string) *simWorld {
	t.Helper()
	return inTurnsOf(t, simOptions{seed: 1, script: simScript{programs: programs}, turns: turns})
}

func inTurnsOf(t *testing.T, o simOptions) *simWorld {
	t.Helper()
	o.trace = true
	w := simulate(t, simBase(t), o)
	t.Log("\n" + w.transcript())
	if len(w.failures) > 0 {
		t.Fatal(strings.Join(w.failures, "\n"))
	}
	return w
}

// A reader has found the file's node when a writer takes that over, and is killed. What
// the writer has left is not what the reader opens.
func TestReaderBesideAKilledWriter(t *testing.T) {
	inTurns(t, []simProgram{simProgramOf("ann", "cat a"), simProgramOf("bob", "echo a")},
		"ann until OPEN a", "bob until WRITE a at 6", "kill bob", "bob to the end", "ann to the end")
}

// A file is renamed between the walk of an open and the OPEN. What the program reads is
// what it knows of the name that it gave, so that it does not replace what another
// program has put there since.
func TestRenameBeforeAReaderOpens(t *testing.T) {
	inTurns(t, []simProgram{simProgramOf("ann", "count a"), simProgramOf("bob", "mv a b"), simProgramOf("cyn", "echo a")},
		"ann until OPEN a", "bob to the end", "ann until call open a to write", "cyn to the end", "ann to the end")
}

// The same of a program that is about to replace a version that it does not know: it
// does not do so under the name that the file has got meanwhile.
func TestRenameBeforeAWriterOpens(t *testing.T) {
	inTurns(t, []simProgram{simProgramOf("ann", "count a"), simProgramOf("bob", "mv a b"), simProgramOf("cyn", "echo a")},
		"ann until call open a to write", "cyn to the end", "the kernel to the end", "ann until OPEN a", "bob to the end", "ann to the end")
}

// A file is renamed twice while a program opens it: before its first OPEN, and before
// its second. The kernel does not walk a third time.
func TestRenamesBeforeBothOpens(t *testing.T) {
	programs := []simProgram{
		simProgramOf("ann", "count a"), simProgramOf("bob", "mv a b"), simProgramOf("cyn", "mv b a"), simProgramOf("dan", "mv a b"), simProgramOf("eve", "echo a"),
	}
	inTurns(t, programs, "ann until OPEN a", "bob to the end", "cyn to the end", "ann until LOOKUP a", "ann until OPEN a", "dan to the end",
		"ann until call open a to write", "eve to the end", "ann to the end")
	inTurns(t, programs, "ann until call open a to write", "eve to the end", "the kernel to the end",
		"ann until OPEN a", "bob to the end", "cyn to the end", "ann until LOOKUP a", "ann until OPEN a", "dan to the end", "ann to the end")
}

// A program is on its way to a file by a second walk when that changes places with another one,
// and is saved by the name that it has then. What the program opens was at the name that it gave.
func TestExchangeBeforeASecondOpen(t *testing.T) {
	programs := []simProgram{simProgramOf("ann", "cat a"), simProgramOf("bob", "echo a"), simProgramOf("cyn", "exchange a d/a"), simProgramOf("dan", "echo d/a"), simProgramOf("eve", "cat a")}
	inTurns(t, programs, "eve until READ a", "ann until OPEN a", "dan until OPEN a", "bob to the end", "the kernel to the end",
		"ann until LOOKUP a", "ann until OPEN a", "cyn to the end", "dan to the end", "the kernel to the end", "ann to the end")
}

// A file gets a further name from a program that has it open to write. It is that program's
// until the close: whoever writes it by either name waits for that.
func TestLinkedWhileItIsWritten(t *testing.T) {
	for _, name := range []string{"a", "b"} {
		w := inTurns(t, []simProgram{simProgramOf("ann", "bumpln a b"), simProgramOf("bob", "echo "+name), simProgramOf("cyn", "cat "+name)},
			"ann until WRITE a at 6", "bob until WRITE", "cyn to the end", "ann to the end", "bob to the end")
		line := func(says string) int {
			return slices.IndexFunc(w.lines, func(l string) bool { return strings.Contains(l, says) })
		}
		closed, opened := line("ann[1] closes a: ok"), line("bob[2] opens "+name+" to write, create, truncate: ok")
		if closed < 0 || opened < closed {
			t.Errorf("ann closes the file in line %d, and bob has opened %s in line %d", closed, name, opened)
		}
	}
}

// A child is killed while it writes to the descriptor of its parent, and has lost its
// descriptors, when the parent closes the file: what the child had written is not a
// version.
func TestParentClosesBesideAKilledChild(t *testing.T) {
	inTurns(t, []simProgram{simProgramOf("ann", "pass a")},
		"ann until call close a", "ann-child until WRITE a at 6", "kill ann-child", "ann-child until FLUSH a", "ann to the end")
}

// Likewise where the opener is killed, and a child closes the file that it has inherited.
func TestChildClosesBesideAKilledParent(t *testing.T) {
	inTurns(t, []simProgram{simProgramOf("ann", "share a")},
		"ann until WRITE a at 6", "ann-child until FLUSH a", "kill ann", "ann until FLUSH a", "ann-child to the end", "ann to the end")
}

// Parent and child are killed at once, as a process group is: neither waits for the
// other.
func TestParentAndChildAreKilled(t *testing.T) {
	inTurns(t, []simProgram{simProgramOf("ann", "pass a")},
		"ann until call close a", "ann-child until WRITE a at 6", "kill ann", "kill ann-child",
		"ann until FLUSH a", "ann-child until FLUSH a", "ann to the end", "ann-child to the end")
}

// A truncation by the path is led to a session by a second walk, and cannot be told to
// walk again for another reason.
func TestTruncateAfterARename(t *testing.T) {
	inTurns(t, []simProgram{simProgramOf("ann", "save a"), simProgramOf("bob", "truncate a")}, "ann to the end", "bob to the end")
}

// A program opens a file to append to it, and waits for a writer who has taken the
// file's node over, and is killed. The records go to the file, not to what the writer
// has left.
func TestAppenderBesideAKilledWriter(t *testing.T) {
	inTurns(t, []simProgram{simProgramOf("ann", "log a"), simProgramOf("bob", "echo a")},
		"ann until OPEN a", "bob until WRITE a at 6", "ann to the end", "kill bob", "bob to the end", "ann to the end")
}

// The records of a program wait for another one that writes the file. A third program has opened
// the file since, and reads nothing behind its end: the kernel takes the inode to be as long as
// what was written through it.
func TestReaderBesideAnAppender(t *testing.T) {
	programs := []simProgram{simProgramOf("ann", "cat a"), simProgramOf("bob", "log a"), simProgramOf("cyn", "echo a"), simProgramOf("dan", "truncate a")}
	inTurns(t, programs, "dan to the end", "bob until WRITE a", "ann until READ a",
		"cyn until WRITE a at 6", "bob until call close a", "ann to the end", "cyn to the end", "bob to the end")
}

// A program has found a file to append to it when another one removes that. What the
// history keeps of the file is what was removed, without the records.
func TestAppenderBesideARemoval(t *testing.T) {
	inTurns(t, []simProgram{simProgramOf("ann", "rm a"), simProgramOf("bob", "log a")}, "bob until OPEN a", "ann to the end", "bob to the end")
}

// A program has found a file to give it a further name when a writer takes the file's
// node over. What the writer has not finished gets no name, and is not committed.
func TestLinkBesideAWriter(t *testing.T) {
	for _, line := range []string{"echo a", "bump a"} {
		inTurns(t, []simProgram{simProgramOf("ann", "ln a b"), simProgramOf("bob", line)},
			"ann until LINK b", "bob until WRITE a at 6", "ann to the end", "bob to the end", "ann to the end")
		inTurns(t, []simProgram{simProgramOf("ann", "ln a b"), simProgramOf("bob", line)},
			"ann until LINK b", "bob until WRITE a at 6", "kill bob", "bob to the end", "ann to the end")
	}
}

// A program has synced all that it has written, and is killed before it closes the file:
// what it has written is the file.
func TestKilledAfterASync(t *testing.T) {
	for _, line := range []string{"sync a", "sync b"} {
		inTurns(t, []simProgram{simProgramOf("ann", line)}, "ann until call close", "kill ann", "ann to the end")
	}
}

// The lock of a program that may not write the file keeps nobody out who does not lock.
func TestLockOfAReader(t *testing.T) {
	w := inTurns(t, []simProgram{simProgramOf(simGuest, "hold a"), simProgramOf("ann", "echo a"), simProgramOf("bob", "lock a")},
		"gus until call close a", "ann to the end", "bob to the end")
	got := strings.Join(w.lines, "\n")
	if wrote, read := strings.Index(got, "ann[2] closes a"), strings.Index(got, "gus[1] closes a"); wrote < 0 || read < wrote {
		t.Fatal("ann has waited for the lock of gus")
	}
	if locked, read := strings.Index(got, "bob[3] locks a"), strings.Index(got, "gus[1] has ended"); locked < read {
		t.Fatal("bob has not waited for the lock of gus")
	}
}

// stories are those in which seeds have found a defect, which is repaired.
var stories = map[string]struct {
	seed     uint64
	hazards  simHazards
	programs string
}{
	"records beside a session that waits for its RELEASE":        {seed: 483, programs: "bob: log a | cyn: count a; cut a; log a"},
	"records after a rename of the log":                          {seed: 50, programs: "ann: log b | bob: echo b; mv b c"},
	"records to a file that was replaced and renamed":            {seed: 1867, programs: "bob: log a | cyn: echo a | dan: mv a b"},
	"records after an exchange":                                  {seed: 2300, programs: "ann: log b | bob: echo b; exchange b a"},
	"a truncation of a file that changes its place":              {seed: 6287, programs: "ann: truncate d/a | cyn: swap e d a | dan: exchange a d/a"},
	"an append to a file that is made anew meanwhile":            {seed: 1795659659885819744, programs: "ann: log a | bob: rm a | dan: cut a"},
	"a transaction that the disk cuts short":                     {seed: 1795660326680380465, hazards: simHazards{faults: 30}, programs: "ann: txnrm a b | bob: tree d d/a | cyn: edit a"},
	"an exchange that is interrupted":                            {seed: 1795660326680384505, hazards: simHazards{kills: 10, faults: 30}, programs: "bob: exchange a d/a"},
	"a synced file, and an error when it is closed":              {seed: 1795660326680384500, hazards: simHazards{kills: 10, crashes: 10, faults: 30}, programs: "ann: mv d/a b; sync a | bob: swap d e a; exchange a d/a; sync e/a"},
	"a link that an error of the disk has left":                  {seed: 1795660326680385857, hazards: simHazards{faults: 30}, programs: "ann: ln d/b d/a; count d/a; count a | bob: echo d/b; cut d/a; save a | cyn: count d/b"},
	"two readers' locks beside a rename":                         {seed: 1795679365025056469, programs: "bob: mv a b | dan: lock a | gus: hold a"},
	"a removal in a transaction, and a refused save":             {seed: 1795679365025055023, programs: "bob: count a; txnrm b a; echo a | cyn: echo a"},
	"a kept version that gives way":                              {seed: 1795679365025054557, hazards: simHazards{crashes: 10, faults: 30}, programs: "ann: count a | bob: sync a | cyn: save a; rm a; chmod a | dan: save a; log a"},
	"a reader on its way to a file that is renamed and replaced": {seed: 15424, programs: "ann: echo b | bob: mv a b | cyn: edit a | dan: cat a"},
	"a commit in place beside a reader":                          {seed: 13065, hazards: simHazards{crashes: 40}, programs: "ann: rmdir e; edit b; share b | bob: ln a b; ln a b; cat a; cut b; count a; echo a; edit a; tree d d/b | cyn: echo b"},
	"a refused rename, and what is read under a lock then":       {seed: 1795745003648415499, programs: "ann: cat d/b; mvnew d/b b; trylock d/b | cyn: echo d/b"},
	"a link to a file that is set apart":                         {seed: 1795745003648421740, hazards: simHazards{lazy: 1}, programs: "ann: ln a b | bob: echo a; count b"},
	"a link to a file that gets another name meanwhile":          {seed: 1795745003648422173, programs: "ann: ln d/a b | cyn: exchange d/a d/b; count b"},
	"a removal of a file that is open, and was not changed":      {seed: 1795745143981702746, programs: "bob: echo a | cyn: count a; cut a; cat a; rm a"},
	"records to a file that was removed and is made anew":        {seed: 1795751971286597865, hazards: simHazards{faults: 30}, programs: "bob: sync a; sync a | cyn: mvnew a a; log a | dan: rm a"},
	"a reader on its way when a transaction is finished":         {seed: 14339, hazards: simHazards{crashes: 10, faults: 30, passes: 1}, programs: "ann: txnrm a b; cat a | bob: txn a b"},
	"a hidden file in a directory that a transaction removes":    {seed: 1736, hazards: simHazards{faults: 30}, programs: "ann: again m; edit b | bob: cut d/a; pass d/a; begin d/b; rm d/a; rm d/b; rmdir d; commit"},
	"a refusal of another one's rename":                          {seed: 1177, programs: "ann: note l.jsonl | bob: rmdir e; mv d e; mv a l.jsonl | cyn: echo a; notesave l.jsonl; lock d/b; lock b; echo d/b; log d/b; swap d e a"},
	"a slow create after a wait":                                 {seed: 1370, programs: "ann: echo a; save a | bob: count a | cyn: rm a | dan: rmdir e; count a"},
}

func TestStories(t *testing.T) {
	for name, s := range stories {
		t.Run(name, func(t *testing.T) {
			w := simulate(t, simBase(t), simOptions{seed: s.seed, script: parseScript(s.programs, s.hazards)})
			if len(w.failures) > 0 {
				t.Fatalf("%s\n%s", strings.Join(w.failures, "\n"), w.transcript())
			}
		})
	}
}
