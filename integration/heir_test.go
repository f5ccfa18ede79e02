package integration

import (
	"strings"
	"testing"
)

// A writer is killed, and leaves its descriptor to a child. What the child writes does not
// become the file, and the child's close says so; that of a child which writes nothing does not.
func TestHeirOfAKilledWriterIsTold(t *testing.T) {
	if *plain {
		t.Skip("about closes that commit")
	}
	const script = `
import os, signal, sys
name, writes, sig = sys.argv[1], sys.argv[2] == "writes", int(sys.argv[3])
pid = os.fork()
if pid == 0:
    fd = os.open(name, os.O_WRONLY | os.O_TRUNC)
    os.write(fd, b"dead ")
    if os.fork() == 0:
        sys.stdin.readline()
        if writes: os.write(fd, b"heir")
        try:
            os.close(fd)
            print("closed", flush=True)
        except OSError:
            print("refused", flush=True)
        os._exit(0)
    os.kill(os.getpid(), sig)
    signal.pause()
os.waitpid(pid, 0)
print("dead", flush=True)
`
	forEachMount(t, func(t *testing.T, m *Mount) {
		for _, sig := range []string{"9", "15"} {
			for how, want := range map[string]string{"writes": "refused", "waits": "closed"} {
				m.WriteFile("f", "old")
				p := m.LaunchPython(t, script, "f", how, sig)
				p.AwaitLine("dead")
				p.Send("go on")
				eventually(t, "the heir's close", func() bool { return strings.Count(p.Stdout(), "\n") == 2 })
				if got := strings.Fields(p.Stdout())[1]; got != want {
					t.Errorf("signal %s: the heir who %s is told that its close is %q", sig, how, got)
				}
				if got := m.ReadFile("f"); got != "old" {
					t.Errorf("the file holds %q", got)
				}
			}
		}
	})
}
