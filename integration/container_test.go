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

// A container that was given a single file follows saves in place while nobody has the file
// open. If somebody has, it keeps its version, and what it overwrites then is refused; what it
// appends is not lost. An open that cannot be served beside another says what to do.
func TestSingleFileInAContainer(t *testing.T) {
	needsLatchfs(t)
	needsRoot(t)
	requireTool(t, "unshare")
	m := mount(t)
	m.WriteFile("f", "one\n")
	box := m.Launch(t, "unshare", "--mount", "bash", "-c", `cd "$1" && touch f && mount --bind "$2" f || exit
		while IFS= read -r line; do eval "$line"; echo "= $?"; done`, "container", t.TempDir(), m.Path("f"))
	box.do(`true`, 0)
	m.WriteFile("f", "two\n")
	box.do(`[ "$(cat f)" = two ]`, 0)
	box.do(`exec 3< f`, 0)
	box.do(`: <> f`, 1)
	if why := box.do(`cat `+m.Path(".locks/why"), 0); !strings.Contains(why, "give a container the directory, not the file alone") {
		t.Errorf("the container is not told what to do: %s", why)
	}
	m.WriteFile("f", "three\n")
	box.do(`exec 3<&-; [ "$(cat f)" = two ]`, 0)
	box.do(`echo lost > f`, 1)
	box.do(`echo four >> f; [ "$(cat f)" = two ]`, 0)
	if got := m.ReadFile("f"); got != "three\nfour\n" {
		t.Errorf("f holds %q", got)
	}
}
