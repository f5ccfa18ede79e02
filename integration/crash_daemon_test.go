package integration

import (
	"testing"
	"time"
)

// TestCrashUnderLoad kills latchfs at random moments while processes save in
// every way there is, mounts again and looks: every file is one complete
// version, at least the last acknowledged one, what was removed is gone, and
// nothing of latchfs's own lies around.
func TestCrashUnderLoad(t *testing.T) {
	inStress(t)
	needsLatchfs(t)
	forEachMount(t, func(t *testing.T, m *Mount) {
		rounds := repeat(50, 1000)
		if m.Name != "root" {
			rounds /= 5
		}
		crashRounds(t, m, "load", 3, rounds)
	})
}

// TestCrashUnderLoadLazily does the same where nothing waits for the disk: what was
// acknowledged is there all the same as long as the machine runs.
func TestCrashUnderLoadLazily(t *testing.T) {
	inStress(t)
	needsLatchfs(t)
	crashRounds(t, mount(t, withArgs("--durability", "lazy")), "load", 3, repeat(15, 300))
}

// TestCrashInPlace does the same to a single writer of a large file with two
// names, which is copied in place and needs its redo record to survive.
func TestCrashInPlace(t *testing.T) {
	inStress(t)
	needsLatchfs(t)
	crashRounds(t, mount(t), "inplace", 1, repeat(15, 300))
}

// crashRounds kills latchfs under the load of several processes, again and again.
func crashRounds(t *testing.T, m *Mount, load string, writers, rounds int) {
	moment := drawn(t)
	ws := newLoadWriters(m, load, "", writers)
	for round := range rounds {
		for _, w := range ws {
			w.start(t, m)
		}
		if round == rounds-1 {
			awaitAcknowledged(t, ws)
		}
		// The delay makes the moment random; nothing waits for it to be over.
		time.Sleep(time.Duration(moment.IntN(400)) * time.Millisecond)
		m.Crash(t)
		for _, w := range ws {
			w.end(t)
		}
		m.Start(t)
		for _, w := range ws {
			w.readLog(t, w.logged(), w.logged())
			w.check(t, m, losesNothing)
		}
		left, err := reservedNames(m.Data)
		if err != nil {
			t.Fatal(err)
		}
		if len(left) > 0 {
			t.Errorf("left in the data directory: %q", left)
		}
		if t.Failed() {
			t.Fatalf("in round %d", round)
		}
	}
	reportLoad(t, ws)
}

// reportLoad tells how much there was to lose.
func reportLoad(t *testing.T, ws []*loadWriter) {
	t.Helper()
	for _, w := range ws {
		t.Logf("%s: %d files acknowledged, %d unfinished at a crash and there, %d not", w.name, w.acknowledged, w.there, w.notThere)
		if w.acknowledged == 0 {
			t.Errorf("%s: nothing was ever acknowledged, so nothing was tested", w.name)
		}
	}
}
