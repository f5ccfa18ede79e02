package integration

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"latchfs/integration/internal/wire"
)

// How a mount ends when an operator or the system ends it: running sessions may
// finish, nothing is committed that was not closed, and neither a process nor a
// mount is left.

// awaitEnd waits for the daemon to end by itself, cleanly and with its mount.
func (m *Mount) awaitEnd(t *testing.T, limit time.Duration) {
	t.Helper()
	select {
	case <-m.exited:
	case <-time.After(limit):
		t.Fatalf("latchfs is still there %v later\n%s", limit, m.log())
	}
	if code := m.daemon.ProcessState.ExitCode(); code != 0 {
		t.Errorf("latchfs ended with %v\n%s", m.daemon.ProcessState, m.log())
	}
	if m.mounted() {
		t.Error("the mount is still there")
	}
}

// terminate asks the daemon to end, and returns when it has understood.
func (m *Mount) terminate(t *testing.T, sig syscall.Signal) {
	t.Helper()
	if err := m.daemon.Process.Signal(sig); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the shutdown begins", func() bool { return strings.Contains(m.log(), "shutting down") })
}

// under is the content of a file around the mount.
func (m *Mount) under(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(m.Data, name))
	if err != nil {
		t.Error(err)
	}
	return string(b)
}

// A mount that was taken away while another mount namespace has a copy of it ends cleanly, too,
// and leaves what is at its place now alone. Who takes it away is told what to end.
func TestShutdownOfACopyElsewhere(t *testing.T) {
	needsLatchfs(t)
	needsRoot(t)
	requireTool(t, "unshare")
	m := mount(t)
	m.WriteFile("f", "kept")
	inMountNamespace(t, "private", "echo; exec cat")
	m.control.Kill() // it works in the mount
	said, err := exec.Command(bench.binary, "umount", "--timeout", "1s", m.Dir).CombinedOutput()
	if advice := fmt.Sprintf("end the container, or the daemon (`kill %d`)", m.daemon.Process.Pid); err == nil || !strings.Contains(string(said), advice) {
		t.Errorf("latchfs umount: %v: %s, want %q", err, said, advice)
	}
	again := latchfs(t, "mount", m.Data, m.Dir)
	if advice := fmt.Sprintf("Its mount is not to be seen here: if a container has a copy of it, end the container, or the daemon (`kill %d`)", m.daemon.Process.Pid); again.Code != 1 || !strings.Contains(again.Stderr, advice) {
		t.Errorf("mounted again: %+v, want %q", again, advice)
	}
	if err := unix.Mount("none", m.Dir, "tmpfs", 0, ""); err != nil {
		t.Fatal(err)
	}
	defer unix.Unmount(m.Dir, unix.MNT_DETACH)
	m.terminate(t, syscall.SIGTERM)
	<-m.exited
	if code := m.daemon.ProcessState.ExitCode(); code != 0 {
		t.Errorf("latchfs ended with %v\n%s", m.daemon.ProcessState, m.log())
	}
	var st unix.Statfs_t
	if err := unix.Statfs(m.Dir, &st); err != nil || st.Type != unix.TMPFS_MAGIC {
		t.Errorf("what was mounted next has gone: %#x, %v", st.Type, err)
	}
	if out, err := exec.Command(bench.binary, "fsck", m.Data).CombinedOutput(); err != nil || !strings.Contains(string(out), "consistent") {
		t.Errorf("fsck: %v\n%s", err, out)
	}
}

// A clean end leaves no record of what is finished in the journal: an earlier binary, which
// may not know them all, can mount next.
func TestShutdownLeavesNothingToAnEarlierBinary(t *testing.T) {
	needsLatchfs(t)
	forEachMount(t, func(t *testing.T, m *Mount) {
		m.Bash(t, `echo 1 > a; ln a b; echo 2 > a; echo 3 >> a; mv a c; echo 4 > n; mkdir d; echo x > d/f; echo y > d/f`)
		m.Stop(t)
		found, err := filepath.Glob(filepath.Join(m.Data, ".latchfs/journal-*"))
		if err != nil || len(found) != 1 {
			t.Fatalf("%v, %v", found, err)
		}
		b, err := os.ReadFile(found[0])
		if err != nil {
			t.Fatal(err)
		}
		if text := string(b); strings.Contains(text, `"intent"`) || !strings.Contains(text, `"close"`) {
			t.Errorf("the journal holds %q", text)
		}
	})
}

// TestShutdownLetsSessionsFinish: a session that is open when SIGTERM comes may
// be finished within the grace, with all that its process needs for that. New ones
// wait meanwhile, and are refused when the last has ended; readers read.
func TestShutdownLetsSessionsFinish(t *testing.T) {
	needsLatchfs(t)
	forEachMount(t, func(t *testing.T, m *Mount) {
		for _, name := range []string{"f", "other", "long", "name"} {
			m.WriteFile(name, name)
		}
		holder, reader := m.Client(t), m.Client(t)
		fd := holder.Open("f", unix.O_WRONLY|unix.O_TRUNC)
		holder.Write(fd, "finished ")
		fresh := holder.Open("fresh", unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL)
		m.awaitStopping(t)
		late := []*Call{
			m.Client(t).GoOpen("other", unix.O_WRONLY),
			m.Client(t).GoOpen("other", unix.O_RDWR|unix.O_TRUNC),
			m.Client(t).GoOpen("new", unix.O_WRONLY|unix.O_CREAT),
			m.Client(t).GoOpen("log.jsonl", unix.O_WRONLY|unix.O_APPEND|unix.O_CREAT),
			m.Client(t).Go(wire.Request{Op: "truncate", Path: m.Path("long"), Len: 1}),
		}
		for _, name := range []string{"other", "new"} { // a signal ends the wait
			doomed := m.Client(t)
			doomed.GoOpen(name, unix.O_WRONLY|unix.O_CREAT).mustBlockInKernel(t)
			doomed.Kill()
		}
		for _, w := range late {
			w.mustBlockInKernel(t)
		}
		if _, err := m.Client(t).TryOpen("other", unix.O_WRONLY|unix.O_NONBLOCK); !errors.Is(err, unix.EBUSY) {
			t.Errorf("an open that does not wait: %v, want EBUSY", err)
		}
		if o := m.Latchfs(t, "guard", "other", "--", "true"); o.Code != 1 || !strings.Contains(o.Stderr, "latchfs on "+m.Dir+" is shutting down; try again in a moment") {
			t.Errorf("guard: %+v", o)
		}
		if got := reader.ReadFile("f"); got != "f" {
			t.Errorf("a reader sees %q", got)
		}
		if !m.Running() {
			t.Fatalf("latchfs did not wait for the session\n%s", m.log())
		}
		holder.Write(fd, "in time")
		also := holder.Open("name", unix.O_WRONLY|unix.O_TRUNC) // its own family may go on
		holder.Write(also, "renamed")
		holder.MustClose(also)
		holder.OK(holder.path2("rename", "name", "moved"))
		holder.MustClose(fd)
		for _, w := range late {
			w.mustBlockInKernel(t)
		}
		holder.MustClose(fresh)
		for _, w := range late {
			if err := w.Err(); !errors.Is(err, unix.EBUSY) {
				t.Errorf("%s %s: %v, want EBUSY", w.Req.Op, w.Req.Path, err)
			}
		}
		m.awaitEnd(t, patience)
		for name, want := range map[string]string{"f": "finished in time", "fresh": "", "moved": "renamed", "other": "other", "long": "long"} {
			if got := m.under(t, name); got != want {
				t.Errorf("%s has %q in the data directory, want %q", name, got, want)
			}
		}
		for _, name := range []string{"new", "log.jsonl"} {
			if _, err := os.Lstat(filepath.Join(m.Data, name)); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("%s: %v", name, err)
			}
		}
	}, withArgs("--grace", "60s"))
}

// awaitStopping is terminate, and returns when new sessions wait; status says so.
func (m *Mount) awaitStopping(t *testing.T) {
	t.Helper()
	m.terminate(t, syscall.SIGTERM)
	eventually(t, "status says that it is shutting down", func() bool {
		return strings.HasPrefix(m.ReadFile(".locks/status"), "latchfs is shutting down") &&
			strings.Contains(m.ReadFile(".locks/status.json"), `"shutting_down": true`)
	})
}

// TestShutdownOwnWait: what is held back waits no longer than it would for a lock.
func TestShutdownOwnWait(t *testing.T) {
	alongside(t)
	needsLatchfs(t)
	forEachMount(t, func(t *testing.T, m *Mount) {
		m.WriteFile("f", "old")
		m.WriteFile("g", "old")
		holder := m.Client(t)
		fd := holder.Open("f", unix.O_WRONLY|unix.O_TRUNC)
		m.awaitStopping(t)
		o := m.Bash(t, `echo new > g; echo $?; echo new > h; echo $?; cat .locks/why`)
		if strings.Count(o.Stdout, "1\n") < 2 || !strings.Contains(o.Stderr, "busy") || !strings.Contains(o.Stdout, "shutting down") {
			t.Errorf("%+v", o)
		}
		holder.MustClose(fd)
		m.awaitEnd(t, patience)
		if got := m.under(t, "g"); got != "old" {
			t.Errorf("g has %q", got)
		}
	}, withArgs("--grace", "60s"), lockTimeout(300*time.Millisecond))
}

// TestShutdownRollsBack: what was not closed when the grace is over is not
// committed, and its bytes are not in the data; new files are not there at all.
func TestShutdownRollsBack(t *testing.T) {
	inTestAll(t)
	alongside(t)
	needsLatchfs(t)
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		t.Run(unix.SignalName(sig), func(t *testing.T) {
			forEachMount(t, func(t *testing.T, m *Mount) { shutdownRollsBack(t, m, sig) },
				withArgs("--grace", "300ms"), leftLocks())
		})
	}
}

func shutdownRollsBack(t *testing.T, m *Mount, sig syscall.Signal) {
	for _, name := range []string{"f", "synced", "linked", "moved"} {
		m.WriteFile(name, "old")
	}
	m.Bash(t, "ln linked twin")
	holder := m.Client(t)
	for _, name := range []string{"f", "linked", "moved"} {
		holder.Write(holder.Open(name, unix.O_WRONLY|unix.O_TRUNC), "half a ")
	}
	synced := holder.Open("synced", unix.O_RDWR)
	holder.Write(synced, "half a version")
	holder.OK(wire.Request{Op: "fsync", FD: synced})
	holder.Write(holder.Open("fresh", unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL), "half a ")
	before := time.Now()
	m.terminate(t, sig)
	m.awaitEnd(t, patience)
	if took := time.Since(before); took < 250*time.Millisecond {
		t.Errorf("the grace was %v, not 300 ms", took)
	}
	for _, name := range []string{"f", "synced", "linked", "twin", "moved"} {
		if got := m.under(t, name); got != "old" {
			t.Errorf("%s has %q, want the old version", name, got)
		}
	}
	if _, err := os.Lstat(filepath.Join(m.Data, "fresh")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the new file that was not closed: %v", err)
	}
	if err := holder.Close(synced); err == nil {
		t.Error("a close after the end says that all is well")
	}
	m.Start(t)
	if got := m.ReadFile("synced"); got != "old" {
		t.Errorf("after the next start: %q", got)
	}
	if _, err := m.Client(t).TryOpen("fresh", unix.O_RDONLY); !errors.Is(err, unix.ENOENT) {
		t.Errorf("after the next start the new file: %v", err)
	}
}

// TestShutdownSecondSignal: whoever is in a hurry signals again.
func TestShutdownSecondSignal(t *testing.T) {
	needsLatchfs(t)
	m := mount(t, withArgs("--grace", "10m"), leftLocks())
	m.WriteFile("f", "old")
	holder := m.Client(t)
	holder.Write(holder.Open("f", unix.O_WRONLY|unix.O_TRUNC), "half")
	m.terminate(t, syscall.SIGTERM)
	m.daemon.Process.Signal(syscall.SIGTERM)
	m.awaitEnd(t, patience)
	if got := m.under(t, "f"); got != "old" {
		t.Errorf("the data directory has %q", got)
	}
}

// TestShutdownServesTheQueue: whoever waits for a lock already gets it when the
// holder has finished.
func TestShutdownServesTheQueue(t *testing.T) {
	needsLatchfs(t)
	forEachMount(t, func(t *testing.T, m *Mount) {
		m.WriteFile("f", "old")
		holder, opener, chmodder := m.Client(t), m.Client(t), m.Client(t)
		fd := holder.Open("f", unix.O_WRONLY|unix.O_TRUNC)
		holder.Write(fd, "new")
		next := opener.GoOpen("f", unix.O_RDWR)
		next.MustBlock(t)
		change := chmodder.Go(wire.Request{Op: "chmod", Path: m.Path("f"), Mode: 0o600})
		change.MustBlock(t)
		m.awaitStopping(t)
		next.MustBlock(t)
		holder.MustClose(fd)
		fd = int(next.OK().N)
		change.MustBlock(t)
		opener.Write(fd, "N")
		opener.MustClose(fd)
		change.OK()
		m.awaitEnd(t, patience)
		if got := m.under(t, "f"); got != "New" {
			t.Errorf("the data directory has %q", got)
		}
	}, withArgs("--grace", "60s"), careless())
}

// TestShutdownEndsWaits: when the grace is over all who wait for a lock are told, in
// whatever operation, and not at their timeout.
func TestShutdownEndsWaits(t *testing.T) {
	inTestAll(t)
	alongside(t)
	needsLatchfs(t)
	forEachMount(t, func(t *testing.T, m *Mount) {
		m.WriteFile("f", "old")
		m.WriteFile("g", "g")
		m.WriteFile("h", "h")
		holder := m.Client(t)
		holder.Write(holder.Open("f", unix.O_WRONLY|unix.O_TRUNC), "new")
		holder.Write(holder.Open("h", unix.O_WRONLY|unix.O_TRUNC), "new")
		opener, renamer, unlinker, chmodder, locker := m.Client(t), m.Client(t), m.Client(t), m.Client(t), m.Client(t)
		waits := []*Call{
			opener.GoOpen("f", unix.O_WRONLY),
			renamer.Go(renamer.path2("rename", "g", "f")),
			unlinker.Go(wire.Request{Op: "unlink", Path: m.Path("f")}),
			chmodder.Go(wire.Request{Op: "chmod", Path: m.Path("f"), Mode: 0o600}),
			locker.Go(flockReq(locker.Open("f", unix.O_RDONLY), unix.LOCK_EX)),
		}
		for range 6 { // all of whom what is rolled back would let in at once
			sharer := m.Client(t)
			waits = append(waits, sharer.Go(flockReq(sharer.Open("h", unix.O_RDONLY), unix.LOCK_SH)))
		}
		for _, w := range waits {
			w.MustBlock(t)
		}
		m.terminate(t, syscall.SIGTERM)
		for _, w := range waits {
			if err := w.Err(); !errors.Is(err, unix.EBUSY) {
				t.Errorf("%s: %v, want EBUSY", w.Req.Op, err)
			}
		}
		m.awaitEnd(t, patience)
		if got := m.under(t, "f"); got != "old" {
			t.Errorf("the data directory has %q", got)
		}
	}, withArgs("--grace", "1s"), leftLocks())
}

// TestShutdownBusyMount: working directories, readers and mappings on the mount
// do not keep latchfs alive.
func TestShutdownBusyMount(t *testing.T) {
	inTestAll(t)
	alongside(t)
	needsLatchfs(t)
	forEachMount(t, func(t *testing.T, m *Mount) {
		m.WriteFile("f", "content")
		m.Mkdir("d")
		user := m.Client(t)
		fd := user.Open("f", unix.O_RDONLY)
		user.OK(wire.Request{Op: "chdir", Path: m.Path("d")})
		m.terminate(t, syscall.SIGTERM)
		m.awaitEnd(t, patience)
		if _, err := user.Stat(m.Path("f")); !errors.Is(err, unix.ENOENT) {
			t.Errorf("a path below the mount point: %v, want ENOENT", err)
		}
		if _, err := user.Do(wire.Request{Op: "open", Path: "relative", Flags: unix.O_CREAT | unix.O_WRONLY, Mode: 0o644}); err == nil {
			t.Error("a create in the working directory succeeds")
		}
		user.Close(fd)
		m.Start(t)
		if got := m.ReadFile("f"); got != "content" {
			t.Errorf("after the next start: %q", got)
		}
	}, withArgs("--grace", "1s"))
}

// TestShutdownAfterUmount: umount(8) ends latchfs as well, and what was
// acknowledged is there.
func TestShutdownAfterUmount(t *testing.T) {
	needsLatchfs(t)
	needsRoot(t)
	for name, opts := range map[string][]mountOption{"elsewhere": nil, "over itself": {overItself()}} {
		t.Run(name, func(t *testing.T) {
			m := mount(t, opts...)
			m.WriteFile("f", "content")
			m.control.Kill()
			eventually(t, "umount", func() bool { return unix.Unmount(m.Dir, 0) == nil })
			m.awaitEnd(t, patience)
			if got := m.under(t, "f"); got != "content" {
				t.Errorf("the data directory has %q", got)
			}
			m.Start(t)
			if got := m.ReadFile("f"); got != "content" {
				t.Errorf("after the next start: %q", got)
			}
		})
	}
}
