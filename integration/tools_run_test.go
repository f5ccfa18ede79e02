package integration

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

// The tool matrix: every tool that people save files with runs once in a plain
// directory and once in the mount. Exit status, output and the tree it leaves
// must be the same, and the audit trail must show one commit where the tool
// made a new version and none where it did not.

// toolCase is one way in which one tool saves.
type toolCase struct {
	name    string
	needs   []string       // programs that may be missing
	setup   string         // shell script that fills the directory, outside latchfs
	run     string         // shell script under test; $OUT is a directory outside the mount
	commits map[string]int // new versions due for a path; "*" for every path not named; anyNumber
	vary    string         // paths (a regular expression) whose bytes differ from run to run
}

// toolLimit bounds one run; a tool that hangs must not hang the matrix.
const toolLimit = time.Minute

// anyNumber of commits is right: how often depends on timing.
const anyNumber = -1

// toolResult is what a run of a case left behind.
type toolResult struct {
	Code   int
	Output string
	Tree   []string
}

// longAgo is the mtime of every file before a run: a file that nobody wrote
// still has it afterwards.
var longAgo = time.Date(2001, 2, 3, 4, 5, 6, 789, time.UTC)

// TestTools runs the matrix as root and as an ordinary user.
func TestTools(t *testing.T) {
	inTestAll(t)
	var cases []toolCase
	for _, c := range toolCases() {
		if missing := slices.DeleteFunc(slices.Clone(c.needs), installed); len(missing) > 0 {
			leftOut(t, c.name, missing...)
			continue
		}
		cases = append(cases, c)
	}
	before, err := os.MkdirTemp(bench.root, "tools-")
	if err != nil {
		t.Fatal(err)
	}
	if err := setUpTools(before, cases); err != nil {
		t.Fatal(err)
	}
	rootAndUser(t, func(t *testing.T, m *Mount) { runTools(t, m, before, cases) },
		withSeed(func(data string) error { return copyTree(before, data) }))
}

// copyTree copies everything below from, times and all, into the directory to.
func copyTree(from, to string) error {
	if out, err := exec.Command("cp", "-a", from+"/.", to).CombinedOutput(); err != nil {
		return fmt.Errorf("cp: %w\n%s", err, out)
	}
	return nil
}

func installed(program string) bool {
	_, err := exec.LookPath(program)
	return err == nil
}

// setUpTools makes the directory of each case below dir.
func setUpTools(dir string, cases []toolCase) error {
	for _, c := range cases {
		sub := filepath.Join(dir, c.name)
		if err := os.Mkdir(sub, 0o755); err != nil {
			return err
		}
		cmd := exec.Command("bash", "-euc", toolPrelude+c.setup)
		cmd.Dir = sub
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("setting up %s: %w\n%s", c.name, err, out)
		}
	}
	return filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		ts, err := unix.TimeToTimespec(longAgo)
		if err != nil {
			return err
		}
		return unix.UtimesNanoAt(unix.AT_FDCWD, path, []unix.Timespec{ts, ts}, unix.AT_SYMLINK_NOFOLLOW)
	})
}

// toolPrelude makes runs repeatable; shells read no start-up files.
const toolPrelude = `
export LC_ALL=C TZ=UTC TERM=xterm
export GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_NOSYSTEM=1
export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@example.org GIT_COMMITTER_NAME=c GIT_COMMITTER_EMAIL=c@example.org
export GIT_AUTHOR_DATE='2020-01-01T00:00:00Z' GIT_COMMITTER_DATE='2020-01-01T00:00:00Z'
umask 022
`

// runTools runs the cases on m and on a plain directory; before is what both
// hold at first.
func runTools(t *testing.T, m *Mount, before string, cases []toolCase) {
	twin := plainTwin(t, m)
	if err := copyTree(before, twin); err != nil {
		t.Fatal(err)
	}
	if err := giveTo(twin, m.UID); err != nil {
		t.Fatal(err)
	}
	want, got := map[string]toolResult{}, map[string]toolResult{}
	through := map[string][]string{} // the trees as the mount shows them
	for _, c := range cases {
		want[c.name] = c.perform(t, m, twin)
		got[c.name] = c.perform(t, m, m.Dir)
		if m.UID == os.Geteuid() {
			through[c.name] = c.tree(t, filepath.Join(m.Dir, c.name))
		}
	}
	var events []Event
	if !*plain {
		eventually(t, "every session has ended", func() bool { return m.Status().Held() == 0 })
		events = m.Events()
		m.Stop(t)
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			g, w := got[c.name], want[c.name]
			w.Tree, g.Tree = c.tree(t, filepath.Join(twin, c.name)), c.tree(t, filepath.Join(m.Data, c.name))
			if d := cmp.Diff(w, g); d != "" {
				t.Errorf("the mount differs from a plain directory (-plain +mount):\n%s", d)
			}
			if d := cmp.Diff(through[c.name], g.Tree); d != "" && through[c.name] != nil {
				t.Errorf("the directory differs after the unmount (-mount +plain):\n%s", d)
			}
			if !*plain {
				c.checkCommits(t, events, filepath.Join(m.Data, c.name))
			}
		})
	}
}

// giveTo changes the owner of everything below dir.
func giveTo(dir string, uid int) error {
	return filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Lchown(path, uid, uid)
	})
}

// perform runs the case in its directory below root.
func (c toolCase) perform(t *testing.T, m *Mount, root string) toolResult {
	t.Helper()
	dir := filepath.Join(root, c.name)
	out, err := os.MkdirTemp(m.Home(), "out-")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(out, m.UID, m.UID); err != nil {
		t.Fatal(err)
	}
	script := toolPrelude + `export OUT=$2 SAVER=$3; cd "$1" || exit 99` + "\n" + c.run
	p := m.LaunchBash(t, script, dir, out, saver(t))
	select {
	case <-p.done:
	case <-time.After(toolLimit):
		p.Kill()
		return toolResult{Code: -1, Output: "does not end: " + p.Stdout() + p.Stderr()}
	}
	o := p.Wait()
	text := o.Stdout + o.Stderr
	for _, known := range []string{dir, out} {
		text = strings.ReplaceAll(text, known, "DIR")
	}
	return toolResult{Code: o.Code, Output: text}
}

// tree is what the case left, with the times that were set on purpose or not
// changed at all. A directory's times are left out, for every save renames in
// it, and so are a fifo's, which the kernel's FUSE client does not write back.
func (c toolCase) tree(t *testing.T, dir string) []string {
	t.Helper()
	var varies *regexp.Regexp
	if c.vary != "" {
		varies = regexp.MustCompile(`^"(` + c.vary + `)" `)
	}
	lines := treeWith(t, dir, func(st *unix.Stat_t) string {
		kind := st.Mode & unix.S_IFMT
		if kind == unix.S_IFDIR || kind == unix.S_IFIFO || time.Since(time.Unix(st.Mtim.Unix())) < time.Hour {
			return ""
		}
		return fmt.Sprintf(" mtime %d.%09d", st.Mtim.Sec, st.Mtim.Nsec)
	})
	if varies == nil {
		return lines
	}
	for i, line := range lines {
		if varies.MatchString(line) {
			lines[i] = varies.FindString(line) + "..."
		}
	}
	return slices.Compact(lines)
}

// checkCommits counts the new versions of every file that the case left behind.
func (c toolCase) checkCommits(t *testing.T, events []Event, dir string) {
	t.Helper()
	made := map[string]int{}
	for _, e := range events {
		if name, ok := strings.CutPrefix(e.Path, c.name+"/"); ok && e.Event == "commit" {
			made[name]++
		}
		if name, ok := strings.CutPrefix(e.Path, c.name+"/"); ok && slices.Contains([]string{"rollback", "refused", "conflict"}, e.Event) {
			t.Errorf("%s of %s: %s", e.Event, name, e.Reason)
		}
	}
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		want, ok := c.commits[name]
		if !ok {
			want = c.commits["*"]
		}
		if want != anyNumber && made[name] != want {
			t.Errorf("%s: %d commits in the audit trail, want %d", name, made[name], want)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}
