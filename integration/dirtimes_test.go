package integration

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
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
