package integration

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// latchfs runs a command line of the built binary in the mount, which must end with
// the code, and returns what it printed.
func (m *Mount) latchfs(t testing.TB, code int, args ...string) string {
	t.Helper()
	o := m.Run(t, bench.binary, args...)
	if o.Code != code {
		t.Errorf("latchfs %s: ended with %d, want %d\n%s%s", strings.Join(args, " "), o.Code, code, o.Stdout, o.Stderr)
	}
	return o.Stdout
}

// agent runs a bash script as somebody with a label of his own.
func (m *Mount) agent(t testing.TB, label, script string) {
	t.Helper()
	if o := m.Bash(t, "export LATCHFS_ACTOR="+label+"; bash -c "+`'set -e; `+script+`'`); o.Code != 0 {
		t.Fatalf("%s: %d %s", script, o.Code, o.Stderr)
	}
}

// killWriter has a writer die in the middle of the rewriting of a file.
func (m *Mount) killWriter(t testing.TB, name, content string) {
	t.Helper()
	before := len(m.EventsOf("rollback", name))
	m.Bash(t, `exec 3>"$1"; printf %s "$2" >&3; kill -9 $$`, name, content)
	eventually(t, "the rollback of "+name, func() bool { return len(m.EventsOf("rollback", name)) > before })
}

// entry is the id of the only refused write of a file.
func (m *Mount) entry(t testing.TB, name string) string {
	t.Helper()
	lines := strings.Split(strings.TrimSpace(m.latchfs(t, 0, "rejected", "list", name)), "\n")
	if len(lines) != 2 {
		t.Fatalf("%d lines about %s: %q", len(lines), name, lines)
	}
	return strings.Fields(lines[1])[0]
}

// What a killed writer has written can be looked at and put back.
func TestRejectedCommands(t *testing.T) {
	needsLatchfs(t)
	forEachMount(t, func(t *testing.T, m *Mount) {
		m.Mkdir("d")
		m.WriteFile("d/f", "old\n")
		m.killWriter(t, "d/f", "mine\n")
		id := m.entry(t, "d/f")
		if got := m.latchfs(t, 0, "rejected", "show", id); got != "mine\n" {
			t.Errorf("shown is %q", got)
		}
		if got := m.latchfs(t, 1, "rejected", "show", "--diff", id[len(id)-8:]); !strings.HasSuffix(got, "\n-old\n+mine\n") {
			t.Errorf("the difference is %q", got)
		}
		m.latchfs(t, 0, "rejected", "restore", id)
		if got := m.ReadFile("d/f"); got != "mine\n" {
			t.Errorf("restored is %q", got)
		}
		if last := m.EventsOf("commit", "d/f"); len(last) == 0 || last[len(last)-1].Program != "latchfs-restore" {
			t.Errorf("the audit trail has %+v", last)
		}
		if got := m.latchfs(t, 0, "audit", "--event", "rollback,commit", "d"); !strings.Contains(got, id) || !strings.Contains(got, "latchfs-restore[") {
			t.Errorf("audit says\n%s", got)
		}
		// Somebody has changed it since.
		m.WriteFile("d/f", "theirs\n")
		m.latchfs(t, 1, "rejected", "restore", id)
		if got := m.ReadFile("d/f"); got != "theirs\n" {
			t.Errorf("a refused restore has made it %q", got)
		}
		m.latchfs(t, 0, "rejected", "restore", "--force", id)
		if got := m.ReadFile("d/f"); got != "mine\n" {
			t.Errorf("restored by force is %q", got)
		}
		m.latchfs(t, 0, "rejected", "restore", "--to", "copy", id)
		if got := m.ReadFile("copy"); got != "mine\n" {
			t.Errorf("the copy is %q", got)
		}
	})
}

// The first version of a new file that was never finished gets its mode, and the
// directory that has gone meanwhile.
func TestRejectedRestoreNew(t *testing.T) {
	needsLatchfs(t)
	forEachMount(t, func(t *testing.T, m *Mount) {
		m.Mkdir("d")
		m.Bash(t, `umask 027; exec 3>d/new; echo text >&3; kill -9 $$`)
		m.AwaitEvent("rollback", "d/new")
		if _, err := m.Client(t).Stat("d/new"); err == nil {
			t.Fatal("it is there")
		}
		id := m.entry(t, "d/new")
		m.Bash(t, `rmdir d`)
		m.latchfs(t, 0, "rejected", "restore", id)
		if got := m.ReadFile("d/new"); got != "text\n" {
			t.Errorf("restored is %q", got)
		}
		if out := m.Bash(t, `stat -c %a d/new`).Stdout; out != "640\n" {
			t.Errorf("its mode is %s", out)
		}
		// Made by somebody else, as far as the entry knows.
		m.latchfs(t, 1, "rejected", "restore", id)
	})
}

// Another user sees the entries of files that he may read, and no others.
func TestRejectedOfOthers(t *testing.T) {
	needsLatchfs(t)
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	m := mount(t)
	m.WriteFile("open", "x")
	m.WriteFile("secret", "x")
	m.Bash(t, `chmod 644 open; chmod 600 secret`)
	m.killWriter(t, "open", "mine")
	m.killWriter(t, "secret", "secret")
	id := m.entry(t, "secret")
	as := func(script string) Outcome {
		return m.Bash(t, `setpriv --reuid 65533 --regid 65533 --clear-groups "$1" `+script, bench.binary)
	}
	requireTool(t, "setpriv")
	if o := as(`rejected list`); o.Code != 0 || !strings.Contains(o.Stdout, "open") || strings.Contains(o.Stdout, "secret") {
		t.Errorf("%+v", o)
	}
	if o := as(`rejected show ` + id); o.Code != 1 || o.Stdout != "" || !strings.Contains(o.Stderr, "not for you to see") {
		t.Errorf("%+v", o)
	}
}

// The trail is read when nothing is mounted, too.
func TestAuditOffline(t *testing.T) {
	needsLatchfs(t)
	forEachMount(t, func(t *testing.T, m *Mount) {
		m.WriteFile("f", "new")
		m.Stop(t)
		o := m.Bash(t, `cd "$2" && "$1" audit f`, bench.binary, m.Data)
		if o.Code != 0 || !strings.Contains(o.Stdout, "  commit ") || !strings.Contains(o.Stdout, "f: 3 bytes") {
			t.Errorf("%+v", o)
		}
		if o := m.Bash(t, `"$1" audit "$2"`, bench.binary, filepath.Join(m.Data, "f")); !strings.Contains(o.Stdout, "  commit ") {
			t.Errorf("%+v", o)
		}
	})
}

// The label under which somebody works is his name in the trail.
func TestAuditActor(t *testing.T) {
	needsLatchfs(t)
	forEachMount(t, func(t *testing.T, m *Mount) {
		m.WriteFile("f", "old")
		m.agent(t, "agent-7", `echo new > f; cp f g; mv g h`)
		out := m.latchfs(t, 0, "audit", "--actor", "agent-7")
		for _, want := range []string{"] as agent-7 ", "f: 4 bytes", "h: 4 bytes, renamed from g"} {
			if !strings.Contains(out, want) {
				t.Errorf("%q is not in\n%s", want, out)
			}
		}
		if strings.Contains(out, "f: 3 bytes") {
			t.Errorf("another's commit is in\n%s", out)
		}
	})
}

// What happens is followed as it happens.
func TestAuditFollow(t *testing.T) {
	needsLatchfs(t)
	forEachMount(t, func(t *testing.T, m *Mount) {
		for range 20 {
			m.WriteFile("f", "old")
		}
		p := m.Launch(t, bench.binary, "audit", "--follow", "f")
		eventually(t, "the last ten", func() bool { return strings.Count(p.Stdout(), "\n") >= 10 })
		if n := strings.Count(p.Stdout(), "\n"); n != 10 {
			t.Errorf("it begins with %d lines", n)
		}
		m.WriteFile("f", "latest")
		eventually(t, "the next one", func() bool { return strings.Contains(p.Stdout(), "f: 6 bytes") })
		p.Kill()
	})
}

// The bytes of an appender that was killed are those of the program, as a killed writer's are.
func TestRejectedListNamesAKilledAppender(t *testing.T) {
	needsLatchfs(t)
	forEachMount(t, func(t *testing.T, m *Mount) {
		m.Bash(t, `exec 3>>log; printf 'whole\nhalf' >&3; kill -9 $$`)
		ev := m.AwaitEvent("rollback", "log")
		if ev.Program != "bash" {
			t.Errorf("the audit trail names %q", ev.Program)
		}
		list := m.latchfs(t, 0, "rejected", "list", "log")
		if !strings.Contains(list, fmt.Sprintf(" bash[%d] ", ev.PID)) {
			t.Errorf("the list names nobody:\n%s", list)
		}
		meta := m.latchfs(t, 0, "rejected", "show", "--meta", m.entry(t, "log"))
		if !strings.Contains(meta, `"program": "bash"`) || !strings.Contains(meta, `"errno": "EINTR"`) || !strings.Contains(meta, fmt.Sprintf(`"uid": %d`, m.UID)) {
			t.Errorf("meta.json is\n%s", meta)
		}
	})
}
