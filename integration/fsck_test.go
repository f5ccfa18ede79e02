package integration

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestCorruptJournal kills the daemon at each step of a commit in place, which
// needs its journal most, and makes one byte of that wrong. A mount refuses and
// changes nothing, fsck says where, and after a repair the mount goes on and no
// bytes are lost.
func TestCorruptJournal(t *testing.T) {
	inTestAll(t)
	alongside(t)
	at := slices.IndexFunc(faultScenarios, func(sc faultScenario) bool { return sc.name == "in place" })
	sc := &faultScenarios[at]
	for _, kind := range []mountOption{func(*mountOptions) {}, asUser()} {
		f := newFaults(t)
		m := mount(t, kind, withFaults(f), withFindings("kept-aside"), inMemory(t))
		for n := 1; !t.Failed(); n++ {
			dir := fmt.Sprint("n", n)
			m.WriteFile("other", dir)
			sc.prepare(t, m, dir)
			f.arm(faultPlan{at: n})
			complaint := sc.run(t, m, dir)
			steps, hit := f.disarm()
			if !hit {
				if n < 10 {
					t.Errorf("only %d steps", n)
				}
				break
			}
			m.Crash(t)
			segment, where := m.damageJournal(t, n)
			t.Logf("%s: killed before step %d: %q; byte %d is wrong", m.Name, n, steps, where)
			m.mustRefuse(t, segment, where)
			m.mustRepair(t)
			m.Start(t)
			m.mustHaveAll(t, sc, dir, complaint)
			if got := m.ReadFile("other"); got != dir {
				t.Errorf("another file holds %q", got)
			}
		}
	}
}

// damageJournal makes one byte wrong, another one each time that n is.
func (m *Mount) damageJournal(t *testing.T, n int) (name string, at int) {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(m.Data, ".latchfs/journal-*"))
	if err != nil || len(found) != 1 {
		t.Fatalf("segments %q, %v", found, err)
	}
	b, err := os.ReadFile(found[0])
	if err != nil {
		t.Fatal(err)
	}
	at = n * 397 % len(b)
	b[at] ^= 0x10
	if err := os.WriteFile(found[0], b, 0o600); err != nil {
		t.Fatal(err)
	}
	return filepath.Base(found[0]), at
}

// mustRefuse wants a mount and a check to say where the journal is damaged and to
// change nothing.
func (m *Mount) mustRefuse(t *testing.T, segment string, at int) {
	t.Helper()
	before := m.checksums(t)
	m.mustNotStart(t, segment+" is corrupt at byte ", "nothing was changed", "latchfs fsck --repair "+m.Data)
	findings, code := m.Fsck(t)
	found := slices.IndexFunc(findings, func(f Finding) bool {
		return f.Kind == "corrupt-journal" && f.Severity == "problem" && f.Path == ".latchfs/"+segment
	})
	if code != 1 || found < 0 || findings[found].Offset > int64(at) || findings[found].Offset < int64(at)-1024 {
		t.Errorf("fsck ended with %d and found %+v", code, findings)
	}
	m.mustBe(t, before)
}

// mustNotStart wants a mount to refuse, and to say that.
func (m *Mount) mustNotStart(t *testing.T, says ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, bench.binary, m.arguments()...)
	m.asOwner(cmd)
	out, err := cmd.CombinedOutput()
	for _, want := range says {
		var exit *exec.ExitError
		if !errors.As(err, &exit) || exit.ExitCode() != 1 || !strings.Contains(string(out), want) {
			t.Errorf("mount ended with %v and says %q, not %q", err, out, want)
		}
	}
}

// mustBe wants everything below the data directory to be as it was.
func (m *Mount) mustBe(t *testing.T, before map[string]string) {
	t.Helper()
	after := m.checksums(t)
	for name := range after {
		if after[name] != before[name] {
			t.Errorf("%s has changed", name)
		}
	}
	if len(after) != len(before) {
		t.Errorf("there were %d files, now there are %d", len(before), len(after))
	}
}

// checksums is everything below the data directory but the lock's file, into which
// each mount writes its pid.
func (m *Mount) checksums(t *testing.T) map[string]string {
	t.Helper()
	sums := map[string]string{}
	err := filepath.WalkDir(m.Data, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.Name() == "daemon.lock" {
			return err
		}
		st, err := d.Info()
		if err != nil {
			return err
		}
		var b []byte
		if st.Mode().IsRegular() {
			b, err = os.ReadFile(path)
		}
		sums[path] = fmt.Sprint(st.Mode(), st.ModTime(), string(b))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return sums
}

// mustRepair repairs, after which there is nothing to be found but what is kept.
func (m *Mount) mustRepair(t *testing.T) {
	t.Helper()
	findings, code := m.Fsck(t, "--repair")
	for _, f := range findings {
		if f.Done == "" && f.Kind != "kept-aside" {
			t.Errorf("nothing was done about %+v", f)
		}
	}
	left, again := m.Fsck(t)
	left = slices.DeleteFunc(left, func(f Finding) bool { return f.Kind == "kept-aside" })
	if code != 0 || again != 0 || len(left) > 0 {
		t.Errorf("the repair ended with %d, the next check with %d: %+v", code, again, left)
	}
}

// mustHaveAll wants the directory in one of the scenario's states, or if it is in
// none the new version among what is kept.
func (m *Mount) mustHaveAll(t *testing.T, sc *faultScenario, dir, complaint string) {
	t.Helper()
	found, err := sc.look(filepath.Join(m.Data, dir))
	if err != nil {
		t.Fatal(err)
	}
	for i, s := range sc.states {
		if fmt.Sprint(s) == fmt.Sprint(found) && (complaint != "" || i == len(sc.states)-1) {
			return
		}
	}
	contents, err := filepath.Glob(filepath.Join(m.Data, ".latchfs/rejected/*/content"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range contents {
		if b, err := os.ReadFile(name); err == nil && string(b) == newText && complaint != "" {
			return
		}
	}
	t.Errorf("after %q the new version is lost: %.200q", complaint, fmt.Sprint(found))
}
