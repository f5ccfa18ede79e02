package integration

import (
	"strings"
	"testing"
	"time"
)

// What an agent has put in the place of something else goes before that is there again: links in
// the place of files, directories and links, also where a rename put them there (ln -sfn), and
// files in that of links and directories.
func TestUndoOfWhatWasReplacedByLinks(t *testing.T) {
	needsLatchfs(t)
	forEachMount(t, func(t *testing.T, m *Mount) {
		m.Bash(t, `echo one > file; mkdir dir dir2; echo two > dir/f; ln -s r1 link; ln -s r1 current; ln -s r1 tofile; ln -s r1 over; echo 3 > other; ln -s r1 theirs`)
		const show = `find . -name .locks -prune -o -printf '%p %y %m %l\n' | sort; cat file dir/f other`
		want := m.Bash(t, show).Stdout
		since := time.Now().Format(time.RFC3339Nano)
		m.agent(t, "agent-7", `rm file; ln -s /etc/passwd file; rm -r dir; ln -s /etc dir; rm -r dir2; echo x > dir2; rm link; ln -s evil link; rm link; ln -s worse link
			ln -sfn r2 current; rm tofile; echo x > tofile; mv other over; ln -sfn r2 theirs; ln -sfn r3 theirs`)
		undo := []string{"undo", "--actor", "agent-7", "--since", since}
		plan := m.latchfs(t, 0, append(undo, "--dry-run")...)
		if n := strings.Count(plan, "what has its name now is deleted"); n != 8 || strings.Contains(plan, "delete ") {
			t.Errorf("the plan is\n%s", plan)
		}
		done := m.latchfs(t, 0, undo...)
		if got := m.Bash(t, show).Stdout; got != want {
			t.Errorf("%s\nthere is\n%swant\n%s", done, got, want)
		}
		if out := m.latchfs(t, 0, undo...); out != "" {
			t.Errorf("a second undo says\n%s", out)
		}
	})
}

// Where it cannot be there again the plan says so, and nothing is changed.
func TestUndoOfWhatIsInTheWay(t *testing.T) {
	needsLatchfs(t)
	forEachMount(t, func(t *testing.T, m *Mount) {
		m.Bash(t, `echo one > file; mkdir dir; echo two > dir/f; echo old > changed`)
		since := time.Now().Format(time.RFC3339Nano)
		m.agent(t, "agent-7", `rm file; mkdir file; rm -r dir; echo new > changed`)
		m.Bash(t, `ln -s /etc dir`)
		undo := []string{"undo", "--actor", "agent-7", "--since", since}
		for _, more := range []string{"--dry-run", "--json=false"} {
			out := m.latchfs(t, 1, append(undo, more)...)
			for _, line := range []string{"refused   file: a directory has its name now", "refused   dir/f: dir, where its directory was, is a symbolic link now"} {
				if !strings.Contains(out, line) {
					t.Errorf("%q is not in\n%s", line, out)
				}
			}
		}
		m.holds(t, "changed", "new\n")
		m.latchfs(t, 1, append(undo, "--keep-going")...)
		m.holds(t, "changed", "old\n")
		m.Bash(t, `rmdir file; rm dir`)
		m.latchfs(t, 0, undo...)
		m.holds(t, "file", "one\n")
		m.holds(t, "dir/f", "two\n")
	})
}
