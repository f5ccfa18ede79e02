package integration

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// unmarked waits until latchfs has no name of its own in the directory any more: it has
// cleared up after what was made there.
func (m *Mount) unmarked(t *testing.T, dir string) {
	t.Helper()
	eventually(t, "the end of the reserved names in "+dir, func() bool {
		entries, err := os.ReadDir(filepath.Join(m.Data, dir))
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			if strings.HasPrefix(e.Name(), ".latchfs-") {
				return false
			}
		}
		return true
	})
}

// The time that a program has given a directory stays, also when latchfs clears up in it
// later.
func TestDirectoriesKeepTheirTimes(t *testing.T) {
	alongside(t)
	needsLatchfs(t)
	requireTool(t, "rsync")
	forEachMount(t, func(t *testing.T, m *Mount) {
		const set = "2001-02-03 04:05:06"
		for name, fill := range map[string]string{
			"touched":  `mkdir touched; echo x > touched/f; touch -d "$1" touched`,
			"replaced": `mkdir replaced; echo x > replaced/f; echo y > replaced/f; touch -d "$1" replaced`,
			"cp":       `mkdir src; echo x > src/f; touch -d "$1" src; cp -a src cp`,
			"tar":      `mkdir tar; echo x > tar/f; touch -d "$1" tar; tar cf a.tar tar; rm -r tar; tar xf a.tar`,
			"readonly": `mkdir -m 755 ro; echo x > ro/f; touch -d "$1" ro; chmod 555 ro; cp -a ro readonly`,
			"rsync":    `mkdir from; echo x > from/f; touch -d "$1" from; rsync -a from/ rsync`,
		} {
			if o := m.Bash(t, `set -e; export TZ=UTC; `+fill, set); o.Code != 0 {
				t.Fatalf("%s: %s", name, o.Stderr)
			}
			m.unmarked(t, name)
			if got := m.Bash(t, `TZ=UTC stat -c %y "$1"`, name).Stdout; !strings.HasPrefix(got, set+".") {
				t.Errorf("%s has the time %s", name, got)
			}
		}
		m.Stop(t)
		for _, name := range []string{"touched", "replaced", "cp", "tar", "rsync", "readonly"} {
			if st, err := os.Stat(filepath.Join(m.Data, name)); err != nil || st.ModTime().UTC().Year() != 2001 {
				t.Errorf("after the unmount %s has the time %v, %v", name, st.ModTime(), err)
			}
		}
	})
}

// What was made in a directory is the last change of it that anybody sees, although latchfs
// clears up later: tar compares. And the next change shows.
func TestClearingUpIsNoChange(t *testing.T) {
	alongside(t)
	needsLatchfs(t)
	if !changeTimesTell(t) {
		t.Skip("the kernel gives two changes within a tick one time (before Linux 6.13)")
	}
	forEachMount(t, func(t *testing.T, m *Mount) {
		const times = `stat --cached=never -c '%n %y %z' made replaced`
		before := m.Bash(t, `set -e; mkdir made replaced; echo x > replaced/f
			for i in $(seq 50); do echo x > made/f$i; done; echo y > replaced/f; mv replaced/f replaced/g; `+times).Stdout
		m.unmarked(t, "made")
		m.unmarked(t, "replaced")
		if after := m.Bash(t, times).Stdout; after != before {
			t.Errorf("the directories have the times\n%safter\n%s", after, before)
		}
		if o := m.Bash(t, `tar cf /dev/null made replaced`); o.Code != 0 {
			t.Errorf("tar: %s", o.Stderr)
		}
		if after := m.Bash(t, `touch made/f1; chmod 700 replaced; `+times).Stdout; after == before {
			t.Error("chmod shows in no time")
		}
		before = m.Bash(t, times).Stdout
		if after := m.Bash(t, `rm made/f1; mkdir replaced/d; `+times).Stdout; strings.Split(after, "\n")[0] == strings.Split(before, "\n")[0] ||
			strings.Split(after, "\n")[1] == strings.Split(before, "\n")[1] {
			t.Errorf("after a removal and a mkdir: %s, before: %s", after, before)
		}
	})
}

// changeTimesTell reports whether a file has another change time after each change.
func changeTimesTell(t *testing.T) bool {
	f, err := os.CreateTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var last unix.Timespec
	for range 32 {
		var st unix.Stat_t
		if err := errors.Join(f.Chmod(0o600), unix.Fstat(int(f.Fd()), &st)); err != nil {
			t.Fatal(err)
		}
		if st.Ctim == last {
			return false
		}
		last = st.Ctim
	}
	return true
}

// A directory may become read-only right after something was made in it: what is in it can
// be changed as before, nothing of latchfs's stays there, and it can be mounted again.
func TestDirectoryBecomesReadOnly(t *testing.T) {
	alongside(t)
	needsLatchfs(t)
	forEachMount(t, func(t *testing.T, m *Mount) {
		m.Bash(t, `mkdir a b; for d in a b; do echo old > $d/f; chmod 555 $d; done; echo new > a/f`)
		m.holds(t, "a/f", "new\n")
		m.unmarked(t, "a")
		m.unmarked(t, "b")
		m.Bash(t, `mkdir c; echo old > c/f; chmod 555 c`)
		m.Stop(t)
		m.Start(t)
		m.unmarked(t, "c")
		m.Bash(t, `echo new > b/f; echo new > c/f`)
		m.holds(t, "b/f", "new\n")
		m.holds(t, "c/f", "new\n")
		if o := m.Bash(t, `stat -c %a a b c`); o.Stdout != "555\n555\n555\n" {
			t.Errorf("the modes are %q", o.Stdout)
		}
		m.Bash(t, `mkdir d; echo old > d/f; chmod 555 d`)
		m.Crash(t)
		m.Start(t)
		m.Bash(t, `echo new > d/f`)
		m.holds(t, "d/f", "new\n")
	})
}
