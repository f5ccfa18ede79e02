package integration

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"latchfs/integration/internal/wire"
)

// An external command judges what is written.
//
// gate/* is for tests that want to look around meanwhile: the content's first line
// is a directory. The command makes the file "asked" there, waits for "go", and
// accepts if the second line does not say bad. look/* reads the mount, which the
// first line names.
const judged = `
[[rule]]
glob = ["word/*"]
command = ["/bin/sh", "-c", "grep -q please || { echo the word is missing in $LATCHFS_FILE; exit 3; }"]

[[rule]]
glob = ["hang/*"]
command = ["/bin/sh", "-c", "echo thinking; sleep 1000 & wait"]
command-timeout = "3s"

[[rule]]
glob = ["missing/*"]
command = ["/no/such/program"]

[[rule]]
glob = ["who/*"]
command = ["/bin/sh", "-c", "echo uid $(id -u) groups $(id -G); exit 1"]

[[rule]]
glob = ["gate/*"]
command = ["/bin/sh", "-c", "read d; > $d/asked; until [ -e $d/go ]; do sleep 0.01; done; read w; [ \"$w\" != bad ]"]
command-timeout = "1m"

[[rule]]
glob = ["look/*"]
command = ["/bin/sh", "-c", "read d; ls $d/look >/dev/null; [ ! -e $d/look/nothing$$ ] && [ ! -e $d/look/below/nothing$$ ] && cat $d/$LATCHFS_FILE 2>/dev/null; exit 0"]
command-timeout = "20s"
`

func judgedMount(t *testing.T, m *Mount) *Client {
	t.Helper()
	for _, dir := range []string{"word", "hang", "missing", "who", "gate", "look", "look/below"} {
		m.Mkdir(dir)
	}
	return m.Client(t)
}

func TestCommandJudges(t *testing.T) {
	alongside(t)
	needsLatchfs(t)
	forEachMount(t, func(t *testing.T, m *Mount) {
		c := judgedMount(t, m)
		for _, bad := range []struct{ file, content, why string }{
			{"word/f", "now", "command: /bin/sh ended with exit status 3\n  output:   the word is missing in word/f\n"},
			{"hang/f", "", "command: /bin/sh did not end within 3s\n  output:   thinking\n"},
			{"missing/f", "", "command: /no/such/program cannot be run: no such file or directory\n"},
		} {
			if err := c.Save(bad.file, bad.content); err != unix.EBADMSG {
				t.Errorf("%s: %v", bad.file, err)
			}
			if why := c.ReadFile(".locks/why"); !strings.Contains(why, "reason:   "+bad.why) {
				t.Errorf("why:\n%s\nwant\n%s", why, bad.why)
			}
		}
		if err := c.Save("word/f", "please"); err != nil {
			t.Error(err)
		}
		for _, e := range m.EventsOf("rollback", "word/f") {
			if e.Validator != "command" || strings.Contains(e.Reason, "word is missing") {
				t.Errorf("the event has the validator %q and the reason %q", e.Validator, e.Reason)
			}
		}
	}, withPolicy(judged))
}

// The command runs as nobody for root, and as us for ourselves.
func TestCommandRunsAsItsUser(t *testing.T) {
	needsLatchfs(t)
	forEachMount(t, func(t *testing.T, m *Mount) {
		judgedMount(t, m)
		uid := m.UID
		if m.Name != "user" {
			uid = otherUID
			if err := os.Chmod(filepath.Join(m.Dir, "who"), 0o777); err != nil {
				t.Fatal(err)
			}
		}
		c := m.ClientAs(t, uid)
		want := fmt.Sprintf("output:   uid %d groups %d\n", ordinaryUID, ordinaryUID)
		if err := c.Save("who/f", "x"); err != unix.EBADMSG {
			t.Errorf("close: %v", err)
		}
		if why := c.ReadFile(".locks/why"); !strings.Contains(why, want) {
			t.Errorf("why:\n%s\nwant %q", why, want)
		}
		if err := c.Save("who.tmp", "x"); err == nil {
			if _, err := c.Do(c.path2("rename", "who.tmp", "who/g")); err != unix.EBADMSG {
				t.Errorf("rename: %v", err)
			}
			if why := c.ReadFile(".locks/why"); strings.Count(why, want) != 2 {
				t.Errorf("why:\n%s\nwant %q twice", why, want)
			}
		} else if m.Name == "user" {
			t.Error(err)
		}
	}, withPolicy(judged))
}

// What a command said, and the line that was refused, are for the writer's eyes:
// another user whose process is related learns nothing of it.
func TestContentIsNotForOthers(t *testing.T) {
	needsLatchfs(t)
	m := mount(t, withPolicy(validated))
	if m.UID != 0 {
		t.Skip("to be several users takes root")
	}
	os.Chmod(m.Dir, 0o777)
	script := `
import os, sys
why = os.path.join(os.getcwd(), ".locks/why")
def child(uid, do):
    pid = os.fork()
    if pid == 0:
        os.setgid(uid); os.setuid(uid)
        do()
        os._exit(0)
    os.waitpid(pid, 0)
def write():
    os.umask(0o077)
    fd = os.open("f.json", os.O_WRONLY | os.O_CREAT, 0o600)
    os.write(fd, b'{"secret": 42')
    try: os.close(fd)
    except OSError as e: print(e, flush=True)
child(%d, write)
for uid in %d, %d: child(uid, lambda: print(uid, open(why).read(), flush=True))
`
	out := m.Python(t, fmt.Sprintf(script, ordinaryUID, ordinaryUID, otherUID))
	own, others, found := strings.Cut(out, fmt.Sprintf("\n%d ", otherUID))
	if !found || !strings.Contains(own, `content:  {"secret": 42`) || !strings.HasPrefix(others, "Nothing was refused") {
		t.Errorf("it is told\n%s", out)
	}
	if events := m.Locks("events.jsonl"); strings.Contains(others, "secret") || strings.Contains(events, "secret") {
		t.Errorf("others are told\n%s\n%s", others, events)
	}
}

// A command may read the mount: nothing there waits for what it judges, whether a
// close does or a rename, during which the kernel keeps directories locked.
func TestCommandReadsTheMount(t *testing.T) {
	needsLatchfs(t)
	forEachMount(t, func(t *testing.T, m *Mount) {
		c := judgedMount(t, m)
		for _, name := range []string{"look/f", "look/below/f", "tmp"} {
			began := time.Now()
			if err := c.Save(name, m.Dir+"\n"); err != nil {
				t.Errorf("save of %s: %v", name, err)
			}
			wantSoon(t, "save of "+name, began)
		}
		ops := []wire.Request{
			c.path2("rename", "tmp", "look/g"), c.path2("rename", "look/g", "look/h"), c.path2("rename", "look/h", "look/below/g"),
			c.path2("link", "look/below/g", "look/i"), c.path2("rename", "look/f", "look/below/f"),
			{Op: "truncate", Path: m.Path("look/below/f"), Len: int64(len(m.Dir) + 1)},
		}
		for _, op := range ops {
			began := time.Now()
			c.OK(op)
			wantSoon(t, op.Op+" to "+op.To, began)
		}
		// A file that its program has not closed yet.
		m.Python(t, `
import os, sys
with open("t", "w") as f:
    print(os.getcwd(), file=f, flush=True)
    os.rename("t", "look/k")`)
		if got := m.ReadFile("look/k"); got != m.Dir+"\n" {
			t.Errorf("look/k holds %q", got)
		}
	}, withPolicy(judged))
}

// wantSoon wants that something did not have to wait for a timeout.
func wantSoon(t *testing.T, what string, began time.Time) {
	t.Helper()
	if d := time.Since(began); d > promised(10*time.Second) {
		t.Errorf("%s took %v", what, d)
	}
}

// gate is a place where a command waits.
type gate struct {
	t   *testing.T
	dir string
}

func newGate(t *testing.T, m *Mount, name string) *gate {
	t.Helper()
	g := &gate{t, filepath.Join(filepath.Dir(m.Data), "tmp", name)}
	if err := os.Mkdir(g.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	// The command is another user for root.
	if err := errors.Join(os.Chown(g.dir, m.UID, m.UID), os.Chmod(g.dir, 0o777)); err != nil {
		t.Fatal(err)
	}
	return g
}

func (g *gate) awaitAsked() {
	g.t.Helper()
	eventually(g.t, "the command is asked", func() bool { _, err := os.Stat(g.dir + "/asked"); return err == nil })
}

func (g *gate) open() {
	g.t.Helper()
	if err := os.WriteFile(g.dir+"/go", nil, 0o644); err != nil {
		g.t.Fatal(err)
	}
}

// While a command thinks, nobody else waits: not for the directory, not for the
// file's old version, not for other files; and the writer of the same file does.
func TestOthersDoNotWaitForTheCommand(t *testing.T) {
	needsLatchfs(t)
	forEachMount(t, func(t *testing.T, m *Mount) {
		c := judgedMount(t, m)
		other, next := m.Client(t), m.Client(t)
		first := newGate(t, m, "first")
		first.open()
		if err := c.Save("gate/f", first.dir+"\n"); err != nil {
			t.Fatal(err)
		}
		for _, how := range []string{"close", "rename"} {
			g := newGate(t, m, how)
			content := g.dir + "\ngood\n"
			var call *Call
			if how == "close" {
				fd := c.Open("gate/f", unix.O_WRONLY|unix.O_TRUNC)
				c.Write(fd, content)
				call = c.Go(wire.Request{Op: "close", FD: fd})
			} else {
				if err := c.Save("t", content); err != nil {
					t.Fatal(err)
				}
				call = c.Go(c.path2("rename", "t", "gate/f"))
			}
			g.awaitAsked()
			began := time.Now()
			if got := other.ReadFile("gate/f"); strings.Contains(got, g.dir) {
				t.Errorf("%s: a reader finds %q", how, got)
			}
			other.List("gate")
			if err := other.Save("beside", "x"); err != nil {
				t.Error(err)
			}
			other.Stat("gate/nothing-" + how)
			m.Mkdir("gate/dir-" + how)
			m.Status()
			wantSoon(t, "a look around", began)
			waiting := next.GoOpen("gate/f", unix.O_RDWR)
			waiting.MustBlock(t)
			if call.Done() {
				t.Errorf("%s returned before the command did", how)
			}
			g.open()
			call.OK()
			next.MustClose(int(waiting.OK().N))
			if got := m.ReadFile("gate/f"); got != content {
				t.Errorf("%s: the file holds %q", how, got)
			}
		}
	}, withPolicy(judged))
}

// A signal to the closing program leaves nothing half done; a renaming one is let
// go, and nothing is changed.
func TestSignalsWhileTheCommandThinks(t *testing.T) {
	needsLatchfs(t)
	forEachMount(t, func(t *testing.T, m *Mount) {
		judgedMount(t, m)
		for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
			for _, verdict := range []string{"good", "bad"} {
				name := fmt.Sprintf("%s-%d", verdict, sig)
				g := newGate(t, m, name)
				p := m.LaunchPython(t, `
import os, sys
fd = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT, 0o644)
os.write(fd, sys.argv[2].encode())
os.close(fd)
sys.stdin.read()`, "gate/"+name, g.dir+"\n"+verdict+"\n")
				g.awaitAsked()
				p.Signal(sig)
				g.open()
				if out := p.Wait(); out.Signal != sig {
					t.Errorf("%s: the program ended with %+v", name, out)
				}
				m.AwaitFree(t, patience, "gate/"+name)
				_, err := m.control.Stat("gate/" + name)
				if exists := err == nil; exists != (verdict == "good") {
					t.Errorf("%s: exists %v", name, exists)
				}
			}
			g := newGate(t, m, fmt.Sprint("mv-", sig))
			p := m.LaunchPython(t, `
import os, sys
with open(sys.argv[1], "w") as f: f.write(sys.argv[2])
os.rename(sys.argv[1], "gate/mv")`, fmt.Sprint("t", int(sig)), g.dir+"\n")
			g.awaitAsked()
			p.Signal(sig)
			if out := p.Wait(); out.Signal != sig {
				t.Errorf("rename: the program ended with %+v", out)
			}
			if _, err := m.control.Stat("gate/mv"); err != unix.ENOENT {
				t.Errorf("rename: the target: %v", err)
			}
			m.AwaitFree(t, patience, "gate/mv")
		}
	}, withPolicy(judged))
}

// A crash while a command thinks leaves the old version, and no command.
func TestCrashWhileTheCommandThinks(t *testing.T) {
	needsLatchfs(t)
	forEachMount(t, func(t *testing.T, m *Mount) {
		c := judgedMount(t, m)
		g := newGate(t, m, "crash")
		old := newGate(t, m, "old")
		old.open()
		if err := c.Save("gate/f", old.dir+"\n"); err != nil {
			t.Fatal(err)
		}
		fd := c.Open("gate/f", unix.O_WRONLY|unix.O_TRUNC)
		c.Write(fd, g.dir+"\n")
		call := c.Go(wire.Request{Op: "close", FD: fd})
		g.awaitAsked()
		m.Crash(t)
		if call.Err() == nil {
			t.Error("the close was told that all is well")
		}
		c.Kill()
		m.Start(t)
		if got := m.ReadFile("gate/f"); got != old.dir+"\n" {
			t.Errorf("the file holds %q", got)
		}
		g.awaitNoCommand()
	}, withPolicy(judged))
}

// awaitNoCommand waits until no process has the gate's content for its input.
func (g *gate) awaitNoCommand() {
	g.t.Helper()
	eventually(g.t, "the command ends", func() bool {
		files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
		for _, f := range files {
			if text, _ := os.ReadFile(f); strings.Contains(string(text), "until [ -e $d/go ]") && !strings.Contains(string(text), "python") {
				return false
			}
		}
		return true
	})
}

// A mount that ends does not wait for a command.
func TestShutdownWhileTheCommandThinks(t *testing.T) {
	needsLatchfs(t)
	forEachMount(t, func(t *testing.T, m *Mount) {
		c := judgedMount(t, m)
		g := newGate(t, m, "stop")
		fd := c.Open("gate/f", unix.O_WRONLY|unix.O_CREAT)
		c.Write(fd, g.dir+"\n")
		call := c.Go(wire.Request{Op: "close", FD: fd})
		g.awaitAsked()
		began := time.Now()
		m.Stop(t)
		if d := time.Since(began); d > patience {
			t.Errorf("it took %v", d)
		}
		if call.Err() == nil {
			t.Error("the close was told that all is well")
		}
		c.Kill()
		m.Start(t)
		if _, err := m.control.Stat("gate/f"); err != unix.ENOENT {
			t.Errorf("the file: %v", err)
		}
	}, withPolicy(judged), withArgs("--grace", "500ms"))
}

// The words of .locks/why and of the event, as people and programs read them.
func TestWhyContentWasRefused(t *testing.T) {
	needsLatchfs(t)
	m := mount(t, withPolicy(validated))
	out := m.LaunchBash(t, `
		printf '{\n  "a": 1,\n  "b": }\n' > todo.json
		printf 'a: [}' > t.yaml
		echo '{"v"}' > t; mv t todo.json 2>/dev/null
		cat .locks/why`).OK()
	scrub := func(s string) string {
		for pattern, with := range map[string]string{
			`\d{4}-\d\d-\d\d \d\d:\d\d:\d\d`: "TIME", `process \d+`: "process PID", `id \d{8}T\S+`: "id ID",
		} {
			s = regexp.MustCompile(pattern).ReplaceAllString(s, with)
		}
		return s
	}
	const want = `TIME  rename todo.json: EBADMSG (process PID)
  The content was not accepted, and nothing has changed
  reason:   json: line 1, column 5: ':' is expected after a key
  content:  {"v"}
  to do:    Correct the content and write it again. It is still in t.

TIME  create t.yaml: EBADMSG (process PID)
  The content was not accepted, and nothing has changed
  reason:   yaml: line 1, column 5: this is not valid YAML
  content:  a: [}
  output:   while parsing a flow node, did not find expected node content
  kept:     what was written is kept under the id ID
  to do:    Correct the content and write it again.

TIME  create todo.json: EBADMSG (process PID)
  The content was not accepted, and nothing has changed
  reason:   json: line 3, column 8: a value is expected here
  content:    "b": }
  kept:     what was written is kept under the id ID
  to do:    Correct the content and write it again.
`
	if got := scrub(out); got != want {
		t.Errorf("why:\n%s\nwant\n%s", got, want)
	}
	e := m.AwaitEvent("rollback", "todo.json")
	if e.Kept == "" || m.Locks("rejected/"+e.Kept+"/content") != "{\n  \"a\": 1,\n  \"b\": }\n" {
		t.Errorf("kept under %q", e.Kept)
	}
	var meta Event
	m.decode(m.Locks("rejected/"+e.Kept+"/meta.json"), &meta)
	for what, e := range map[string]Event{"event": e, "meta.json": meta} {
		if e.Validator != "json" || e.Line != 3 || e.Column != 8 || e.Errno != "EBADMSG" || e.Reason != "json: line 3, column 8: a value is expected here" {
			t.Errorf("%s: %+v", what, e)
		}
	}
	e = m.AwaitEvent("refusal", "todo.json")
	if e.Validator != "json" || e.Line != 1 || e.Column != 5 || e.From != "t" || e.Operation != "rename" || e.Program != "mv" {
		t.Errorf("refusal: %+v", e)
	}
}
