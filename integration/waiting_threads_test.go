package integration

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// A thread waits to remove a file while other threads of its process start programs. The end
// of each is told by a signal that any of the threads may take, and that nobody handles: on a
// plain directory no call notices it, and here the wait goes on.
func TestOthersChildrenInterruptNobody(t *testing.T) {
	needsLatchfs(t)
	const script = `
import os, subprocess, threading
done = threading.Event()
def starts():
    while not done.is_set():
        subprocess.run(["true"])
        os.write(1, b"ended\n")
threads = [threading.Thread(target=starts) for _ in range(3)]
for t in threads: t.start()
try: os.unlink("f")
finally: done.set()
`
	forEachMount(t, func(t *testing.T, m *Mount) {
		for range 10 {
			m.WriteFile("f", "old")
			holder := m.Client(t)
			fd := holder.Open("f", unix.O_RDWR)
			p := m.LaunchPython(t, script)
			p.MustWait()
			ended := func() int { return strings.Count(p.Stdout(), "ended") }
			enough := ended() + 20
			eventually(t, "20 programs have ended", func() bool {
				select {
				case <-p.done:
					return true
				default:
					return ended() >= enough
				}
			})
			holder.MustClose(fd)
			if o := p.Wait(); o.Code != 0 {
				t.Fatalf("the one who waits: %s", o.Stderr)
			}
		}
	})
}

// A program can be stopped, and goes on later, while one of its threads waits and the other
// takes the signal.
func TestProgramStopsWhileAThreadWaits(t *testing.T) {
	needsLatchfs(t)
	const script = `
import os, threading
t = threading.Thread(target=lambda: os.open("f", os.O_RDWR))
t.start(); t.join()
`
	forEachMount(t, func(t *testing.T, m *Mount) {
		m.WriteFile("f", "old")
		holder := m.Client(t)
		fd := holder.Open("f", unix.O_RDWR)
		for _, sig := range []syscall.Signal{syscall.SIGSTOP, syscall.SIGTSTP} {
			p := m.LaunchPython(t, script)
			p.MustWait()
			p.Signal(sig)
			eventually(t, "all threads have stopped", func() bool {
				threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", p.PID()))
				stopped := 0
				for _, file := range threads {
					if b, _ := os.ReadFile(file); strings.Contains(string(b), ") T ") {
						stopped++
					}
				}
				return stopped == 2
			})
			p.Signal(syscall.SIGCONT)
			p.MustWait()
			p.Signal(syscall.SIGKILL)
			p.Wait()
		}
		holder.MustClose(fd)
	})
}
