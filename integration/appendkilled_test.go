package integration

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
)

// A program that is killed in the middle of a line that it appends in pieces takes
// what there is of the line with it.
func TestKilledAppender(t *testing.T) {
	needsLatchfs(t)
	const script = `
import os, sys, time
fd = os.open(sys.argv[1], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
os.write(fd, b"whole\n")
for i in range(100):
    os.write(fd, b"x" * 4096)
    if i == int(sys.argv[2]):
        print("ready", flush=True)
    time.sleep(0.0002)
    if i == int(sys.argv[3]):
        time.sleep(0.4)
time.sleep(600) # the signal comes before the end of the line, however late
`
	forEachMount(t, func(t *testing.T, m *Mount) {
		for n := range repeat(8, 40) {
			name := fmt.Sprint("f", n)
			m.WriteFile(name, "old\n")
			pause := -1
			if n%2 == 1 { // so long that the piece shows
				pause = 10
			}
			p := m.LaunchPython(t, script, name, fmt.Sprint(5+n*2), fmt.Sprint(pause))
			p.AwaitLine("ready")
			p.Signal(syscall.SIGKILL)
			if o := p.Wait(); o.Signal != syscall.SIGKILL {
				t.Fatalf("ended with %d: %s", o.Code, o.Stderr)
			}
			if got := m.ReadFile(name); got != "old\nwhole\n" {
				t.Errorf("%s: the file holds %d bytes, and ends in %.20q", name, len(got), got[strings.LastIndexByte(got, '\n')+1:])
			}
			if len(m.kept(name)) != 1 {
				t.Errorf("%s: bytes were kept %d times", name, len(m.kept(name)))
			}
		}
		// So it is of a program that computes for long between two pieces.
		m.LaunchPython(t, `import os, signal, sys, time
fd = os.open("slow", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
os.write(fd, b"whole\nx"); time.sleep(0.3)
os.write(fd, b"y"); end = time.monotonic() + 2.5
while time.monotonic() < end: pass
os.write(fd, b"z"); os.kill(os.getpid(), signal.SIGKILL)`).Wait()
		if got := m.ReadFile("slow"); got != "whole\n" {
			t.Errorf("slow holds %q", got)
		}
		// What was synced, and what is no text, stays.
		for name, write := range map[string]string{"synced": `os.write(fd, b"row"); os.fsync(fd)`, "binary": `os.write(fd, b"r\0w"); time.sleep(0.3)`} {
			p := m.LaunchPython(t, `import os, signal, sys, time
fd = os.open(sys.argv[1], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
`+write+`
os.kill(os.getpid(), signal.SIGKILL)`, name)
			p.Wait()
			if got := m.ReadFile(name); len(got) != 3 {
				t.Errorf("%s holds %q", name, got)
			}
		}
		// As the policy may want it, and after a polite request, it stays.
		for name, sig := range map[string]syscall.Signal{"take": syscall.SIGKILL, "asked": syscall.SIGTERM} {
			p := m.LaunchPython(t, script, name, "20", "20")
			p.AwaitLine("ready")
			p.Signal(sig)
			p.Wait()
			if got := m.ReadFile(name); len(got) < 6+4096 {
				t.Errorf("%s holds %d bytes", name, len(got))
			}
		}
	}, withPolicy("[[rule]]\nglob = \"take\"\non-kill = \"commit\"\n"))
}
