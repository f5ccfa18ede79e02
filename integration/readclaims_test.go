package integration

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"latchfs/integration/internal/wire"
)

// lost-update = "serialize": who reads in order to write comes one after the other,
// without knowing of it.

// serialized is a policy under which reads claim. cat only looks.
func serialized(more string) mountOption {
	return withPolicy("[defaults]\nlost-update = \"serialize\"\nwait = \"60s\"\nclaim-ttl = \"60s\"\nobservers = [\"cat\"]\n" + more)
}

// content is what a file holds, read by somebody who claims nothing.
func content(t *testing.T, m *Mount, name string) string {
	t.Helper()
	return m.Launch(t, "cat", name).OK()
}

// Ways to count one up in counter.json, argv[1] times, as programs do that know
// nothing of each other.
const (
	countPython = `
import json, sys
for i in range(int(sys.argv[1])):
    with open("counter.json") as f:
        d = json.load(f)
    d["n"] += 1
    with open("counter.json", "w") as f:
        json.dump(d, f)
`
	countCareful = `
import json, os, sys
for i in range(int(sys.argv[1])):
    with open("counter.json") as f:
        d = json.load(f)
    d["n"] += 1
    t = "counter.json.%d" % os.getpid()
    with open(t, "w") as f:
        json.dump(d, f)
    os.replace(t, "counter.json")
`
	countJQ     = `set -e; for i in $(seq $1); do jq '.n += 1' counter.json > t.$$; mv t.$$ counter.json; done`
	countShell  = `set -e; for i in $(seq $1); do x=$(jq '.n += 1' counter.json); echo "$x" > counter.json; done`
	countSponge = `set -e -o pipefail; for i in $(seq $1); do jq '.n += 1' counter.json | sponge counter.json; done`
	countUnlink = `set -e; for i in $(seq $1); do jq '.n += 1' counter.json > t.$$; cp --remove-destination t.$$ counter.json; rm t.$$; done`
)

// waysToCount are the ways to count that are installed.
func waysToCount(t *testing.T) []string {
	requireTool(t, "jq")
	ways := []string{countJQ, countShell}
	if _, err := os.Stat("/usr/bin/sponge"); err == nil {
		ways = append(ways, countSponge)
	}
	return ways
}

// Programs of all kinds count up one file, and nothing is lost and nothing fails.
func TestSerializeLosesNothing(t *testing.T) {
	alongside(t)
	ways := waysToCount(t)
	rounds, programs := repeat(2, 20), repeat(4, 12)
	forEachMount(t, func(t *testing.T, m *Mount) {
		m.WriteFile("counter.json", `{"n": 0}`)
		var procs []*Proc
		n := 0
		for i := range programs {
			if i%2 == 0 {
				procs = append(procs, m.LaunchPython(t, []string{countPython, countCareful}[i/2%2], fmt.Sprint(rounds)))
			} else {
				procs = append(procs, m.LaunchBash(t, ways[i/2%len(ways)], fmt.Sprint(rounds)))
			}
			n += rounds
		}
		for _, p := range procs {
			p.OK()
		}
		if got, want := strings.Join(strings.Fields(content(t, m, "counter.json")), ""), fmt.Sprintf(`{"n":%d}`, n); got != want {
			t.Errorf("counted %s, want %s", got, want)
		}
	}, serialized(""))
}

// The workers of one script are no family: each waits for the others.
func TestSerializeWorkersOfOneScript(t *testing.T) {
	alongside(t)
	requireTool(t, "jq")
	workers := repeat(3, 8)
	forEachMount(t, func(t *testing.T, m *Mount) {
		m.WriteFile("counter.json", `{"n": 0}`)
		m.LaunchBash(t, `
			set -e
			jq .n counter.json
			for w in $(seq $2); do
				( exec bash -c "$1" bash 3 ) & pids="$pids $!"
			done
			for p in $pids; do wait $p; done`, countJQ, fmt.Sprint(workers)).OK()
		if got, want := content(t, m, "counter.json"), fmt.Sprintf(`"n": %d`, 3*workers); !strings.Contains(got, want) {
			t.Errorf("counted %s, want %s", got, want)
		}
	}, serialized(""))
}

// A claim is shown like any lock, keeps another reader and a writer out, and lets
// its own process write.
func TestClaimIsShown(t *testing.T) {
	needsLatchfs(t)
	forEachMount(t, func(t *testing.T, m *Mount) {
		m.WriteFile("f", "0")
		first, second, third := m.Client(t), m.Client(t), m.Client(t)
		if got := first.ReadFile("f"); got != "0" {
			t.Fatalf("read %q", got)
		}
		if l := m.AwaitHolder(t, "f", first.PID); l.Operation != "read" || l.Mode != "update" || l.Metadata.Program != "client" {
			t.Errorf("shown as %+v", l)
		}
		read := second.GoOpen("f", unix.O_RDONLY)
		read.MustBlock(t)
		write := third.GoOpen("f", unix.O_WRONLY|unix.O_TRUNC)
		write.MustBlock(t)
		queue, _ := m.queue()
		if len(queue) != 2 || queue[0].PID != second.PID || queue[0].Operation != "read" || queue[1].PID != third.PID {
			t.Errorf("the queue is %+v", queue)
		}
		if err := first.Save("f", "1"); err != nil {
			t.Fatalf("the claimant's own write: %v", err)
		}
		fd := int(read.OK().N)
		if got := second.ReadAt(fd, 10, 0); got != "1" {
			t.Errorf("who waited reads %q, want the new version", got)
		}
		if st := second.Fstat(fd); st.Size != 1 {
			t.Errorf("its size is %d", st.Size)
		}
		write.MustBlock(t)
		second.MustClose(fd)
		second.Kill() // of whom nothing is to be expected any more
		third.MustClose(int(write.OK().N))
	}, serialized(""))
}

// A claim ends with the process that was killed, and with one that failed.
func TestClaimEndsWithItsProcess(t *testing.T) {
	needsLatchfs(t)
	forEachMount(t, func(t *testing.T, m *Mount) {
		m.WriteFile("f", "0")
		for _, how := range []string{"kill", "fail"} {
			p := m.LaunchPython(t, "import sys\nopen('f').read()\nprint('read', flush=True)\nsys.stdin.readline()\nsys.exit(3)")
			p.AwaitLine("read")
			next := m.Client(t)
			read := next.GoOpen("f", unix.O_RDONLY)
			read.MustBlock(t)
			if how == "kill" {
				p.Signal(syscall.SIGKILL)
			} else {
				p.Close()
			}
			next.MustClose(int(read.OK().N))
			next.Kill()
		}
	}, serialized(""))
}

// A child's claim is its parent's when the child has done its work, and ends with
// that; whoever is no child of it waits so long.
func TestClaimIsPassedOn(t *testing.T) {
	requireTool(t, "jq")
	needsLatchfs(t)
	forEachMount(t, func(t *testing.T, m *Mount) {
		m.WriteFile("f.json", "{}")
		p := m.LaunchBash(t, `jq . f.json; echo done; read; jq . f.json; echo again; read; exit 1`)
		p.AwaitLine("done")
		l := m.AwaitHolder(t, "f.json", p.PID())
		if l.Operation != "read" || l.Metadata.Program != "bash" {
			t.Errorf("shown as %+v", l)
		}
		next := m.Client(t)
		read := next.GoOpen("f.json", unix.O_RDONLY)
		read.MustBlock(t)
		p.Send("")
		p.AwaitLine("again")
		read.MustBlock(t)
		m.AwaitStatus(t, "the second claim is the shell's, before that fails", func(s Status) bool {
			held := s.HolderOf("f.json")
			return held != nil && held.PID == p.PID() && len(held.CoHolders) == 0
		})
		p.Send("")
		next.MustClose(int(read.OK().N))
		next.Kill()
	}, serialized(""))
}

// Time ends a claim, and who reads again and again does not keep others out for
// longer. It has shown then that it only looks: it neither claims nor waits again.
func TestClaimEndsInTime(t *testing.T) {
	inTestAll(t)
	alongside(t)
	needsLatchfs(t)
	const ttl = 2 * time.Second
	forEachMount(t, func(t *testing.T, m *Mount) {
		m.WriteFile("f", "0")
		looks, reads := m.Client(t), m.Client(t)
		looks.ReadFile("f")
		began := time.Now()
		read := reads.GoOpen("f", unix.O_RDONLY)
		for !read.Done() && time.Since(began) < patience {
			looks.ReadFile("f")
		}
		fd := int(read.OK().N)
		if took := time.Since(began); took < ttl/2 || took > ttl+promised(5*time.Second) {
			t.Errorf("waited %v, want about %v", took, ttl)
		}
		for range 5 {
			began := time.Now()
			looks.ReadFile("f")
			if took := time.Since(began); took > promised(ttl/2) {
				t.Errorf("who only looks waited %v the second time", took)
			}
		}
		if err := looks.Save("f", "1"); err != nil { // it waits for the claim
			t.Fatal(err)
		}
		looks.ReadFile("f") // and claims, for it writes after all
		m.AwaitHolder(t, "f", looks.PID)
		reads.MustClose(fd)
		reads.Kill()
		looks.Kill()
	}, withPolicy("[defaults]\nlost-update = \"serialize\"\nclaim-ttl = \""+ttl.String()+"\"\nwait = \"20s\"\nobservers = [\"cat\"]\n"))
}

// Children of one program that look again and again do not keep others out for longer
// either.
func TestClaimsOfChildrenEndInTime(t *testing.T) {
	inTestAll(t)
	alongside(t)
	needsLatchfs(t)
	const ttl = 2 * time.Second
	forEachMount(t, func(t *testing.T, m *Mount) {
		m.WriteFile("f", "0")
		p := m.LaunchBash(t, `head -c1 f >/dev/null; echo; echo looks; while head -c1 f >/dev/null; do :; done`)
		p.AwaitLine("looks")
		m.AwaitHolder(t, "f", p.PID())
		began := time.Now()
		other := m.Client(t)
		other.ReadFile("f")
		if took := time.Since(began); took > ttl+promised(5*time.Second) {
			t.Errorf("waited %v, want at most %v", took, ttl)
		}
		p.Kill()
		other.Kill()
	}, withPolicy("[defaults]\nlost-update = \"serialize\"\nclaim-ttl = \""+ttl.String()+"\"\nwait = \"20s\"\n"))
}

// Who locks the file by itself claims it no longer, and who holds a claim can let go
// of it with rm.
func TestClaimIsGivenUp(t *testing.T) {
	needsLatchfs(t)
	forEachMount(t, func(t *testing.T, m *Mount) {
		m.WriteFile("f", "0")
		m.WriteFile("g", "0")
		locks, next := m.Client(t), m.Client(t)
		fd := locks.Open("f", unix.O_RDONLY)
		m.AwaitHolder(t, "f", locks.PID)
		locks.OK(flockReq(fd, unix.LOCK_SH))
		next.MustClose(next.Open("f", unix.O_RDONLY))
		locks.MustClose(fd)
		m.AwaitHolder(t, "f", next.PID)
		if _, err := locks.Do(wire.Request{Op: "unlink", Path: m.Path(".locks/held/f.lock")}); !errors.Is(err, syscall.EBUSY) {
			t.Errorf("another's claim is removed: %v, want EBUSY", err)
		}
		next.OK(wire.Request{Op: "unlink", Path: m.Path(".locks/held/f.lock")})
		locks.MustClose(locks.Open("f", unix.O_RDONLY))
		locks.Kill()
		next.Kill()
		// Of a shell that was handed the lock by flock(1), too.
		p := m.LaunchBash(t, `exec 9< g; echo read; read; flock -s 9; echo locked; read; exit 1`)
		p.AwaitLine("read")
		m.AwaitHolder(t, "g", p.PID())
		p.Send("")
		p.AwaitLine("locked")
		other := m.Client(t)
		other.MustClose(other.Open("g", unix.O_RDONLY))
		other.Kill()
		p.Kill()
	}, serialized(""))
}

// What was claimed under one name may be written under another, by an append, or in a
// transaction: that ends the claim, too.
func TestClaimEndsHoweverItIsWritten(t *testing.T) {
	needsLatchfs(t)
	forEachMount(t, func(t *testing.T, m *Mount) {
		for name, write := range map[string]string{
			"append": "open('append', 'a').write('1\\n')",
			"link":   "open('link2', 'w').write('1\\n')",
			"vim":    "os.rename('vim', 'vim~'); open('vim', 'w').write('1\\n')",
			"remove": "os.remove('remove'); open('remove', 'x').write('1\\n')",
		} {
			m.WriteFile(name, "0\n")
			if name == "link" {
				m.Launch(t, "ln", "link", "link2").OK()
			}
			p := m.LaunchPython(t, "import os, sys\nopen('"+name+"').read()\nprint('read', flush=True)\nsys.stdin.readline()\n"+
				write+"\nprint('written', flush=True)\nsys.stdin.readline()")
			p.AwaitLine("read")
			holds := func(s Status) bool { // under whichever name
				return slices.ContainsFunc(s.HeldLocks, func(l HeldLock) bool { return l.PID == p.PID() })
			}
			m.AwaitStatus(t, name+" is claimed", holds)
			p.Send("")
			p.AwaitLine("written")
			m.AwaitStatus(t, name+" is free", func(s Status) bool { return !holds(s) })
			p.Kill()
		}
	}, serialized(""))
}

// Who observes, who does not want to wait and who may not write does not wait.
func TestObserversDoNotWait(t *testing.T) {
	needsLatchfs(t)
	forEachMount(t, func(t *testing.T, m *Mount) {
		m.WriteFile("f", "0")
		claimant := m.Client(t)
		claimant.ReadFile("f")
		m.AwaitHolder(t, "f", claimant.PID)
		if got := content(t, m, "f"); got != "0" {
			t.Errorf("an observer reads %q", got)
		}
		other := m.Client(t)
		other.MustClose(other.Open("f", unix.O_RDONLY|unix.O_NONBLOCK))
		if os.Geteuid() == 0 && m.UID == 0 && !*plain {
			if out, err := m.runAs(t, otherUID, "head", "-c1", m.Path("f")); err != nil || out != "0" {
				t.Errorf("who may not write reads %q, %v", out, err)
			}
		}
		claimant.Kill()
		if os.Geteuid() == 0 && m.UID == 0 && !*plain {
			// In a sticky directory nobody takes the place of another user's file.
			must(t, os.Mkdir(m.Path("all"), 0o777))
			must(t, os.Chmod(m.Path("all"), 0o777|os.ModeSticky))
			m.WriteFile("all/f", "0")
			must(t, os.Chmod(m.Path("all/f"), 0o644))
			bystander := m.ClientAs(t, otherUID)
			bystander.ReadFile("all/f")
			if h := m.Status().HolderOf("all/f"); h != nil {
				t.Errorf("who may not replace the file keeps others from it: %+v", h)
			}
		}
	}, serialized(""))
}

// Two programs that read two files in opposite order: one is refused at once, and
// the other goes on.
func TestClaimsInOppositeOrder(t *testing.T) {
	needsLatchfs(t)
	forEachMount(t, func(t *testing.T, m *Mount) {
		m.WriteFile("a", "0")
		m.WriteFile("b", "0")
		one, two := m.Client(t), m.Client(t)
		one.ReadFile("a")
		two.ReadFile("b")
		wait := one.GoOpen("b", unix.O_RDONLY)
		wait.MustBlock(t)
		if _, err := two.TryOpen("a", unix.O_RDONLY); !errors.Is(err, syscall.EDEADLK) {
			t.Errorf("the second: %v, want EDEADLK", err)
		}
		wait.MustBlock(t)
		two.Kill()
		one.MustClose(int(wait.OK().N))
		one.Kill()
	}, serialized(""))
}

// A waiting reader gives up after the policy's time.
func TestReaderTimesOut(t *testing.T) {
	needsLatchfs(t)
	forEachMount(t, func(t *testing.T, m *Mount) {
		m.WriteFile("f", "0")
		claimant, other := m.Client(t), m.Client(t)
		claimant.ReadFile("f")
		if _, err := other.TryOpen("f", unix.O_RDONLY); !errors.Is(err, syscall.EBUSY) {
			t.Errorf("%v, want EBUSY", err)
		}
		if why := other.ReadFile(".locks/why"); !strings.Contains(why, "read") || !strings.Contains(why, fmt.Sprint(claimant.PID)) {
			t.Errorf("why: %s", why)
		}
		claimant.Kill()
	}, withPolicy("[defaults]\nlost-update = \"serialize\"\nwait = \"300ms\"\n"))
}
