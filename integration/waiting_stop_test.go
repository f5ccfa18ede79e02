package integration

import (
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// A program is stopped (Ctrl-Z) while it waits to rename a file, to remove it and the like, and
// goes on later. It does what it was told to, as on a plain directory, and knows nothing of a
// signal: no program tries such a call again.
func TestStopEndsNoWaitOfARename(t *testing.T) {
	needsLatchfs(t)
	const (
		alone    = "import os\n"
		threaded = alone + "import threading, time\nthreading.Thread(target=time.sleep, args=(3600,), daemon=True).start()\n"
	)
	inShortOnRoot(t, func(t *testing.T, m *Mount) {
		for _, program := range []string{alone, threaded} {
			for _, call := range []string{
				`os.rename("t", "f")`, `os.rename("f", "g")`, `os.unlink("f")`, `os.chmod("f", 0o600)`, `os.link("f", "g")`, `os.truncate("f", 1)`,
			} {
				m.Bash(t, "rm -f f g t; echo old > f; echo new > t")
				holder := m.Client(t)
				fd := holder.Open("f", unix.O_RDWR)
				p := m.LaunchPython(t, program+call)
				p.MustWait()
				p.Signal(syscall.SIGTSTP)
				eventually(t, "the kernel has told of the stop", func() bool {
					state := procState(p.PID())
					return state == "D" || state == "T" // it waits for the answer now, or has got it
				})
				holder.MustClose(fd)
				holder.Quit()
				eventually(t, "the program has stopped", func() bool { return procState(p.PID()) == "T" })
				p.Signal(syscall.SIGCONT)
				if o := p.Wait(); o.Code != 0 {
					t.Errorf("%s: %s", call, o.Stderr)
				}
			}
		}
	})
}
