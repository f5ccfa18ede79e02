package integration

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// A guard or an acquire that does not get its lock is in .locks/why and in the audit
// trail, with who was in the way.
func TestRefusedGuardIsRemembered(t *testing.T) {
	alongside(t)
	needsLatchfs(t)
	forEachMount(t, func(t *testing.T, m *Mount) {
		m.WriteFile("f", "data")
		holder := m.heldGuard(t, "--actor", "agent-7", "f", "--name", "deploy")
		sh := m.shell(t)
		sh.do(`$L guard --wait 50ms --operation import f -- true 2>/dev/null`, 8)
		sh.do(`$L acquire --wait 0 f 2>/dev/null`, 8)
		sh.do(`$L acquire --wait 50ms --name deploy 2>/dev/null`, 8)
		out := sh.do(`cat .locks/why`, 0)
		for _, want := range []string{" as agent-7 since ", "f is locked by ", "name:deploy is locked by ", "import f: EBUSY", "gave up after 50ms", ": EAGAIN"} {
			if !strings.Contains(out, want) {
				t.Errorf("why lacks %q:\n%s", want, out)
			}
		}
		if strings.Contains(out, "lock would block") {
			t.Errorf("why says\n%s", out)
		}
		if events := m.EventsOf("refusal", "f"); len(events) != 2 {
			t.Errorf("the audit trail has %+v", events)
		}
		if out := m.latchfs(t, 0, "audit", "--event", "refusal"); strings.Count(out, "\n") != 3 || !strings.Contains(out, "deploy") {
			t.Errorf("audit says\n%s", out)
		}
		holder.Close()
		holder.OK()
	})
}

// A transaction whose command fails says in a line what has become of what it did.
func TestFailedTransactionSaysSo(t *testing.T) {
	needsLatchfs(t)
	forEachMount(t, func(t *testing.T, m *Mount) {
		m.WriteFile("f", "old")
		o := m.Latchfs(t, "guard", "--txn", "f", "--", "sh", "-c", "echo new > f; exit 3")
		if o.Code != 3 || strings.Count(o.Stderr, "\n") != 1 || !strings.Contains(o.Stderr, "exit status 3: all that it changed was rolled back; what it wrote, if anything, is kept") {
			t.Errorf("%+v", o)
		}
		if out := m.latchfs(t, 0, "rejected", "list"); !strings.Contains(out, " f") {
			t.Errorf("rejected list says\n%s", out)
		}
		if got := m.ReadFile("f"); got != "old" {
			t.Errorf("f holds %q", got)
		}
		if o := m.Latchfs(t, "guard", "--txn", "f", "--", "true"); o.Code != 0 || o.Stderr != "" {
			t.Errorf("%+v", o)
		}
	})
}

// Whose lock was stolen is told by whom, how and when.
func TestStolenLockNamesTheThief(t *testing.T) {
	needsLatchfs(t)
	needsRoot(t)
	m := mount(t, withPolicy(shortLeases))
	m.WriteFile("leased", "old")
	hung := m.Client(t)
	fd := hung.Open("leased", unix.O_RDWR)
	hung.Write(fd, "late")
	hung.Signal(syscall.SIGSTOP)
	m.AwaitStale(t, "leased")
	if o := m.Latchfs(t, "steal", "--force", "leased"); o.Code != 0 {
		t.Fatalf("%+v", o)
	}
	hung.Signal(syscall.SIGCONT)
	if err := hung.Close(fd); err != syscall.ESTALE {
		t.Errorf("the close: %v", err)
	}
	out := m.latchfs(t, 0, "audit")
	for _, want := range []string{"root took the lock away with latchfs steal at ", "leased: stolen by latchfs["} {
		if !strings.Contains(out, want) {
			t.Errorf("audit lacks %q:\n%s", want, out)
		}
	}
}

// A mount that fails is none that has ended: the trail has nothing of it.
func TestFailedMountIsNoUnmount(t *testing.T) {
	needsRoot(t)
	needsLatchfs(t)
	data, err := os.MkdirTemp(bench.root, "failed-")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(data, ordinaryUID, ordinaryUID); err != nil {
		t.Fatal(err)
	}
	roots, err := os.MkdirTemp(bench.root, "roots-")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(roots, 0o755); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(bench.binary, "mount", data, roots) // where the user may not write
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: ordinaryUID, Gid: ordinaryUID}}
	out, err := cmd.CombinedOutput()
	if err == nil || !strings.Contains(string(out), "fusermount") {
		t.Fatalf("a mount on a directory of root's: %v\n%s", err, out)
	}
	trail, err := os.ReadFile(filepath.Join(data, ".latchfs", "events.jsonl"))
	if err != nil || len(trail) > 0 {
		t.Errorf("the trail has %q, %v", trail, err)
	}
}

// Who may not unmount a mount is told whose it is.
func TestUmountOfAnothersMount(t *testing.T) {
	needsRoot(t)
	needsLatchfs(t)
	m := mount(t)
	m.UID = ordinaryUID
	o := m.Latchfs(t, "umount", m.Dir)
	if o.Code != 1 || !strings.Contains(o.Stderr, m.Dir+" is the mount of root (0): only that user and root unmount it") {
		t.Errorf("%+v", o)
	}
	m.UID = 0
	m.WriteFile("f", "still there")
}
