package integration

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// The audit trail tells of the directories and links that a transaction has made and
// removed, in the order in which that was done and in the name of those who did it,
// though they have ended by then; and undo takes it back.
func TestTransactionIsInTheTrail(t *testing.T) {
	needsLatchfs(t)
	forEachMount(t, func(t *testing.T, m *Mount) {
		m.Bash(t, `mkdir -m 750 old; mkdir -p t/in; ln -s /nowhere link; echo one > f; echo old > written; touch lock`)
		const show = `find . -name .locks -prune -o -name .latchfs -prune -o -printf '%p %y %m %l\n' | sort`
		want, before := m.Bash(t, show).Stdout, len(m.Events())
		since := time.Now().Format(time.RFC3339Nano)
		work := `mkdir d; ln -s d/x l; rmdir old; rm link f; rm -r t; mkdir tmp; rmdir tmp; ln -s a b; rm b; sed -i s/old/new/ written; sh -c "echo n > n"`
		t.Setenv("LATCHFS_ACTOR", "agent-7")
		mustEndWith(t, m.Guard(t, "--txn", "lock", "--", "sh", "-c", work+"; exit 1").Wait(), 1)
		if told := stagedEvents(m, before); len(told) > 0 {
			t.Errorf("of a transaction that did not happen the trail tells %q", told)
		}
		mustEndWith(t, m.Guard(t, "--txn", "lock", "--", "sh", "-c", work).Wait(), 0)
		m.AwaitEvent("txn_committed", "")
		told := stagedEvents(m, before)
		if want := []string{
			"make_dir d mkdir agent-7", "make_link l ln agent-7", "delete_dir old rmdir agent-7", "delete_link link rm agent-7",
			"delete f rm agent-7", "delete_dir t/in rm agent-7", "delete_dir t rm agent-7",
		}; !slices.Equal(told, want) {
			t.Errorf("the trail tells\n%s\nwant\n%s", strings.Join(told, "\n"), strings.Join(want, "\n"))
		}
		m.latchfs(t, 0, "undo", "--actor", "agent-7", "--since", since)
		m.Bash(t, "rmdir d") // directories that were made stay
		if got := m.Bash(t, show).Stdout; got != want {
			t.Errorf("after undo there is\n%swant\n%s", got, want)
		}
		m.holds(t, "written", "old\n")
	})
}

// stagedEvents are what the trail tells of names since its line before.
func stagedEvents(m *Mount, before int) []string {
	var told []string
	for _, e := range m.Events()[before:] {
		if strings.HasPrefix(e.Event, "make_") || strings.HasPrefix(e.Event, "delete") {
			told = append(told, strings.Join([]string{e.Event, e.Path, e.Program, e.Actor}, " "))
		}
	}
	return told
}

// A claim whose directory is removed in a transaction is over when that happens, though
// its owner lives on; and a directory made in one is a claim.
func TestClaimDirectoryInTransaction(t *testing.T) {
	needsLatchfs(t)
	forEachMount(t, func(t *testing.T, m *Mount) {
		m.Bash(t, "mkdir locks; touch lock")
		p := m.Launch(t, "bash", "-c", `
mkdir locks/x.lock; echo claimed; read
"$1" guard --txn lock -- rmdir locks/x.lock; echo given back; read
"$1" guard --txn lock -- mkdir locks/x.lock; echo claimed again; read
`, "bash", bench.binary)
		save := func() string {
			return strings.TrimSpace(m.Bash(t, `echo 1 > x`).Stderr)
		}
		p.AwaitLine("claimed")
		if got := save(); !strings.Contains(got, busyNow) {
			t.Errorf("another program writes x: %q", got)
		}
		p.Send("")
		p.AwaitLine("given back")
		if got := save(); got != "" {
			t.Errorf("when the claim is over another program writes x: %q", got)
		}
		p.Send("")
		p.AwaitLine("claimed again")
		if got := save(); !strings.Contains(got, busyNow) {
			t.Errorf("when it is claimed again another program writes x: %q", got)
		}
		p.Send("")
		p.OK()
	}, withPolicy(claimPolicy), leftLocks())
}

// Who appends to a file that a transaction has removed or renamed waits for its end, and
// then appends to the file that has the name, or to a new one.
func TestAppendAfterTransaction(t *testing.T) {
	needsLatchfs(t)
	forEachMount(t, func(t *testing.T, m *Mount) {
		for work, want := range map[string]string{
			"rm f":               "two\n",
			"mv f g":             "two\n",
			"rm f; echo new > f": "new\ntwo\n",
			"echo new > f":       "new\ntwo\n",
			"mv f g; mv g f":     "one\ntwo\n",
		} {
			m.Bash(t, "rm -f f g; echo one > f")
			p := m.Guard(t, "--txn", "--name", "t", "--", "bash", "-c", work+"; echo done; read")
			p.AwaitLine("done")
			w := m.LaunchBash(t, "echo two >> f")
			m.AwaitWaiters(t, "f", 1)
			p.Send("")
			p.OK()
			w.OK()
			m.holds(t, "f", want)
		}
	})
}

// A live file that a transaction renames to an ordinary name is no change around the mount,
// and the trail does not tell of a directory as removed that has to stay.
func TestTransactionWithLiveFilesInTheTrail(t *testing.T) {
	needsLatchfs(t)
	forEachMount(t, func(t *testing.T, m *Mount) {
		m.Bash(t, "echo 1 > a.db; echo 2 > x; cat x; mkdir d e")
		mustEndWith(t, m.Guard(t, "--txn", "--name", "t", "--", "mv", "a.db", "x").Wait(), 0)
		m.Bash(t, "cat x; echo 3 >> x; cat x; echo 4 > x")
		m.holds(t, "x", "4\n")
		if told := m.EventsOf("bypass", "x"); len(told) > 0 {
			t.Errorf("told as a change around the mount: %+v", told)
		}

		p := m.Guard(t, "--txn", "--name", "t", "--", "bash", "-c", "rmdir d e; echo removed; read")
		p.AwaitLine("removed")
		m.Bash(t, "echo 1 > d/theirs.db")
		p.Send("")
		p.OK()
		m.holds(t, "d/theirs.db", "1\n")
		m.AwaitEvent("delete_dir", "e")
		if told := m.EventsOf("delete_dir", "d"); len(told) > 0 {
			t.Errorf("told as removed: %+v", told)
		}
	})
}
