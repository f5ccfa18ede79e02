package integration

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// claimPolicy declares claim files that nobody waits for.
const claimPolicy = `
[defaults]
wait = "0s"

[[claim]]
glob   = [".busy"]
format = "beads"
covers = "directory"

[[claim]]
glob   = ["*.held"]
format = "lock/v1"
covers = "file"

[[claim]]
glob   = ["locks/**/*.lock"]
format = "owner-dir"
covers = "file"
root   = "locks"

[[claim]]
glob   = ["short/**/*.lock"]
format = "owner-dir"
covers = "file"
root   = "short"
ttl    = "1s"

[[claim]]
glob   = ["*.hang"]
format = "clawdbot"
covers = "file"
ttl    = "1s"

[[claim]]
glob   = ["*.flock"]
format = "flock"
covers = "file"
`

// claimer is a program with the functions of claims.
const claimer = `
import os, sys
D = sys.argv[1]
` + claims

// claims are the functions busy and held, which make records, and what goes with them.
const claims = `
import fcntl, json, socket, subprocess, time
def busy(pid=None):
    return json.dumps({"holder": "tool", "pid": pid or os.getpid(), "hostname": socket.gethostname(), "started_at": "2020-01-01T00:00:00Z"})
def held(request, ttl=900):
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    return json.dumps({"lock_version": "v1", "lock_name": "n", "request_id": request, "actor": "a", "intent": "i", "intent_version": "1",
        "host_id": "h", "pid": 1, "created_at": now, "last_heartbeat_at": now, "ttl_seconds": ttl})
def save(name, content):
    with open(f"{D}/{name}", "w") as f:
        f.write(content)
def try_(do, *args):
    try:
        do(*args)
    except OSError as e:
        return e.strerror
    return "ok"
def say(line):
    print(line, flush=True)
    sys.stdin.readline()
`

const busyNow = "Resource temporarily unavailable"

// A claim is its writer's over a restart of the daemon, also a crash: others stay out, and
// its writer goes on. When it is dead, nobody has it.
func TestClaimOverRestart(t *testing.T) {
	needsLatchfs(t)
	forEachMount(t, func(t *testing.T, m *Mount) {
		m.Mkdir("db")
		m.Mkdir("locks")
		m.WriteFile("db/data", "old\n")
		p := m.LaunchPython(t, claimer+`
os.chdir("/")
save("db/.busy", busy())
os.mkdir(f"{D}/locks/x.lock")
save("locks/x.lock/owner", "worker")
say("claimed")
say(try_(save, "db/data", "mine\n") + " " + try_(save, "x", "mine\n"))
`, m.Dir)
		p.AwaitLine("claimed")
		m.Crash(t)
		m.Start(t)
		for _, name := range []string{"db/data", "x"} {
			if got := m.Python(t, claimer+`print(try_(save, sys.argv[2], "other\n"))`, m.Dir, name); got != busyNow+"\n" {
				t.Errorf("another program writes %s: %q", name, got)
			}
		}
		p.Send("")
		p.AwaitLine("ok ok")
		p.Kill()
		p.Wait()
		m.awaitGone(t, "db/.busy")
		if got := m.ReadFile("db/data"); got != "mine\n" {
			t.Errorf("db/data has %q", got)
		}
		m.WriteFile("db/data", "other\n")
	}, withPolicy(claimPolicy), leftLocks())
}

// awaitGone waits until the daemon has removed a claim file.
func (m *Mount) awaitGone(t testing.TB, name string) {
	t.Helper()
	eventually(t, name+" is removed", func() bool {
		_, err := os.Lstat(filepath.Join(m.Data, name))
		return os.IsNotExist(err)
	})
}

// Of two programs that claim by the same file one wins, whether they write it, rename
// another file to its name, or link it there; and the family of the first may send a heartbeat.
func TestOneOfTwoClaims(t *testing.T) {
	needsLatchfs(t)
	forEachMount(t, func(t *testing.T, m *Mount) {
		for how, claim := range map[string]string{
			"write":  `save(f"{name}.held", record)`,
			"rename": `save(f"{name}.new", record); os.rename(f"{D}/{name}.new", f"{D}/{name}.held")`,
			"link":   `save(f"{name}.new", record); os.link(f"{D}/{name}.new", f"{D}/{name}.held"); os.unlink(f"{D}/{name}.new")`,
		} {
			t.Run(how, func(t *testing.T) {
				script := claimer + fmt.Sprintf(`
def claim(name, record):
    %s
`, claim)
				p := m.LaunchPython(t, script+`
claim(sys.argv[2], held("first"))
say("claimed")
subprocess.run(["bash", "-c", 'echo child > "$0"', f"{D}/{sys.argv[2]}"], check=True)
if sys.argv[2] != "link":
    claim(sys.argv[2], held("first"))
    say(try_(claim, sys.argv[2], held("second")))
else:
    say("File exists")
os.unlink(f"{D}/{sys.argv[2]}.held")
say("removed")
`, m.Dir, how)
				p.AwaitLine("claimed")
				want := map[string]string{"write": busyNow, "rename": busyNow, "link": "File exists"}[how]
				other := script + `print(try_(claim, sys.argv[2], held("other")), try_(save, sys.argv[2], "other"), sep="|")`
				if got := m.Python(t, other, m.Dir, how); got != want+"|"+busyNow+"\n" {
					t.Errorf("another program claims, too: %q", got)
				}
				p.Send("")
				if how == "link" {
					p.AwaitLine("File exists")
				} else {
					p.AwaitLine("Device or resource busy")
				}
				if got := m.ReadFile(how); got != "child\n" {
					t.Errorf("the file has %q", got)
				}
				p.Send("")
				p.AwaitLine("removed")
				if got := m.Python(t, script+`save(sys.argv[2], "free"); print("ok")`, m.Dir, how); got != "ok\n" {
					t.Errorf("after the claim: %q", got)
				}
				p.Close()
				p.OK()
			})
		}
	}, withPolicy(claimPolicy))
}

// Who removes, renames or replaces another's claim file is refused; a stale one is taken
// over so, and what its old holder then writes is refused.
func TestClaimFileIsNotAnothers(t *testing.T) {
	needsLatchfs(t)
	forEachMount(t, func(t *testing.T, m *Mount) {
		p := m.LaunchPython(t, claimer+`
os.mkdir(f"{D}/locks")
os.mkdir(f"{D}/locks/d.lock")
save("locks/d.lock/owner", "worker")
save("f.held", held("first", 1))
say("claimed")
say(try_(save, "f", "late\n"))
say(try_(save, "d", "mine\n"))
`, m.Dir)
		p.AwaitLine("claimed")
		others := claimer + `
print(try_(os.rename, f"{D}/locks/d.lock", f"{D}/locks/d.lock.old"), try_(os.rmdir, f"{D}/locks/d.lock"),
    try_(os.unlink, f"{D}/locks/d.lock/owner"), try_(save, "d", "other"), sep="|")`
		if got := m.Python(t, others, m.Dir); got != strings.Repeat(busyNow+"|", 3)+busyNow+"\n" {
			t.Errorf("another program takes the directory away: %q", got)
		}
		m.AwaitStale(t, "f.held")
		if got := m.Python(t, claimer+`
print(try_(save, "f.held", held("second")), try_(save, "f", "second\n"), try_(os.unlink, f"{D}/f.held"), sep="|")`, m.Dir); got != "ok|ok|ok\n" {
			t.Errorf("a stale claim is not taken over: %q", got)
		}
		p.Send("")
		p.AwaitLine("Device or resource busy")
		p.Send("")
		p.AwaitLine("ok")
		if got := m.ReadFile("f"); got != "second\n" {
			t.Errorf("the file has %q", got)
		}
		p.Close()
		p.OK()
	}, withPolicy(claimPolicy), leftLocks())
}

// A claim is given back through .locks by its holder, with its file, and by nobody else.
func TestClaimIsGivenBack(t *testing.T) {
	needsLatchfs(t)
	forEachMount(t, func(t *testing.T, m *Mount) {
		m.Mkdir("db")
		p := m.LaunchPython(t, claimer+`
save("db/.busy", busy())
say("claimed")
say(try_(os.unlink, f"{D}/.locks/held/db/.busy.lock"))
`, m.Dir)
		p.AwaitLine("claimed")
		if out := m.Run(t, "rm", m.Path(".locks/held/db/.busy.lock")); !strings.Contains(out.Stderr, "busy") {
			t.Errorf("another program gives it back: %+v", out)
		}
		p.Send("")
		p.AwaitLine("ok")
		m.awaitGone(t, "db/.busy")
		m.WriteFile("db/data", "free\n")
		p.Close()
		p.OK()
	}, withPolicy(claimPolicy))
}

// flock on a declared file is a lock on the file that it stands for, also where neither
// exists before, and as long as the descriptor is open.
func TestFlockStandsForItsFile(t *testing.T) {
	needsLatchfs(t)
	forEachMount(t, func(t *testing.T, m *Mount) {
		p := m.LaunchPython(t, claimer+`
f = os.open(f"{D}/f.flock", os.O_CREAT | os.O_RDWR)
fcntl.flock(f, fcntl.LOCK_EX)
save("f", "mine\n")
subprocess.run(["bash", "-c", 'echo child >> "$0"', f"{D}/f"], check=True)
say("locked")
os.unlink(f"{D}/f.flock")
say("removed")
os.close(f)
say("free")
`, m.Dir)
		other := claimer + `
f = os.open(f"{D}/f", os.O_RDONLY)
print(try_(save, "f", "other\n"), try_(fcntl.flock, f, fcntl.LOCK_EX | fcntl.LOCK_NB))`
		for _, line := range []string{"locked", "removed"} {
			p.AwaitLine(line)
			if got := m.Python(t, other, m.Dir); got != busyNow+" "+busyNow+"\n" {
				t.Errorf("%s: another program gets %q", line, got)
			}
			p.Send("")
		}
		p.AwaitLine("free")
		if got := m.Python(t, other, m.Dir); got != "ok ok\n" {
			t.Errorf("free: another program gets %q", got)
		}
		p.Close()
		p.OK()
	}, withPolicy(claimPolicy))
}

// A user claims what he may lock, and nothing else: not a directory of somebody else in
// which everybody may make files, nor a file that he may not write. What his record says
// of another user's process counts for nothing.
func TestStrangersClaims(t *testing.T) {
	forBothRootMounts(t, func(t *testing.T, m *Mount) {
		m.Mkdir("pub")
		if err := unix.Chmod(filepath.Join(m.Data, "pub"), 0o1777); err != nil {
			t.Fatal(err)
		}
		m.WriteFile("pub/f", "root's\n")
		m.WriteFile("bob/mine", "")
		bob := m.LaunchPython(t, bobScript(claims+`
save("pub/.busy", busy())
save("pub/f.held", held("bob's"))
save("bob/.busy", busy(1))
print("claimed", flush=True)
sys.stdin.readline()
`), m.Dir, "")
		bob.AwaitOutput("claimed")
		if got := m.Python(t, claimer+`print(try_(save, "pub/f", "root's\n"), try_(save, "pub/new", ""), try_(save, "bob/mine", "x"), sep="|")`, m.Dir); got != "ok|ok|"+busyNow+"\n" {
			t.Errorf("root writes beside bob's claims: %q", got)
		}
		if n := strings.Count(m.Locks("events.jsonl"), `"event":"claim_ignored"`); n != 2 {
			t.Errorf("%d events say that a claim of bob's was ignored", n)
		}
		bob.Send("")
		bob.OK()
	}, func(t *testing.T) []mountOption { return []mountOption{withPolicy(claimPolicy), leftLocks()} })
}

// What a session of a claim's holder has still to write when the claim is lost is refused,
// and others go on meanwhile.
func TestLostClaimFencesSessions(t *testing.T) {
	needsLatchfs(t)
	forEachMount(t, func(t *testing.T, m *Mount) {
		m.WriteFile("g", "old\n")
		p := m.LaunchPython(t, claimer+`
save("g.hang", json.dumps({"session_id": "S", "pid": os.getpid(), "hostname": socket.gethostname(), "operation": "o",
    "acquired_at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())}))
f = os.open(f"{D}/g", os.O_WRONLY | os.O_TRUNC)
os.write(f, b"late")
say("claimed")
say(try_(os.close, f))
`, m.Dir)
		p.AwaitLine("claimed")
		p.Signal(unix.SIGSTOP)
		m.awaitGone(t, "g.hang")
		m.WriteFile("g", "other\n")
		p.Signal(unix.SIGCONT)
		p.Send("")
		p.AwaitLine("Stale file handle")
		if got := m.ReadFile("g"); got != "other\n" {
			t.Errorf("the file has %q", got)
		}
		p.Close()
		p.OK()
	}, withPolicy(claimPolicy))
}

// What the dead have left, and no rule ends, whoever may remove the file ends by that, or by
// a theft; nobody is kept from a directory that was made and got no owner.
func TestClaimsOfTheDead(t *testing.T) {
	needsLatchfs(t)
	forEachMount(t, func(t *testing.T, m *Mount) {
		m.Mkdir("db")
		m.Mkdir("locks")
		p := m.LaunchPython(t, claimer+`
save("db/.busy", "{broken")
os.mkdir(f"{D}/locks/a.lock")
os.mkdir(f"{D}/locks/b.lock")
save("locks/b.lock/owner", "worker")
say("claimed")
`, m.Dir)
		p.AwaitLine("claimed")
		removes := claimer + `
import shutil
print(try_(os.unlink, f"{D}/db/.busy"), try_(os.rmdir, f"{D}/locks/a.lock"), try_(shutil.rmtree, f"{D}/locks/b.lock"), sep="|")`
		if got := m.Python(t, removes, m.Dir); got != strings.Repeat(busyNow+"|", 2)+busyNow+"\n" {
			t.Errorf("another program removes claims whose holder lives: %q", got)
		}
		p.Kill()
		p.Wait()
		var got string
		eventually(t, "the claims of the dead can be removed", func() bool {
			got = m.Python(t, removes, m.Dir)
			return !strings.Contains(got, busyNow)
		})
		for _, name := range []string{"db/data", "a", "b"} {
			m.WriteFile(name, "free\n")
		}
	}, withPolicy(claimPolicy))
}

// The directory of a claim whose session was killed is removed with whatever files are in it.
func TestStaleDirectory(t *testing.T) {
	needsLatchfs(t)
	forEachMount(t, func(t *testing.T, m *Mount) {
		m.Mkdir("short")
		p := m.LaunchPython(t, claimer+`
os.mkdir(f"{D}/short/a.lock")
os.mkdir(f"{D}/short/b.lock")
save("short/b.lock/owner", "worker")
save("short/b.lock/record.json.tmp", "{")
say("claimed")
`, m.Dir)
		p.AwaitLine("claimed")
		p.Kill()
		p.Wait()
		for _, name := range []string{"a", "b"} {
			m.awaitGone(t, "short/"+name+".lock")
			m.WriteFile(name, "free\n")
		}
	}, withPolicy(claimPolicy))
}

// A directory that is made anew is claimed anew, though somebody still has the one open that
// had its name before.
func TestClaimOfADirectoryMadeAnew(t *testing.T) {
	needsLatchfs(t)
	forEachMount(t, func(t *testing.T, m *Mount) {
		m.WriteFile("a", "free\n")
		p := m.LaunchPython(t, claimer+`
lock = f"{D}/locks/a.lock"
def make():
    os.mkdir(lock)
    save("locks/a.lock/owner", "worker")
def remove():
    os.unlink(f"{lock}/owner")
    os.rmdir(lock)
os.mkdir(f"{D}/locks")
make()
before = os.open(lock, os.O_RDONLY)
remove()
make()
say("claimed")
remove()
say("removed")
`, m.Dir)
		p.AwaitLine("claimed")
		if got := m.Python(t, claimer+`print(try_(save, "a", "taken"))`, m.Dir); got != busyNow+"\n" {
			t.Errorf("what is claimed is written: %q", got)
		}
		p.Send("")
		p.AwaitLine("removed")
		m.WriteFile("a", "free again\n")
		p.Send("")
		p.OK()
	}, withPolicy(claimPolicy))
}

// A claim goes where its file goes: to what another name stands for, and along with a
// directory, out of the reach of any rule, where it ends with its file.
func TestClaimIsRenamed(t *testing.T) {
	needsLatchfs(t)
	forEachMount(t, func(t *testing.T, m *Mount) {
		for _, dir := range []string{"locks", "locks/d", "d"} {
			m.Mkdir(dir)
		}
		p := m.LaunchPython(t, claimer+`
os.mkdir(f"{D}/locks/a.lock")
save("locks/a.lock/owner", "worker")
os.rename(f"{D}/locks/a.lock", f"{D}/locks/b.lock")
os.mkdir(f"{D}/locks/new")
os.mkdir(f"{D}/locks/new/f.lock")
save("locks/new/f.lock/owner", "worker")
os.mkdir(f"{D}/new")
os.mkdir(f"{D}/locks/d/f.lock")
save("locks/d/f.lock/owner", "worker")
os.rename(f"{D}/locks/d", f"{D}/moved")
say("claimed")
import shutil
shutil.rmtree(f"{D}/moved/f.lock")
say("removed")
`, m.Dir)
		p.AwaitLine("claimed")
		others := claimer + `print(*(try_(save, name, "x") for name in sys.argv[2:]), sep="|")`
		if got := m.Python(t, others, m.Dir, "a", "b", "new/f", "d/f"); got != "ok|"+strings.Repeat(busyNow+"|", 2)+busyNow+"\n" {
			t.Errorf("another program writes: %q", got)
		}
		p.Send("")
		p.AwaitLine("removed")
		if got := m.Python(t, others, m.Dir, "d/f"); got != "ok\n" {
			t.Errorf("after the end of the claim: %q", got)
		}
		p.Close()
		p.OK()
	}, withPolicy(claimPolicy), leftLocks())
}

// A flock that stands for a file keeps out no writers of it where its holder may not write
// that file himself.
func TestFlockOfAStrangerClaimsNothing(t *testing.T) {
	needsLatchfs(t)
	requireTool(t, "setpriv")
	forEachRootMount(t, func(t *testing.T, m *Mount) {
		for mode, want := range map[string]string{"600": "written\n", "666": "refused\n"} {
			got := m.Bash(t, `
as() { setpriv --reuid "$1" --regid "$1" --clear-groups -- "${@:2}"; }
as 65533 bash -c 'echo old > f; chmod "$1" f' bash "$1"
mkfifo -m 666 ../../held"$1" ../../go"$1"
as 65532 bash -c 'exec 9> f.lock; flock 9; echo > ../../held"$1"; read < ../../go"$1"' bash "$1" &
read < ../../held"$1"
as 65533 bash -c 'echo new > f' 2> /dev/null && echo written || echo refused
echo > ../../go"$1"; wait; rm f f.lock`, mode)
			mustSee(t, mode, got.Stdout, want)
		}
	}, withPolicy("[defaults]\nwait = \"300ms\"\n[[claim]]\nglob = [\"*.lock\"]\nformat = \"flock\"\ncovers = \"file\"\n"), openToAll())
}
