package integration

import (
	"fmt"
	"testing"
)

// A shell closes the descriptor that it has opened, and goes on with a copy of it
// (dup2(2)): that close ends nothing, however often the file was replaced while the
// open waited. So nobody ever finds the file empty.
func TestRedirectionsThatWaited(t *testing.T) {
	alongside(t)
	needsLatchfs(t)
	forEachMount(t, func(t *testing.T, m *Mount) {
		const writers = 24 // more than there are inode numbers that a node is remembered by
		for round := range repeat(1, 100) {
			name := fmt.Sprint("f", round)
			m.WriteFile(name, "old\n")
			var all []*Proc
			for range writers {
				all = append(all, m.LaunchBash(t, `echo read 0; read line; echo new > "$1"`, name))
			}
			inStep(t, 1, all)
			commits := m.EventsOf("commit", name)
			for _, e := range commits {
				if e.Bytes == 0 {
					t.Errorf("process %d has published an empty file", e.PID)
				}
			}
			if len(commits) != writers+1 {
				t.Errorf("%d commits", len(commits))
			}
			if t.Failed() {
				return
			}
		}
	}, withPolicy("[defaults]\nlost-update = \"off\"\n"))
}

// inStep runs programs that each print "read" and a number when they are ready for a
// step, and go on for every line that they are sent: so all of them have read the same.
func inStep(t *testing.T, steps int, all []*Proc) {
	t.Helper()
	for step := range steps {
		for _, p := range all {
			p.AwaitLine(fmt.Sprintf("read %d", step))
		}
		for _, p := range all {
			p.Send("go")
		}
	}
	for i, p := range all {
		if o := p.Wait(); o.Code != 0 {
			t.Errorf("process %d ended with %d: %s", i, o.Code, o.Stderr)
		}
	}
}
