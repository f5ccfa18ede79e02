package integration

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// A program that is killed in the middle of a line that it appends in pieces takes
// what there is of the line with it.
func TestKilledAppender(t *testing.T) {
	inTestAll(t)
	alongside(t)
	needsLatchfs(t)
	const script = `
import os, sys, time
fd = os.open(sys.argv[1], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
os.write(fd, b"whole\n")
for i in range(100):
    os.write(fd, b"x" * 4096)
    if i == int(sys.argv[2]):
        print("ready", flush=True)
    if i == int(sys.argv[3]):
        print("paused", flush=True)
        sys.stdin.readline()
time.sleep(600) # the signal comes before the end of the line, however late
`
	forEachMount(t, func(t *testing.T, m *Mount) {
		shows := func(name string, bytes int64) {
			t.Helper()
			eventually(t, "the piece of "+name, func() bool {
				st, err := os.Stat(filepath.Join(m.Data, name))
				return err == nil && st.Size() >= bytes
			})
		}
		for n := range repeat(2, 40) {
			name := fmt.Sprint("f", n)
			m.WriteFile(name, "old\n")
			pause := -1
			if n%2 == 1 { // until the piece shows
				pause = 10
			}
			p := m.LaunchPython(t, script, name, fmt.Sprint(11+n*2), fmt.Sprint(pause))
			if pause >= 0 {
				p.AwaitLine("paused")
				shows(name, int64(len("old\nwhole\nx")))
				p.Send("")
			}
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
		for name, write := range map[string]string{"synced": `os.write(fd, b"row"); os.fsync(fd)`, "binary": `os.write(fd, b"r\0w")`} {
			p := m.LaunchPython(t, `import os, signal, sys
fd = os.open(sys.argv[1], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
`+write+`
sys.stdin.readline()
os.kill(os.getpid(), signal.SIGKILL)`, name)
			shows(name, 3)
			p.Send("")
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

// What is in the file of a killed program's line is taken out between the records of
// others, who lose nothing and go on, and is kept.
func TestKilledAppenderBetweenOthers(t *testing.T) {
	needsLatchfs(t)
	const worker = `
import os, sys
fd = os.open(sys.argv[1], os.O_WRONLY | os.O_APPEND)
for line in sys.stdin:
    os.write(fd, line.strip().replace(".", "\n").encode())
    print("wrote", flush=True)
`
	forEachMount(t, func(t *testing.T, m *Mount) {
		m.WriteFile("f", "old\n")
		var workers []*Proc
		for range 4 {
			workers = append(workers, m.LaunchPython(t, worker, "f"))
		}
		said := make([]int, len(workers))
		want := "old\n"
		write := func(n int, text string) {
			t.Helper()
			workers[n].Send(text)
			said[n]++
			want += strings.ReplaceAll(text, ".", "\n")
			eventually(t, "the record shows", func() bool {
				return strings.Count(workers[n].Stdout(), "wrote") == said[n] && m.ReadFile("f") == want
			})
		}
		kill := func(n int, parts ...string) {
			t.Helper()
			workers[n].Signal(syscall.SIGKILL)
			workers[n].Wait()
			for _, part := range parts {
				before, after, _ := strings.Cut(want, part)
				want = before + after
			}
			if got := m.ReadFile("f"); got != want {
				t.Errorf("after the end of the %d. the file holds %q, want %q", n+1, got, want)
			}
		}
		before := m.Bash(t, "stat -c %i f").Stdout
		write(0, "first.")
		write(0, "half-of-first")
		write(1, "half-of-second")
		write(2, "third.")
		write(0, "more-of-first")
		write(1, "more-of-second")
		write(3, "fourth.")
		kill(0, "half-of-first", "more-of-first")
		write(2, "goes.on.")
		write(1, "end-of-second")
		kill(1, "half-of-second", "more-of-second", "end-of-second")
		write(2, "half-of-third")
		write(3, "last.")
		write(2, "finished.")
		write(3, "not-finished")
		write(2, "all.")
		kill(2)
		kill(3, "not-finished")
		if after := m.Bash(t, "stat -c %i f").Stdout; before != after {
			t.Errorf("the file's inode was %s and is %s", before, after)
		}
		var kept []string
		for _, id := range m.kept("f") {
			kept = append(kept, m.Locks("rejected/"+id+"/content"))
		}
		slices.Sort(kept)
		if want := []string{"half-of-firstmore-of-first", "half-of-secondmore-of-secondend-of-second", "not-finished"}; !slices.Equal(kept, want) {
			t.Errorf("kept are %q, want %q", kept, want)
		}
	})
}
