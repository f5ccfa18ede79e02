package integration

import (
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

var shortLeases = `
[[rule]]
glob = ["taken-*"]
ttl = "` + firmLease.String() + `"
on-stale = "steal"
wait = "20s"

[[rule]]
glob = ["leased"]
ttl = "` + waitingLease.String() + `"
wait = "20s"

[[rule]]
glob = ["unleased"]
ttl = "0s"
`

// waitingLease is long enough for a process to come from one file to the queue of another.
const waitingLease = 3 * time.Second

// A writer that waits in its open for a holder who hangs gets the file, and no
// error, when the lease has expired; the old holder's close answers ESTALE.
func TestWaitingOpenTakesOver(t *testing.T) {
	alongside(t)
	needsLatchfs(t)
	forEachMount(t, func(t *testing.T, m *Mount) {
		const files = 4
		names := []string{"taken-0", "taken-1", "taken-2", "taken-3"}
		hung, fds := m.Client(t), [files]int{}
		for i, name := range names {
			m.WriteFile(name, "old\n")
			fds[i] = hung.Open(name, unix.O_RDWR)
			hung.Write(fds[i], "late")
		}
		var next [files]*Client
		var opens [files]*Call
		for i, name := range names {
			next[i] = m.Client(t)
			opens[i] = next[i].GoOpen(name, unix.O_WRONLY|unix.O_TRUNC)
			opens[i].MustBlock(t)
		}
		hung.Signal(syscall.SIGSTOP)
		for i, name := range names {
			fd := int(opens[i].OK().N)
			next[i].Write(fd, "new\n")
			next[i].MustClose(fd)
			if got := m.ReadFile(name); got != "new\n" {
				t.Errorf("%s holds %q", name, got)
			}
		}
		hung.Signal(syscall.SIGCONT)
		for i, name := range names {
			if err := hung.Close(fds[i]); err != syscall.ESTALE {
				t.Errorf("the close of the old holder of %s: %v", name, err)
			}
			if got := m.ReadFile(name); got != "new\n" {
				t.Errorf("%s holds %q after that", name, got)
			}
		}
	}, withPolicy(shortLeases))
}

// Who waits in the queue of another file is not hung.
func TestWaitingHolderIsNotStale(t *testing.T) {
	alongside(t)
	needsLatchfs(t)
	forEachMount(t, func(t *testing.T, m *Mount) {
		m.WriteFile("leased", "a")
		m.WriteFile("unleased", "b")
		other, holder := m.Client(t), m.Client(t)
		fd := other.Open("unleased", unix.O_RDWR)
		holder.Open("leased", unix.O_RDWR)
		waits := holder.GoOpen("unleased", unix.O_RDWR)
		waits.MustBlock(t)
		// Nothing can be awaited that is not to happen: five thirds of the lease.
		for end := time.Now().Add(5 * waitingLease / 3); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
			if m.LockStatus("leased").Stale {
				t.Fatal("who waits for another file is taken for hung")
			}
		}
		other.MustClose(fd)
		waits.OK()
	}, withPolicy(shortLeases))
}
