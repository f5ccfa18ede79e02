package integration

import "testing"

// A directory above what a transaction makes gets another name meanwhile, from somebody
// else. What was made is gone when the daemon dies before the end, and its makers may
// remove it themselves.
func TestTransactionInAMovedDirectory(t *testing.T) {
	needsLatchfs(t)
	forEachMount(t, func(t *testing.T, m *Mount) {
		const work = `mkdir d/e d/e/in; ln -s q d/m; echo made; read`
		list := func() string { return m.Bash(t, `find d d2 2>/dev/null | sort | tr '\n' ' '`).Stdout }

		m.Bash(t, "mkdir d; echo 1 > d/f")
		p := m.Guard(t, "--txn", "--name", "t", "--", "bash", "-c", work+"; cd d2; rm m; rmdir e/in e; echo 2 > f")
		p.AwaitLine("made")
		m.Bash(t, "mv d d2")
		p.Send("")
		p.OK()
		if got := list(); got != "d2 d2/f " {
			t.Errorf("when the members have removed it there is %q", got)
		}
		m.holds(t, "d2/f", "2\n")

		m.Bash(t, "mv d2 d")
		p = m.Guard(t, "--txn", "--name", "t", "--", "bash", "-c", work)
		p.AwaitLine("made")
		m.Bash(t, "mv d d2")
		m.Crash(t)
		p.Kill()
		p.Wait()
		m.Start(t)
		if got := list(); got != "d2 d2/f " {
			t.Errorf("after the death of the daemon there is %q", got)
		}
	})
}
