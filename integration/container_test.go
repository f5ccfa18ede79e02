package integration

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
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

// inMountNamespace starts a script in a mount namespace of its own; see startWaiting.
func inMountNamespace(t *testing.T, propagation, script string, args ...string) (pid int, stop func()) {
	t.Helper()
	return startWaiting(t, exec.Command("unshare", append([]string{"--mount", "--propagation", propagation, "sh", "-c", script, "container"}, args...)...))
}

// startWaiting starts a program that reads its standard input to the end, and returns when that
// has written a line. stop ends its standard input and waits for its end.
func startWaiting(t *testing.T, cmd *exec.Cmd) (pid int, stop func()) {
	t.Helper()
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	stop = sync.OnceFunc(func() {
		in.Close()
		_ = cmd.Wait() // nobody asks how it has ended
	})
	t.Cleanup(stop)
	if _, err := out.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	return cmd.Process.Pid, stop
}

// Where a container gets the mounts of the host (rslave), its programs keep a mount busy, and
// the one that does is named.
func TestBusyInAContainer(t *testing.T) {
	needsRoot(t)
	requireTool(t, "unshare")
	inTest(t)
	data, _ := newDirs(t)
	above := filepath.Dir(data)
	for _, kind := range []uintptr{unix.MS_BIND, unix.MS_SHARED} {
		if err := unix.Mount(above, above, "", kind, ""); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { unix.Unmount(above, unix.MNT_DETACH) })
	if o := latchfs(t, "mount", data); o.Code != 0 {
		t.Fatalf("mount: %+v", o)
	}
	pid, stop := inMountNamespace(t, "slave", `echo x > "$1/f" && exec 9< "$1/f" && echo && exec cat`, data)
	if o := latchfs(t, "umount", data); o.Code == 0 || !strings.Contains(o.Stderr, fmt.Sprintf("is in use by cat (pid %d)", pid)) {
		t.Errorf("umount: %+v", o)
	}
	stop()
	if o := latchfs(t, "umount", data); o.Code != 0 {
		t.Errorf("umount when it has gone: %+v", o)
	}
}
