package integration

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"latchfs/integration/internal/wire"
)

// What a writer, an ordinary user, can do to those who judge what it writes on
// root's mount.
const judgedForAll = `
[[rule]]
glob = ["gate/*"]
command = ["/bin/sh", "-c", "read d; echo $$ > $d/asked; until [ -e $d/go ]; do sleep 0.01; done; exit 1"]
command-timeout = "1m"

[[rule]]
glob = ["limits/*"]
command = ["/bin/sh", "-c", "echo $(grep -E '^(Uid|Gid|Groups|NoNewPrivs|CapPrm):' /proc/self/status); grep -E '^Max (data|cpu|proc|core)' /proc/self/limits; exit 1"]

[[rule]]
glob = ["change/*"]
command = ["/bin/sh", "-c", "cat >/dev/null; echo evil 1<>/proc/self/fd/0 && [ $LATCHFS_FILE = change/f ] && exit 1; echo evil > /proc/self/fd/0; exit 0"]

[[rule]]
glob = ["*.toml"]
validate = ["toml"]

[[rule]]
glob = ["*.yaml"]
validate = ["yaml"]
`

// openToAll lets everybody write to the data directory.
func openToAll() mountOption {
	return withSeed(func(data string) error { return os.Chmod(data, 0o777) })
}

// forAll makes directories of the mount in which everybody may write.
func (m *Mount) forAll(t *testing.T, names ...string) {
	t.Helper()
	for _, name := range names {
		m.Mkdir(name)
		if err := os.Chmod(filepath.Join(m.Dir, name), 0o777); err != nil {
			t.Fatal(err)
		}
	}
}

const steer = `
import ctypes, os, sys
libc, pid = ctypes.CDLL(None, use_errno=True), int(sys.argv[1])
if libc.ptrace(16, pid, 0, 0) == 0: print("traced it")
for name in "mem", "environ", "fd/0":
    try: open(f"/proc/{pid}/{name}", "rb"); print("opened", name)
    except PermissionError: pass
try: os.kill(pid, 0); print("may signal it")
except PermissionError: pass
`

// The command that judges a file belongs to neither its writer nor root.
func TestWriterCannotSteerTheCommand(t *testing.T) {
	forEachRootMount(t, func(t *testing.T, m *Mount) {
		m.forAll(t, "gate")
		c := m.ClientAs(t, otherUID)
		g := newGate(t, m, "gate")
		fd := c.Open("gate/f", unix.O_WRONLY|unix.O_CREAT)
		c.Write(fd, g.dir+"\n")
		call := c.Go(wire.Request{Op: "close", FD: fd})
		var pid int
		eventually(t, "the command is asked", func() bool {
			text, _ := os.ReadFile(g.dir + "/asked")
			pid, _ = strconv.Atoi(strings.TrimSpace(string(text)))
			return pid > 0
		})
		out, err := m.runAs(t, otherUID, bench.python, "-c", steer, strconv.Itoa(pid))
		if err != nil || strings.TrimSpace(out) != "" {
			t.Errorf("the writer %s, %v", out, err)
		}
		g.open()
		if err := call.Err(); err != unix.EBADMSG {
			t.Errorf("close: %v", err)
		}
	}, withPolicy(judgedForAll), openToAll())
}

// The command runs as nobody with no group of root's, cannot gain privileges, and has
// limits.
func TestCommandIsConfined(t *testing.T) {
	forEachRootMount(t, func(t *testing.T, m *Mount) {
		m.forAll(t, "limits")
		c := m.ClientAs(t, otherUID)
		if err := c.Save("limits/f", "x"); err != unix.EBADMSG {
			t.Errorf("close: %v", err)
		}
		why := c.ReadFile(".locks/why")
		for _, want := range []string{
			`Uid: 65534 65534 65534 65534 Gid: [1-9]\d* [1-9]\d* [1-9]\d* [1-9]\d* Groups:( [1-9]\d*)* CapPrm: 0{16} NoNewPrivs: 1\n`,
			`Max cpu time +12 +12 `, `Max data size +1073741824 +1073741824 `, `Max processes +512 +512 `, `Max core file size +0 +0 `,
		} {
			if !regexp.MustCompile(want).MatchString(why) {
				t.Errorf("no %q in\n%s", want, why)
			}
		}
	}, withPolicy(judgedForAll), openToAll(), withGroups(0, 4)) // as root has who has logged in
}

// A command has no way to the file that it judges, however much others may write to
// it, and cannot change what other commands of its user are asked about.
func TestCommandCannotWriteTheContent(t *testing.T) {
	forEachRootMount(t, func(t *testing.T, m *Mount) {
		m.forAll(t, "change")
		c := m.ClientAs(t, otherUID)
		for name, content := range map[string]string{"change/f": "good\n", "change/long": strings.Repeat("good\n", 2<<20)} {
			fd := c.Open(name, unix.O_WRONLY|unix.O_CREAT)
			c.OK(wire.Request{Op: "fchmod", FD: fd, Mode: 0o666})
			c.Write(fd, content)
			if err := c.Close(fd); err != nil {
				t.Errorf("%s: %v\n%s", name, err, c.ReadFile(".locks/why"))
			}
			if got := m.ReadFile(name); got != content {
				t.Errorf("%s holds %.20q", name, got)
			}
		}
	}, withPolicy(judgedForAll), openToAll())
}

// Whoever the command runs as could tell it what to answer.
func TestCommandUserMayNotWrite(t *testing.T) {
	forEachRootMount(t, func(t *testing.T, m *Mount) {
		m.forAll(t, "change")
		c := m.ClientAs(t, ordinaryUID)
		if err := c.Save("change/f", "x"); err != unix.EBADMSG {
			t.Errorf("close: %v", err)
		}
		if why := c.ReadFile(".locks/why"); !strings.Contains(why, "set command-user to a user who does not write here") {
			t.Errorf("why:\n%s", why)
		}
	}, withPolicy(judgedForAll), openToAll())
}

// Small content that takes much memory or time to parse costs the daemon neither.
func TestHungryContentIsRefused(t *testing.T) {
	forEachRootMount(t, func(t *testing.T, m *Mount) {
		c := m.ClientAs(t, otherUID)
		before := peakMemory(t, m.PID())
		for name, bad := range map[string]struct{ content, why string }{
			"dots.toml":  {strings.Repeat("a.", 1<<19) + "a = 1\n", "toml: line 1: too deep: at most 1000 levels are checked"},
			"table.toml": {strings.Repeat("a.", 2000) + "a = 1\n", "toml: line 1: too deep: at most 1000 levels are checked"},
			"deep.yaml":  {strings.Repeat("[", 2000), "yaml: too deep: at most 1000 levels are checked"},
			"flat.yaml":  {"[" + strings.Repeat("[],", 800_000) + "]", "yaml: too much to be checked: it takes more than"},
		} {
			if err := c.Save(name, bad.content); err != unix.EBADMSG {
				t.Errorf("%s: %v", name, err)
			}
			if why := c.ReadFile(".locks/why"); !strings.Contains(why, "reason:   "+bad.why) {
				t.Errorf("%s: why:\n%s\nwant %s", name, why, bad.why)
			}
		}
		if grown := peakMemory(t, m.PID()) - before; grown > 64<<20 {
			t.Errorf("the daemon took %d MiB more for it", grown>>20)
		}
	}, withPolicy(judgedForAll), openToAll(), asInstalled())
}

// peakMemory is the most memory that a process has had, in bytes.
func peakMemory(t *testing.T, pid int) int64 {
	t.Helper()
	for line := range strings.Lines(readProc(pid, "status")) {
		var kib int64
		if _, err := fmt.Sscanf(line, "VmHWM: %d kB", &kib); err == nil {
			return kib << 10
		}
	}
	t.Fatalf("process %d does not tell its memory", pid)
	return 0
}

// Whoever has many large files parsed waits for himself alone.
func TestLargeParsesKeepNobodyElseWaiting(t *testing.T) {
	inTestAll(t)
	forEachRootMount(t, func(t *testing.T, m *Mount) {
		var calls []*Call
		for i := range 4 {
			c := m.ClientAs(t, otherUID)
			fd := c.Open(fmt.Sprintf("big%d.yaml", i), unix.O_WRONLY|unix.O_CREAT)
			c.Write(fd, "["+strings.Repeat("[],", 200_000)+"]")
			calls = append(calls, c.Go(wire.Request{Op: "close", FD: fd}))
		}
		victim := m.ClientAs(t, ordinaryUID)
		if err := victim.Save("mine.yaml", strings.Repeat("- my own\n", 10_000)); err != nil {
			t.Error(err)
		}
		waiting := 0
		for _, call := range calls {
			if !call.Done() {
				waiting++
			}
		}
		if waiting == 0 {
			t.Error("the other user's save had to wait for all of them")
		}
		for _, call := range calls {
			call.OK()
		}
	}, withPolicy(judgedForAll), openToAll(), asInstalled())
}
