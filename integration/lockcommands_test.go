package integration

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"latchfs/integration/internal/wire"
)

// Show 17: locks by command, for scripts.

// shell starts a bash in the mount whose $L is latchfs; it does what it is sent,
// one line at a time, and says "= CODE" after each.
func (m *Mount) shell(t testing.TB) *Proc {
	t.Helper()
	return m.LaunchBash(t, `L=$1; while IFS= read -r line; do eval "$line"; echo "= $?"; done`, bench.binary)
}

// do has a shell carry out a line, which must end with a code, and returns what
// it printed meanwhile.
func (p *Proc) do(line string, code int) string {
	p.t.Helper()
	before := len(p.Stdout())
	p.Send(line)
	var out string
	eventually(p.t, "the end of "+line, func() bool {
		out = p.Stdout()[before:]
		return strings.HasPrefix(out, "= ") && strings.HasSuffix(out, "\n") || strings.Contains(out, "\n= ") && strings.HasSuffix(out, "\n")
	})
	out, got, _ := strings.Cut("\n"+out, "\n= ")
	if strings.TrimSpace(got) != fmt.Sprint(code) {
		p.t.Errorf("%s: ended with %s, want %d\n%s%s", line, strings.TrimSpace(got), code, out, p.Stderr())
	}
	return strings.TrimPrefix(out, "\n")
}

// What a shell acquires is its and its children's until it releases it, and it
// may ask for it twice (requirements C8, C11, M1, M5, M7, M8, T10).
func TestAcquireAndRelease(t *testing.T) {
	needsLatchfs(t)
	forEachMount(t, func(t *testing.T, m *Mount) {
		m.WriteFile("f", "old\n")
		mine, other := m.shell(t), m.shell(t)
		mine.do(`$L check f`, 0)
		mine.do(`$L acquire --operation import --actor me f`, 0)
		mine.do(`$L acquire --wait 0 f`, 0) // C8: it never waits for itself
		if out := mine.do(`$L check f`, 1); !strings.Contains(out, "our own") || !strings.Contains(out, "import") {
			t.Errorf("check says %q", out)
		}
		if out := other.do(`$L check f`, 1); strings.Contains(out, "our own") {
			t.Errorf("check says %q to another", out)
		}
		if rec := m.LockStatus("f").Holder; rec.PID != mine.PID() || rec.Actor != "me" || rec.Created.IsZero() {
			t.Errorf("the record is %+v", rec)
		}
		mine.do(`sh -c 'echo child >> f'`, 0)
		other.do(`$L acquire --wait 0 f`, 8)
		// T10: another's is not released.
		if out := other.do(`$L release f 2>&1`, 1); !strings.Contains(out, fmt.Sprintf("f is locked by bash[%d] as me since ", mine.PID())) || !strings.Contains(out, "not by this process") {
			t.Errorf("the refusal of a release: %s", out)
		}
		if out := mine.do(`$L list --mine`, 0); !strings.Contains(out, "import") {
			t.Errorf("list --mine says %q", out)
		}
		if out := other.do(`$L list --mine`, 0); out != "" {
			t.Errorf("list --mine says %q to another", out)
		}
		mine.do(`$L release f`, 0)
		mine.do(`[ -z "$($L list --mine --for $$)" ]`, 0) // M8
		mine.do(`$L acquire f >/dev/full`, 1)             // nobody has been told of it
		mine.do(`[ -z "$($L list --mine --for $$)" ]`, 0)
		// C11, T10: missing is no failure.
		if out := mine.do(`$L release f 2>&1`, 0); !strings.Contains(out, "warning") {
			t.Errorf("a second release does not warn: %s", out)
		}
		other.do(`$L acquire --wait 0 f`, 0)
		other.do(`$L release --all`, 0)
		if got := m.ReadFile("f"); got != "old\nchild\n" {
			t.Errorf("f holds %q", got)
		}
	})
}

// Of several files all are locked or none (M2), and a part can be given back.
func TestAcquireAllOrNothing(t *testing.T) {
	needsLatchfs(t)
	forEachMount(t, func(t *testing.T, m *Mount) {
		mine, other := m.shell(t), m.shell(t)
		other.do(`$L acquire c`, 0)
		mine.do(`$L acquire --wait 0 a b c`, 8)
		mine.do(`$L check a b`, 0)
		other.do(`$L release c`, 0)
		mine.do(`$L acquire --wait 0 a b c`, 0)
		mine.do(`$L release b`, 0)
		other.do(`$L check b`, 0)
		other.do(`$L check a`, 1)
		other.do(`$L acquire --wait 0 c`, 8)
		mine.do(`$L release a c`, 0)
		other.do(`$L check a b c`, 0)
	})
}

// A shell that is killed leaves nothing locked.
func TestLockEndsWithItsHolder(t *testing.T) {
	needsLatchfs(t)
	forEachMount(t, func(t *testing.T, m *Mount) {
		mine := m.shell(t)
		mine.do(`$L acquire f --tree d --name n`, 0)
		waiter := m.Guard(t, "f", "--", "echo", "next")
		waiter.MustWait()
		mine.Kill()
		if out := waiter.OK(); out != "next\n" {
			t.Errorf("the next one printed %q", out)
		}
		m.AwaitClear(t)
	}, withSeed(func(data string) error { return os.Mkdir(filepath.Join(data, "d"), 0o755) }))
}

// The same file is one lock by whatever way it is named (M4): from any directory,
// through links, and, where the policy says so, in any copy of a tree.
func TestOneLockByAnyName(t *testing.T) {
	needsLatchfs(t)
	seed := func(data string) error {
		for _, dir := range []string{"main/sub", "worktrees/x/sub", "worktrees/y/sub"} {
			if err := os.MkdirAll(filepath.Join(data, dir), 0o755); err != nil {
				return err
			}
			if err := os.WriteFile(filepath.Join(data, dir, "tasks.json"), []byte("{}"), 0o644); err != nil {
				return err
			}
		}
		return os.Symlink("main/sub", filepath.Join(data, "link"))
	}
	const policy = "[[alias]]\nname = \"app\"\nroots = [\"main\", \"worktrees/*\"]\n"
	forEachMount(t, func(t *testing.T, m *Mount) {
		mine, other := m.shell(t), m.shell(t)
		mine.do(`cd main/sub && $L acquire tasks.json`, 0)
		for _, name := range []string{
			"main/sub/tasks.json", "link/tasks.json", "link/../sub/tasks.json", m.Path("main/sub/tasks.json"),
			"worktrees/x/sub/tasks.json", "worktrees/y/sub/tasks.json",
		} {
			other.do(`$L check `+name, 1)
			other.do(`$L acquire --wait 0 `+name, 8)
		}
		c := m.Client(t)
		if _, err := c.TryOpen("worktrees/y/sub/tasks.json", unix.O_RDWR|unix.O_NONBLOCK); err != syscall.EAGAIN {
			t.Errorf("a writer in a worktree: %v", err)
		}
		mine.do(`echo 1 > ../../worktrees/x/sub/tasks.json`, 0)
		mine.do(`$L release tasks.json`, 0)
		other.do(`$L check worktrees/x/sub/tasks.json`, 0)
	}, withSeed(seed), withPolicy(policy))
}

// Three lines of shell on .locks/control are a lock, as package control says.
func TestControlByHand(t *testing.T) {
	needsLatchfs(t)
	const script = `
exec 9<>.locks/control
echo '{"op":"acquire","paths":["tasks.json"],"wait":"5s"}' >&9
read -r reply <&9; [[ $reply == '{"ok":true'* ]] || exit 8
echo ours; read; echo mine > tasks.json
exec 9>&-
echo released; read`
	forEachMount(t, func(t *testing.T, m *Mount) {
		m.WriteFile("tasks.json", "{}")
		p := m.LaunchBash(t, script)
		p.AwaitLine("ours")
		c := m.Client(t)
		open := c.GoOpen("tasks.json", unix.O_RDWR)
		open.MustBlock(t)
		second := m.LaunchBash(t, script)
		second.MustWait()
		p.Send("go")
		p.AwaitLine("released")
		fd := int(open.OK().N)
		if got := c.ReadAt(fd, 10, 0); got != "mine\n" {
			t.Errorf("the next writer finds %q", got)
		}
		c.MustClose(fd)
		second.AwaitLine("ours")
		second.Kill()
		m.AwaitClear(t)
	})
}

// rm of a lock's record releases one's own and leaves an active one alone. That it
// steals a stale one: TestStoppedWriterIsFenced.
func TestRemovingAnAcquiredLock(t *testing.T) {
	needsLatchfs(t)
	forEachMount(t, func(t *testing.T, m *Mount) {
		mine, other := m.shell(t), m.shell(t)
		mine.do(`$L acquire f --name n`, 0)
		if out := other.do(`rm .locks/held/f.lock 2>&1`, 1); !strings.Contains(out, "busy") {
			t.Errorf("rm of an active lock: %s", out)
		}
		other.do(`rm .locks/names/n.lock`, 1)
		other.do(`$L check f`, 1)
		mine.do(`rm .locks/held/f.lock`, 0)
		m.AwaitClear(t)
		mine.do(`$L release f`, 0)
	})
}

// Who cannot write a file cannot keep others from it; who can read it may share.
func TestLockingNeedsTheRightToWrite(t *testing.T) {
	needsLatchfs(t)
	needsRoot(t)
	for _, opts := range [][]mountOption{{}, {noPassthrough()}} {
		m := mount(t, opts...)
		m.WriteFile("theirs", "data")
		m.WriteFile("shared", "data")
		m.WriteFile("secret", "data")
		m.Mkdir("d")
		for name, mode := range map[string]uint32{"shared": 0o666, "secret": 0o600} {
			m.control.OK(wire.Request{Op: "chmod", Path: m.Path(name), Mode: mode})
		}
		guard := func(flags ...string) bool {
			argv := append([]string{"guard", "--wait", "0"}, flags...)
			_, err := m.runAs(t, otherUID, bench.binary, append(argv, "--", "true")...)
			return err == nil
		}
		for _, x := range []struct {
			may  bool
			argv []string
		}{
			{true, []string{m.Path("shared")}},
			{true, []string{"--mode", "shared", m.Path("theirs")}},
			{true, []string{"--mount", m.Dir, "--name", "n"}},
			{false, []string{m.Path("theirs")}},
			{false, []string{m.Path("shared"), m.Path("theirs")}},
			{false, []string{"--mode", "shared", m.Path("secret")}},
			{false, []string{m.Path("new")}},
			{false, []string{m.Path("d/new")}},
			{false, []string{"--tree", m.Path("d")}},
			{false, []string{"--tree", m.Dir}},
		} {
			if got := guard(x.argv...); got != x.may {
				t.Errorf("%s: an ordinary user's guard %q: %v, want %v", m.Name, x.argv, got, x.may)
			}
		}
		m.AwaitClear(t)
	}
}

// Who gives back what is another's is told who has it, and what can be done: to run the command
// again cannot help.
func TestReleaseOfAnothersLock(t *testing.T) {
	needsRoot(t)
	needsLatchfs(t)
	m := mount(t)
	m.WriteFile("f", "v")
	m.control.OK(wire.Request{Op: "chmod", Path: m.Path("f"), Mode: 0o666})
	m.UID = ordinaryUID
	holder := m.shell(t)
	m.UID = 0
	other := m.shell(t)
	holder.do(`$L acquire f`, 0)
	out := other.do(`id=$($L list --json | grep -o '"request_id":"[^"]*' | cut -d'"' -f4); $L release f 2>&1; $L release --lock "$id" 2>&1; :`, 0)
	if strings.Contains(out, "Run it again") || strings.Count(out, fmt.Sprintf("f is locked by bash[%d] since ", holder.PID())) != 2 ||
		strings.Count(out, "You may take the lock away from it: `latchfs steal --force "+m.Path("f")+"`") != 2 {
		t.Errorf("root is told\n%s", out)
	}
	other.do(`$L acquire --name n`, 0)
	out = holder.do(`$L release --name n 2>&1; :`, 0)
	if strings.Contains(out, "Run it again") || strings.Contains(out, "latchfs steal") || !strings.Contains(out, "Its holder alone can release it.") {
		t.Errorf("another user is told\n%s", out)
	}
	other.do(`$L steal --force f`, 0)
	other.do(`$L release --name n`, 0)
	holder.do(`$L release f 2>/dev/null; :`, 0)
}
