package integration

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// lostJournals are what may become of the journal in a bad copy: gone, or cut.
var lostJournals = map[string]func(segment string) error{
	"gone":  os.Remove,
	"empty": func(segment string) error { return os.Truncate(segment, 0) },
	"head":  func(segment string) error { return os.Truncate(segment, 16) },
}

// A mount does not begin a journal anew where the old one is lost: it would remove what
// programs had synced. A repair keeps that.
func TestLostJournal(t *testing.T) {
	for how, lose := range lostJournals {
		t.Run(how, func(t *testing.T) {
			m := mount(t, inMemory(t), withFindings("kept-aside"))
			makeSynced(t, m)
			p := m.LaunchPython(t, syncedWriters)
			p.AwaitLine("ready")
			m.Crash(t)
			p.Kill()
			segments, err := filepath.Glob(filepath.Join(m.Data, ".latchfs/journal-*"))
			if err != nil || len(segments) != 1 {
				t.Fatalf("segments %q, %v", segments, err)
			}
			if err := lose(segments[0]); err != nil {
				t.Fatal(err)
			}
			before := m.checksums(t)
			m.mustNotStart(t, "nothing was changed", "latchfs fsck --repair "+m.Data)
			m.mustBe(t, before)
			m.mustRepair(t)
			m.Start(t)
			kept := m.keptContents(t)
			for _, name := range []string{"f", "linked", "g", "new", "dir/new"} {
				if !strings.Contains(kept, "synced "+name) {
					t.Errorf("what was synced of %s is not kept: %q", name, kept)
				}
			}
		})
	}
}

// keptContents are all refused bytes.
func (m *Mount) keptContents(t *testing.T) (all string) {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(m.Data, ".latchfs/rejected/*/content"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		all += string(b) + "\n"
	}
	return all
}

// After a clean stop the history's log is cut, or it is damaged after a crash: a mount refuses,
// and has not begun to recover.
func TestDamagedHistoryChangesNothing(t *testing.T) {
	for how, crash := range map[string]bool{"clean": false, "crash": true} {
		t.Run(how, func(t *testing.T) {
			m := mount(t, inMemory(t), withFindings("kept-aside"))
			makeSynced(t, m)
			for _, s := range []string{"1", "2", "3"} {
				m.WriteFile("versions", s)
			}
			at := int64(20)
			if crash {
				p := m.LaunchPython(t, syncedWriters)
				p.AwaitLine("ready")
				m.Crash(t)
				p.Kill()
				at = 0
			} else {
				m.Stop(t)
			}
			if err := os.Truncate(filepath.Join(m.Data, ".latchfs/history/log"), at); err != nil {
				t.Fatal(err)
			}
			before := m.checksums(t)
			m.mustNotStart(t, "history", "nothing was changed", "latchfs fsck --repair "+m.Data)
			m.mustBe(t, before)
			m.mustRepair(t)
			aside, err := filepath.Glob(filepath.Join(m.Data, ".latchfs/corrupt-history/??/*"))
			if err != nil || len(aside) < 2 {
				t.Errorf("kept of the history: %q, %v", aside, err)
			}
			m.Start(t)
		})
	}
}

// After a clean stop a file with the name of a shadow is nobody's that latchfs knows: a repair
// keeps it.
func TestRepairKeepsWhatIsNoShadow(t *testing.T) {
	m := mount(t, inMemory(t), withFindings("kept-aside"))
	m.WriteFile("f", "f")
	m.Stop(t)
	name := filepath.Join(m.Data, ".latchfs-0123456789abcdef0123456789abcdef")
	if err := os.WriteFile(name, []byte("a user's"), 0o600); err != nil {
		t.Fatal(err)
	}
	m.mustRepair(t)
	if kept := m.keptContents(t); kept != "a user's\n" {
		t.Errorf("kept is %q", kept)
	}
	m.Start(t)
}

// A repair that cannot write does not say that all is well.
func TestRepairOnAReadOnlyDisk(t *testing.T) {
	needsRoot(t)
	m := mount(t, inMemory(t))
	m.WriteFile("f", "f")
	m.Stop(t)
	bind := func(flags uintptr) {
		if err := unix.Mount(m.Data, m.Data, "", unix.MS_BIND|flags, ""); err != nil {
			t.Fatal(err)
		}
	}
	bind(0)
	defer unix.Unmount(m.Data, unix.MNT_DETACH)
	bind(unix.MS_REMOUNT | unix.MS_RDONLY)
	out, err := exec.Command(bench.binary, "fsck", "--repair", m.Data).CombinedOutput()
	if err == nil || strings.Contains(string(out), "consistent") || !strings.Contains(string(out), "not finished") || !strings.Contains(string(out), "read-only") {
		t.Errorf("%v: %s", err, out)
	}
	out, err = exec.Command(bench.binary, "fsck", m.Data).CombinedOutput()
	if err != nil || !strings.Contains(string(out), "consistent") {
		t.Errorf("without --repair: %v: %s", err, out)
	}
}
