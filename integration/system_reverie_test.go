package integration

import (
	"slices"
	"strings"
	"syscall"
	"testing"
)

// reverie gives a shell in the mount's root the program as $R, and a session of its own.
func reverie(t testing.TB, m *Mount, session string) *Proc {
	t.Helper()
	programs, err := systemPrograms()
	if err != nil {
		t.Fatal(err)
	}
	sh := m.shell(t)
	sh.do(`R="bash `+programs+`/reverie.sh"; export SESSION=`+session, 0)
	return sh
}

// hastyReclaim is reverie's claim for those who cannot wait for five minutes.
const hastyReclaim = `
[[claim]]
glob = "/locks/M6/*.lock"
format = "owner-dir"
covers = "file"
root = "locks"
ttl = "200ms"
`

// Every number of reverie's requirements, with programs as its users write them.
func TestSystemReverie(t *testing.T) {
	inTestAll(t)
	needsLatchfs(t)
	forEachMount(t, func(t *testing.T, m *Mount) {
		requireTool(t, "jq")
		cases := []struct {
			number string
			test   func(t *testing.T, m *Mount, mine, other *Proc)
		}{
			{"M1", reverieVerbs}, {"M2", reverieAllOrNothing}, {"M3", reverieGuard}, {"M4", reverieOneLock}, {"M5", reverieRecord},
			{"M6", reverieReclaims}, {"M7", reverieInherits}, {"M8", reverieReleased}, {"M9", reverieMissing},
		}
		m.Mkdir("worktrees")
		m.Mkdir("worktrees/x")
		for _, c := range cases {
			t.Run(c.number, func(t *testing.T) {
				for _, dir := range []string{c.number, c.number + "/sub", "worktrees/x/" + c.number} {
					m.Mkdir(dir)
				}
				for _, file := range []string{"/f", "/g", "/h"} {
					m.WriteFile(c.number+file, "old\n")
				}
				c.test(t, m, reverie(t, m, "mine"), reverie(t, m, "other"))
			})
		}
	}, withArgs("--preset", "reverie"), withPolicy(hastyReclaim))
}

func reverieVerbs(t *testing.T, _ *Mount, mine, other *Proc) {
	for _, sys := range []string{`$R`, `$L`} {
		mine.do(sys+` acquire M1/f M1/g`, 0)
		other.do(sys+` check M1/f`, 1)
		other.do(sys+` check M1/h`, 0)
		other.do(sys+` acquire M1/f`, map[string]int{`$R`: 1, `$L`: 8}[sys])
		if got := other.do(sys+` list`, 0); !strings.Contains(got, "M1/f") || !strings.Contains(got, "M1/g") {
			t.Errorf("%s list says %q", sys, got)
		}
		mine.do(sys+` release M1/f M1/g`, 0)
		other.do(sys+` check M1/f`, 0)
		other.do(sys+` guard M1/f -- true`, 0)
	}
}

func reverieAllOrNothing(_ *testing.T, _ *Mount, mine, other *Proc) {
	for _, sys := range []string{`$R`, `$L`} {
		other.do(sys+` acquire M2/h`, 0)
		mine.do(sys+` acquire M2/f M2/g M2/h`, map[string]int{`$R`: 1, `$L`: 8}[sys])
		other.do(sys+` check M2/f && `+sys+` check M2/g`, 0)
		other.do(sys+` release M2/h`, 0)
	}
}

func reverieGuard(_ *testing.T, _ *Mount, mine, other *Proc) {
	for _, sys := range []string{`$R`, `$L`} {
		mine.do(sys+` guard M3/f -- sh -c 'exit 7'`, 7)
		mine.do(sys+` guard M3/f -- sh -c 'kill -KILL $$'`, 137)
		mine.do(sys+` guard M3/f -- no-such-program`, 127)
		other.do(sys+` check M3/f`, 0)
	}
}

func reverieOneLock(_ *testing.T, _ *Mount, mine, other *Proc) {
	mine.do(`export ROOT=$PWD; (cd M4/sub && $R acquire ../f)`, 0)
	other.do(`$R check M4/f`, 1)
	other.do(`$R check worktrees/x/M4/f`, 1)
	other.do(`$L check worktrees/x/M4/f`, 1) // the claim covers the file in every worktree
	mine.do(`$R release M4/f`, 0)
	mine.do(`(cd M4/sub && $L acquire --for $$ ../f)`, 0)
	other.do(`$L check M4/f`, 1)
	other.do(`$L check worktrees/x/M4/f`, 1)
	mine.do(`$L release --all`, 0)
}

// That locks end with a reboot is tested by TestJudge of package claimfile.
func reverieRecord(t *testing.T, m *Mount, mine, _ *Proc) {
	mine.do(`REASON=refactor $R acquire M5/f`, 0)
	record := decoded(t, m.ReadFile("locks/M5/f.lock/record.json"))
	if mustHave(t, record, "reason", "timestamp"); record["reason"] != "refactor" || m.ReadFile("locks/M5/f.lock/owner") != "mine\n" {
		t.Errorf("the record is %v", record)
	}
	mine.do(`$R release M5/f`, 0)
	mine.do(`$L acquire --operation refactor M5/f`, 0)
	mustHave(t, decoded(t, m.Locks("held/M5/f.lock")), "actor", "intent", "created_at", "pid")
	mine.do(`$L release M5/f`, 0)
}

func reverieReclaims(t *testing.T, m *Mount, mine, other *Proc) {
	// The session of an orphan that has ended.
	mine.do(`(SESSION=gone setsid bash -c 'until [ -e go ]; do sleep 0.01; done; `+`$0 $1 acquire M6/f' $R &) >/dev/null 2>&1; : > go`, 0)
	awaitLog(t, m, "locks/M6/f.lock", "Reclaimed lock of gone: ")
	eventually(t, "the lock is gone", func() bool { return !slices.Contains(m.List("locks/M6"), "f.lock") })
	other.do(`$R acquire M6/f && $R release M6/f`, 0)
	// A coordinator takes the lock of one that hangs.
	holder := m.Guard(t, "--ttl", "100ms", "M6/g", "--", "sh", "-c", "echo ready; cat >/dev/null")
	holder.AwaitLine("ready")
	syscall.Kill(-holder.PID(), syscall.SIGSTOP)
	m.AwaitStale(t, "M6/g")
	other.do(`$L steal --force M6/g && echo taken > M6/g`, 0)
	syscall.Kill(-holder.PID(), syscall.SIGCONT)
	holder.Close()
	holder.Wait()
	// A holder that is asked lets go.
	asked := m.heldGuard(t, "M6/h")
	asked.Signal(syscall.SIGTERM)
	asked.Wait()
	other.do(`$L check M6/h`, 0)
}

func reverieInherits(t *testing.T, m *Mount, mine, other *Proc) {
	for _, sys := range []string{`$R`, `$L`} {
		mine.do(sys+` acquire M7/f`, 0)
		mine.do(`sh -c 'sh -c "echo worker >> M7/f"'`, 0)
		mine.do(sys+` acquire M7/f`, 0)
		other.do(`{ echo stranger > M7/f; } 2>/dev/null`, 1)
		mine.do(sys+` release M7/f`, 0)
	}
	if got := m.ReadFile("M7/f"); got != "old\nworker\nworker\n" {
		t.Errorf("f holds %q", got)
	}
}

func reverieReleased(_ *testing.T, _ *Mount, mine, _ *Proc) {
	mine.do(`$R acquire M8/f && [ -n "$($R list)" ] && $R release M8/f && [ -z "$($R list)" ]`, 0)
	mine.do(`$L acquire M8/f && [ -n "$($L list --mine --for $$)" ] && $L release M8/f && [ -z "$($L list --mine --for $$)" ]`, 0)
}

func reverieMissing(t *testing.T, m *Mount, mine, other *Proc) {
	mine.do(`$L acquire M9/f`, 0)
	other.do(`$L acquire M9/g`, 0)
	waits := m.Guard(t, "--wait", "30s", "M9/h", "--", "true")
	waits.OK()
	mine.Send(`$L acquire --wait 30s M9/g`)
	mine.MustWait()
	if got := other.do(`$L acquire --wait 30s M9/f 2>&1`, 8); !strings.Contains(strings.ToLower(got), "deadlock") {
		t.Errorf("a deadlock is refused with %q", got)
	}
	other.do(`$L release M9/g`, 0)
	mine.AwaitOutput("= 0")
	eventually(t, "the lock", func() bool { return m.LockStatus("M9/g").Holder.PID == mine.PID() })
	mine.Close()
	mine.OK()
}

// What reverie's program loses on a plain directory.
func TestDefectsOfReverie(t *testing.T) {
	needsLatchfs(t)
	forEachMount(t, func(t *testing.T, m *Mount) {
		requireTool(t, "jq")
		defect(t, "two that find a session dead", m, func(t *testing.T, m *Mount) harm {
			s := m.system(t, "d", "reverie.sh")
			m.WriteFile("d/f", "first\n")
			s.bash(t, `mkdir -p ../locks/d/f.lock && echo gone > ../locks/d/f.lock/owner`)
			return reverieHarm(t, s, s.pause(t, "dead", "ROOT="+m.Dir, "append", "f", "A"), "ROOT="+m.Dir)
		})
	}, withArgs("--preset", "reverie"))
}

// reverieHarm lets a second one have the lock, and then the first go on.
func reverieHarm(t *testing.T, s *system, a *Proc, root string) harm {
	t.Helper()
	b := s.start(t, "PAUSE=read", root, "append", "f", "B")
	eventually(t, "the second is at work, or was refused", func() bool { return b.Done() || strings.Contains(b.Stdout(), "at read") })
	first := a.resume()
	var h harm
	if strings.Contains(first.Stdout, "acquired") && strings.Contains(b.Stdout(), "acquired") && !b.Done() {
		h.winners++
	}
	reported := 1
	for _, o := range []Outcome{first, b.resume()} {
		if strings.Contains(o.Stdout, "appended") {
			reported++
		}
	}
	h.lost = reported - strings.Count(s.read("f"), "\n")
	return h
}
