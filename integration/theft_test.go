package integration

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"latchfs/integration/internal/wire"
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

// The owner of a file takes the lock away from a program that is writing it. The program hears
// of that from fsync already, and at its close; .locks/why says who it was.
func TestVictimOfAnActiveTheftIsTold(t *testing.T) {
	alongside(t)
	strangerMounts(t, func(t *testing.T, m *Mount) {
		alice, bob := m.ClientAs(t, ordinaryUID), m.ClientAs(t, otherUID)
		alice.OK(wire.Request{Op: "chmod", Path: m.Path("alice/f"), Mode: 0o666})
		fd := bob.Open("alice/f", unix.O_RDWR)
		bob.Write(fd, "bob")
		sync := wire.Request{Op: "fsync", FD: fd}
		bob.OK(sync)
		if out, err := m.runAs(t, ordinaryUID, bench.binary, "steal", "--force", m.Path("alice/f")); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		if _, err := bob.Do(sync); err != syscall.ESTALE {
			t.Errorf("the fsync of the victim: %v", err)
		}
		for _, op := range []string{"fsync alice/f", "took the lock away"} {
			if why := bob.ReadFile(".locks/why"); !strings.Contains(why, op) {
				t.Errorf("the victim is not told %q:\n%s", op, why)
			}
		}
		change(t, alice)
		if err := bob.Close(fd); err != syscall.ESTALE {
			t.Errorf("the close of the victim: %v", err)
		}
		if got := m.ReadFile("alice/f"); strings.Contains(got, "bob") {
			t.Errorf("the file holds %q", got)
		}
	})
}

// An open through a descriptor has its lock, and waits until those have closed the file who have
// it open. It is shown as long as it waits; and if its lock is stolen it waits on with another.
func TestWaitForReadersIsShown(t *testing.T) {
	alongside(t)
	strangerMounts(t, func(t *testing.T, m *Mount) {
		alice, bob := m.ClientAs(t, ordinaryUID), m.ClientAs(t, otherUID)
		alice.OK(wire.Request{Op: "chmod", Path: m.Path("alice/f"), Mode: 0o666})
		path := bob.Open("alice/f", unix.O_PATH)
		reads := alice.Open("alice/f", unix.O_RDONLY)
		opens := bob.Go(wire.Request{Op: "open", Path: fmt.Sprintf("/proc/self/fd/%d", path), Flags: unix.O_RDWR})
		for _, when := range []string{"at first", "after a theft"} {
			eventually(t, "the open is shown to wait, "+when, func() bool { return m.waits(bob.PID) && m.LockStatus("alice/f").Holder.PID == bob.PID })
			if out, err := m.runAs(t, ordinaryUID, bench.binary, "steal", "--force", m.Path("alice/f")); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
		}
		alice.MustClose(reads)
		fd := int(opens.OK().N)
		eventually(t, "the open is not shown any more", func() bool { return !m.waits(bob.PID) })
		bob.Write(fd, "bob\n")
		bob.MustClose(fd)
		if got := m.ReadFile("alice/f"); got != "bob\n" {
			t.Errorf("the file holds %q", got)
		}
	})
}
