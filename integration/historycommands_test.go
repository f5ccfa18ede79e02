package integration

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// holds fails the test unless a file has this content; "" if it shall not be there.
func (m *Mount) holds(t testing.TB, name, want string) {
	t.Helper()
	o := m.Bash(t, `cat "$1"`, name)
	if o.Stdout != want || (o.Code == 0) != (want != "") {
		t.Errorf("%s holds %q (%d), want %q", name, o.Stdout, o.Code, want)
	}
}

// A file overwritten by mistake, and then deleted, is found and restored.
func TestHistoryCommands(t *testing.T) {
	needsLatchfs(t)
	forEachMount(t, func(t *testing.T, m *Mount) {
		m.Bash(t, `umask 027; mkdir d; echo precious > d/notes.md`)
		m.Bash(t, `echo oops > d/notes.md`)
		if out := m.latchfs(t, 0, "history", "d/notes.md"); strings.Count(out, "\n") != 3 || !strings.Contains(out, " bash[") {
			t.Errorf("history says\n%s", out)
		}
		if out := m.latchfs(t, 1, "diff", "d/notes.md"); !strings.Contains(out, "\n-precious\n+oops\n") {
			t.Errorf("diff says\n%s", out)
		}
		m.latchfs(t, 0, "restore", "d/notes.md", "1")
		m.holds(t, "d/notes.md", "precious\n")
		if out := m.latchfs(t, 0, "history", "d/notes.md"); !strings.Contains(out, " latchfs-restore[") {
			t.Errorf("history says\n%s", out)
		}
		m.latchfs(t, 0, "diff", "d/notes.md", "1")
		// What is current already is restored without a version.
		commits := m.Commits("d/notes.md")
		m.latchfs(t, 0, "restore", "d/notes.md", "3")
		if n := m.Commits("d/notes.md"); n != commits {
			t.Errorf("%d commits, there were %d", n, commits)
		}
		m.Bash(t, `rm -r d`)
		if out := m.latchfs(t, 0, "history", "--deleted"); !strings.Contains(out, "d/notes.md ") {
			t.Errorf("history --deleted says\n%s", out)
		}
		m.latchfs(t, 0, "restore", "d/notes.md", "2")
		m.holds(t, "d/notes.md", "oops\n")
		m.latchfs(t, 0, "restore", "d/notes.md", "3")
		m.holds(t, "d/notes.md", "precious\n")
		if out := m.Bash(t, `stat -c %a d/notes.md`).Stdout; out != "640\n" {
			t.Errorf("its mode is %s", out)
		}
		m.latchfs(t, 1, "restore", "d/notes.md", "99")
	})
}

// What one agent has done is taken back, whatever it was, and nothing else.
func TestUndo(t *testing.T) {
	needsLatchfs(t)
	forEachMount(t, func(t *testing.T, m *Mount) {
		m.Bash(t, `mkdir src; for f in changed twice gone moved onto; do echo "old $f" > src/$f; done; echo old > other`)
		since := time.Now().Format(time.RFC3339Nano)
		m.agent(t, "agent-7", `cd src; echo new > changed; echo 1 > twice; sed -i s/1/2/ twice; echo new > created; rm gone; mv moved away; mv onto target; echo x > tmp; mv tmp onto`)
		m.agent(t, "agent-8", `echo new > other`)
		undo := []string{"undo", "--actor", "agent-7", "--since", since}
		plan := m.latchfs(t, 0, append(undo, "--dry-run")...)
		m.holds(t, "src/changed", "new\n")
		done := m.latchfs(t, 0, undo...)
		if strings.Count(plan, "\n") != strings.Count(done, "\n") || !strings.Contains(done, "restored  src/gone: ") {
			t.Errorf("planned\n%sdone\n%s", plan, done)
		}
		for _, f := range []string{"changed", "twice", "gone", "moved", "onto"} {
			m.holds(t, "src/"+f, "old "+f+"\n")
		}
		for _, f := range []string{"created", "away", "target", "tmp"} {
			m.holds(t, "src/"+f, "")
		}
		m.holds(t, "other", "new\n")
		if out := m.latchfs(t, 0, undo...); out != "" {
			t.Errorf("a second undo says\n%s", out)
		}
		if last := m.EventsOf("commit", "src/changed"); last[len(last)-1].Program != "latchfs-undo" {
			t.Errorf("the audit trail has %+v", last)
		}
	})
}

// Names that are not UTF-8 are names like others.
func TestCommandsOnNamesThatAreNotUTF8(t *testing.T) {
	needsLatchfs(t)
	forEachMount(t, func(t *testing.T, m *Mount) {
		const dir, file = "d\xfe", "d\xfe/n\xff"
		m.Bash(t, `mkdir "$1"; echo one > "$2"`, dir, file)
		since := time.Now().Format(time.RFC3339Nano)
		m.agent(t, "agent-7", `cd d*; echo two > n*; echo g > good; echo new > $(printf "c\xff")`)
		m.latchfs(t, 0, "restore", file, "1")
		m.holds(t, file, "one\n")
		m.latchfs(t, 0, "restore", file, "2")
		m.latchfs(t, 0, "undo", "--actor", "agent-7", "--since", since, "--force", dir)
		m.holds(t, file, "one\n")
		m.holds(t, dir+"/good", "")
		m.holds(t, dir+"/c\xff", "")

		rollbacks := func() (n int) {
			for _, e := range m.Events() {
				if e.Event == "rollback" {
					n++
				}
			}
			return n
		}
		before := rollbacks()
		m.Bash(t, `exec 3> "$1"; echo K >&3; kill -9 $$`, file)
		eventually(t, "the rollback", func() bool { return rollbacks() > before })
		m.latchfs(t, 0, "rejected", "restore", "--force", m.entry(t, file))
		m.holds(t, file, "K\n")

		if out := m.latchfs(t, 0, "forget", file); !strings.Contains(out, "erased of ") || !strings.Contains(out, "1 refused write") {
			t.Errorf("forget says %q", out)
		}
		m.latchfs(t, 1, "restore", file, "1")
	})
}

// What is too deep for a command is refused before anything is undone.
func TestUndoOfWhatIsTooDeep(t *testing.T) {
	needsLatchfs(t)
	forEachMount(t, func(t *testing.T, m *Mount) {
		since := time.Now().Format(time.RFC3339Nano)
		m.agent(t, "agent-7", `echo shallow > s; python3 -c "
import os
for n in range(20): os.mkdir(\"0\" * 250); os.chdir(\"0\" * 250)
open(\"f\", \"w\").write(\"deep\")"`)
		undo := []string{"undo", "--actor", "agent-7", "--since", since}
		for _, do := range []struct {
			more []string
			s    string
		}{{[]string{"--dry-run"}, "shallow\n"}, {nil, "shallow\n"}, {[]string{"--keep-going"}, ""}} {
			if out := m.latchfs(t, 1, append(undo, do.more...)...); !strings.Contains(out, "too long for a command") {
				t.Errorf("undo %v says\n%s", do.more, out)
			}
			m.holds(t, "s", do.s)
		}
		m.Bash(t, "rm -r 0*")
		if out := m.latchfs(t, 0, undo...); out != "" {
			t.Errorf("when it is gone undo says\n%s", out)
		}
	})
}

// Two files that were exchanged get their content back, of which nothing was kept.
func TestUndoSwap(t *testing.T) {
	needsLatchfs(t)
	forEachMount(t, func(t *testing.T, m *Mount) {
		m.Bash(t, `echo a > a; echo bb > b`)
		since := time.Now().Format(time.RFC3339Nano)
		m.agent(t, "agent-7", `mv a tmp; mv b a; mv tmp b`)
		m.holds(t, "a", "bb\n")
		m.latchfs(t, 0, "undo", "--actor", "agent-7", "--since", since)
		m.holds(t, "a", "a\n")
		m.holds(t, "b", "bb\n")
		m.holds(t, "tmp", "")
	})
}

// What somebody else has built on stays, and with it everything.
func TestUndoBuiltOn(t *testing.T) {
	needsLatchfs(t)
	forEachMount(t, func(t *testing.T, m *Mount) {
		m.Bash(t, `echo old > f; echo old > g`)
		since := time.Now().Format(time.RFC3339Nano)
		m.agent(t, "agent-7", `echo new > f; echo new > g`)
		m.agent(t, "agent-8", `echo more >> g`)
		m.AwaitEvent("commit", "g")
		undo := []string{"undo", "--actor", "agent-7", "--since", since}
		if out := m.latchfs(t, 1, undo...); !strings.Contains(out, "refused   g: ") || !strings.Contains(out, "agent-8") {
			t.Errorf("it says\n%s", out)
		}
		m.holds(t, "f", "new\n")
		m.latchfs(t, 1, append(undo, "--keep-going")...)
		m.holds(t, "f", "old\n")
		m.holds(t, "g", "new\nmore\n")
		m.latchfs(t, 0, append(undo, "--force")...)
		m.holds(t, "g", "old\n")
	})
}

// Directories and links that somebody removed are there again, with files or empty,
// also if another made them only since then; what that one made itself is not.
func TestUndoDirectoriesAndLinks(t *testing.T) {
	needsLatchfs(t)
	forEachMount(t, func(t *testing.T, m *Mount) {
		m.Bash(t, `mkdir -p t/full t/empty/deep; chmod 750 t/empty; echo one > t/full/f; ln -s full/f t/link; ln -s /nowhere t/broken; mkdir stays`)
		const show = `find t -printf '%p %y %m %l\n' | sort`
		want := m.Bash(t, show).Stdout
		since := time.Now().Format(time.RFC3339Nano)
		m.Bash(t, `mkdir -p late/dir; ln -s a late/link`)
		m.agent(t, "agent-7", `rm -r t late; mkdir tmp; rmdir tmp; ln -s a tmp; rm tmp; ln -s a new; mkdir made`)
		m.agent(t, "agent-8", `mkdir other; rmdir other stays`)
		undo := []string{"undo", "--actor", "agent-7", "--since", since}
		out := m.latchfs(t, 0, undo...)
		for _, line := range []string{"restored  t/empty/deep: the directory\n", "restored  t/link: the link to full/f\n", "restored  late/link: the link to a\n", "deleted   new: "} {
			if !strings.Contains(out, line) {
				t.Errorf("%q is not in\n%s", line, out)
			}
		}
		if got := m.Bash(t, show).Stdout; got != want {
			t.Errorf("there is\n%swant\n%s", got, want)
		}
		if got := m.Bash(t, `ls -d tmp other stays new made late/dir 2>/dev/null`).Stdout; got != "late/dir\nmade\n" {
			t.Errorf("there is %q", got)
		}
		if out := m.latchfs(t, 0, undo...); out != "" {
			t.Errorf("a second undo says\n%s", out)
		}
		if o := m.Latchfs(t, "undo", "--actor", "nosuch", "--since", since); o.Code != 1 || !strings.Contains(o.Stderr, "nothing is known") {
			t.Errorf("%+v", o)
		}
	})
}

// An ordinary user on root's mount takes back what he has done, removals and renames as
// well, and another one does not learn of them from a directory that is closed to him.
func TestUndoOfOnesOwn(t *testing.T) {
	needsLatchfs(t)
	requireTool(t, "setpriv")
	forEachRootMount(t, func(t *testing.T, m *Mount) {
		got := m.Bash(t, `
as() { setpriv --reuid "$1" --regid "$1" --clear-groups -- "${@:2}"; }
chmod 1777 .
as 65533 bash -c 'umask 022; mkdir -m 700 d; echo 1 > a; echo 2 > b; echo 3 > d/c'
export LATCHFS_ACTOR=agent
as 65533 rm a d/c
as 65533 mv b b2
for user in 65532 65533; do as $user "$1" history --deleted | awk 'NR > 1 {printf "%s ", $1}'; echo; done
as 65533 "$1" undo --actor agent --since 1h | awk '{print $1, $2}' | sort
grep . a b d/c; ls`, bench.binary)
		mustSee(t, "after the undo", got.Stdout, "a \na b d/c \ndeleted b2:\nrestored a:\nrestored b:\nrestored d/c:\na:1\nb:2\nd/c:3\na\nb\nd\n")
	}, openToAll())
}

// What is restored has no more readers than it had, whatever it was created with.
func TestRestoredWithItsMode(t *testing.T) {
	needsLatchfs(t)
	forEachMount(t, func(t *testing.T, m *Mount) {
		for i, c := range []struct{ away, back, want string }{
			{"mv f g", `"$1" undo --actor agent --since 1h`, "600"},
			{"mv f g", `"$1" restore f 1`, "600"},
			{"mv f g; mv g h", `"$1" restore f 1`, "600"},
			{"mv f g; rm g", `"$1" restore f 1`, "600"},
			{"rm f", `"$1" restore f 1`, "600"},
			{"rm f", `"$1" undo --actor agent --since 1h`, "600"},
			{"echo y > f; chmod 644 f", `"$1" restore f 1`, "600"},
			{"setfacl -m u:65533:r f; mv f g", `"$1" restore f 1`, "600"},
			{"setfacl -m u:65533:r f; rm f", `"$1" restore f 1`, "600"},
		} {
			got := m.Bash(t, `
umask 022; mkdir "$3"; cd "$3"; : > f; chmod 600 f; echo secret >> f
LATCHFS_ACTOR=agent bash -c "$2" || exit
`+c.back+` > /dev/null; stat -c %a f; cat f`, bench.binary, c.away, fmt.Sprint("d", i))
			mustSee(t, c.away+", "+c.back, got.Stdout+got.Stderr, c.want+"\nsecret\n")
		}
	})
}

// The versions of what was renamed in the data directory stay under its old name, from where a
// copy brings one over (docs/history.md).
func TestVersionsOfADirectoryRenamedOutside(t *testing.T) {
	needsLatchfs(t)
	m := mount(t)
	m.Mkdir("old-dir")
	m.WriteFile("old-dir/f", "one\n")
	m.WriteFile("old-dir/f", "two\n")
	m.Stop(t)
	if err := os.Rename(filepath.Join(m.Data, "old-dir"), filepath.Join(m.Data, "new-dir")); err != nil {
		t.Fatal(err)
	}
	m.Start(t)
	if got := m.latchfs(t, 0, "history", "old-dir/f"); strings.Count(got, "\n") != 3 {
		t.Errorf("the history of the old name is\n%s", got)
	}
	m.latchfs(t, 1, "history", "new-dir/f")
	if out := m.Bash(t, "cp .locks/history/old-dir/f/1 new-dir/f && cat new-dir/f"); out.Stdout != "one\n" {
		t.Errorf("brought over is %+v", out)
	}
}
