package integration

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// The power goes: what the data's filesystem had not written yet is lost. Every
// version whose close was acknowledged before is there if its durability is full, or auto
// and it replaced another one,
// and whatever the durability, every file is one complete version.

// forEachDisk runs a test on each filesystem.
func forEachDisk(t *testing.T, test func(*testing.T, *powerDisk)) {
	t.Helper()
	for _, kind := range diskKinds {
		t.Run(kind.name, func(t *testing.T) { test(t, newPowerDisk(t, kind)) })
	}
}

// onPower puts the data directory on the disk.
func onPower(d *powerDisk) mountOption { return withSeed(d.boot) }

// A disk that loses its power really loses what was not synced, and nothing else.
func TestPowerCutLosesWhatIsNotSynced(t *testing.T) {
	inTest(t)
	forEachDisk(t, func(t *testing.T, d *powerDisk) {
		dir := t.TempDir()
		if err := d.boot(dir); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { unmountDisk(t, dir) }) // before the directory goes
		write := func(name string, sync bool) {
			f, err := os.Create(filepath.Join(dir, name))
			if err == nil {
				_, err = f.WriteString("content")
			}
			if err == nil && sync {
				err = f.Sync()
			}
			if err != nil {
				t.Fatal(err)
			}
			f.Close()
		}
		write("synced", true)
		write("not", false)
		if err := d.snapshot(); err != nil {
			t.Fatal(err)
		}
		d.restart(t)
		if b, err := os.ReadFile(filepath.Join(dir, "synced")); err != nil || string(b) != "content" {
			t.Errorf("what was synced is %q, %v", b, err)
		}
		if b, err := os.ReadFile(filepath.Join(dir, "not")); err == nil && string(b) == "content" {
			t.Errorf("what was not synced is there: this disk proves nothing")
		}
	})
}

const durabilities = `
[[rule]]
glob = "full/**"
durability = "full"
[[rule]]
glob = "auto/**"
durability = "auto"
[[rule]]
glob = "ordered/**"
durability = "ordered"
[[rule]]
glob = "lazy/**"
durability = "lazy"
`

// TestPowerCutUnderLoad cuts the power at random moments under the load of
// several processes, with every durability.
func TestPowerCutUnderLoad(t *testing.T) {
	needsLatchfs(t)
	forEachDisk(t, func(t *testing.T, d *powerDisk) {
		m := mount(t, onPower(d), withPolicy(durabilities), withFindings("damaged-rejected"))
		full := newLoadWriters(m, "load", "full", 2)
		rest := append(newLoadWriters(m, "load", "ordered", 1), newLoadWriters(m, "load", "lazy", 1)...)
		auto := newLoadWriters(m, "load", "auto", 1)
		all := slices.Concat(full, auto, rest)
		moment := drawn(t)
		syncDisk(t, m)
		rounds := repeat(5, 200)
		for round := range rounds {
			for _, w := range all {
				w.start(t, m)
			}
			if round == rounds-1 {
				awaitAcknowledged(t, all)
			}
			time.Sleep(time.Duration(50+moment.IntN(400)) * time.Millisecond) // the moment is random
			powerCut(t, m, d, all)
			for _, w := range full {
				w.check(t, m, losesRemovals)
			}
			for _, w := range auto {
				w.check(t, m, losesNew)
			}
			for _, w := range rest {
				w.check(t, m, losesCommits)
			}
			m.awaitSwept(t)
			if t.Failed() {
				t.Fatalf("in round %d", round)
			}
		}
		reportLoad(t, all)
	})
}

// A shadow may share the blocks of the version before. Where only a part of what
// was written over them has reached the disk, the rest shows earlier bytes there and
// no zeros, and the name must not keep that.
func TestPowerCutAmidSharedBlocks(t *testing.T) {
	needsLatchfs(t)
	old, updated := strings.Repeat("old\n", 16<<10), strings.Repeat("new\n", 16<<10)
	forEachDisk(t, func(t *testing.T, d *powerDisk) {
		m := mount(t, onPower(d), withPolicy("[defaults]\ndurability = \"lazy\"\n"), withFindings("damaged-rejected"))
		m.WriteFile("f", old)
		m.WriteFile("other", "")
		syncDisk(t, m)
		f, err := os.OpenFile(m.Path("f"), os.O_RDWR, 0)
		must(t, err)
		for piece := range slices.Chunk([]byte(updated), 4<<10) { // so that pages can be written one by one
			_, err = f.Write(piece)
			must(t, err)
		}
		must(t, f.Close())

		below, err := os.Open(filepath.Join(m.Data, "f"))
		must(t, err)
		const written = unix.SYNC_FILE_RANGE_WRITE | unix.SYNC_FILE_RANGE_WAIT_AFTER
		must(t, unix.SyncFileRange(int(below.Fd()), 0, 8<<10, written))
		below.Close()
		other, err := os.OpenFile(filepath.Join(m.Data, "other"), os.O_WRONLY, 0)
		must(t, err)
		_, err = other.WriteString("x")
		must(t, err)
		must(t, other.Sync()) // and the names with it
		other.Close()

		powerCut(t, m, d, nil)
		if got := m.ReadFile("f"); got != old && got != updated {
			t.Errorf("the file is torn: %d bytes, %d lines of them old and %d new",
				len(got), strings.Count(got, "old\n"), strings.Count(got, "new\n"))
		}
		m.awaitSwept(t)
	})
}

// syncDisk writes everything to the disk that the mount's data is on.
func syncDisk(t *testing.T, m *Mount) {
	t.Helper()
	dir, err := os.Open(m.Data)
	if err == nil {
		err = unix.Syncfs(int(dir.Fd()))
		dir.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
}

// powerCut cuts the power of the disk under m while the writers work, and starts
// all but them again. What they were told before the cut is certain, what they
// began before its end is possible.
func powerCut(t *testing.T, m *Mount, d *powerDisk, ws []*loadWriter) {
	t.Helper()
	certain, possible := map[*loadWriter]int64{}, map[*loadWriter]int64{}
	for _, w := range ws {
		certain[w] = w.logged()
	}
	err := d.snapshot()
	for _, w := range ws {
		possible[w] = w.logged()
	}
	if err != nil {
		t.Fatal(err)
	}
	m.Crash(t)
	for _, w := range ws {
		w.end(t)
	}
	m.detach()
	d.restart(t)
	m.Start(t)
	for _, w := range ws {
		w.readLog(t, certain[w], possible[w])
	}
}

// complaints collects what a test would fail of.
type complaints struct {
	testing.TB
	list []string
}

func (c *complaints) Helper() {}

func (c *complaints) Errorf(format string, args ...any) {
	c.list = append(c.list, fmt.Sprintf(format, args...))
}

// A latchfs whose syncs do nothing is found out: were it otherwise, the test
// above would prove nothing.
func TestPowerCutFindsMissingSyncs(t *testing.T) {
	forEachDisk(t, func(t *testing.T, d *powerDisk) {
		f := newFaults(t)
		f.dropSyncs()
		m := mount(t, onPower(d), withFaults(f))
		w := newLoadWriters(m, "load", "", 1)[0]
		syncDisk(t, m)
		w.start(t, m)
		eventually(t, "something is acknowledged", func() bool { return w.logged() > 2000 })
		powerCut(t, m, d, []*loadWriter{w})
		found := &complaints{TB: t}
		w.check(found, m, losesRemovals)
		t.Logf("%d complaints: %.300q", len(found.list), found.list)
		if len(found.list) == 0 {
			t.Errorf("without syncs nothing is lost, or nobody notices")
		}
		m.awaitSwept(t)
	})
}
