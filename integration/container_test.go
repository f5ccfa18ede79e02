package integration

import (
	"strings"
	"testing"
)

// inContainer carries out a script in pid and mount namespaces of its own, in which it is the
// first process, as in a container.
func (m *Mount) inContainer(t *testing.T, script string) Outcome {
	t.Helper()
	argv := []string{"--pid", "--fork", "--mount-proc", "--kill-child"}
	if m.UID != 0 {
		argv = append(argv, "--user", "--map-root-user")
	}
	return m.Run(t, "unshare", append(argv, "bash", "-c", script, "container", bench.binary)...)
}

// A command that runs in a container means the processes of the container: a lock that a
// script takes there is the script's, and ends with it, and so does its label. The first
// process of the container is not taken for the machine's.
func TestCommandsInAContainerMeanItsProcesses(t *testing.T) {
	needsLatchfs(t)
	requireTool(t, "unshare")
	forEachMount(t, func(t *testing.T, m *Mount) {
		m.WriteFile("f", "old\n")
		for who, script := range map[string]string{
			"the first process": `%; true`,
			"another process":   `bash -c 'L=$1; %; true' inner "$1"; true`,
		} {
			lines := `L=$1; $L acquire --wait 0s f && $L list --mine && echo new > f && $L label boxed && echo x > made`
			o := m.inContainer(t, strings.ReplaceAll(script, "%", lines))
			if o.Code != 0 || o.Stderr != "" || !strings.Contains(o.Stdout, "bash[") {
				t.Errorf("%s: %+v", who, o)
			}
			eventually(t, "the lock of "+who+" ends with it", func() bool { return !m.LockStatus("f").Locked })
			if events := m.EventsOf("commit", "made"); len(events) == 0 || events[len(events)-1].Actor != "boxed" {
				t.Errorf("%s: made was written by %+v", who, events)
			}
		}
		m.WriteFile("outside", "x")
		if events := m.EventsOf("commit", "outside"); len(events) != 1 || events[0].Actor != "" {
			t.Errorf("outside was written by %+v", events)
		}
	})
}
