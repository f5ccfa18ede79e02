package integration

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"latchfs/integration/internal/wire"
)

// setACL changes the ACL of a file of the mount.
func (m *Mount) setACL(t *testing.T, name, entries string) {
	t.Helper()
	requireTool(t, "setfacl")
	if out, err := exec.Command("setfacl", "-m", entries, m.Path(name)).CombinedOutput(); err != nil {
		t.Fatalf("setfacl: %v: %s", err, out)
	}
}

// Who may write a file by an entry of its ACL locks it as its owner does, and who may
// only read it by the ACL does not, whatever the mode shows: with an ACL the bits of the
// group are the mask.
func TestACLDecidesWhoLocks(t *testing.T) {
	strangerMounts(t, func(t *testing.T, m *Mount) {
		alice, bob := m.ClientAs(t, ordinaryUID), m.ClientAs(t, otherUID)
		write := wire.Request{Op: "open", Path: m.Path("alice/f"), Flags: unix.O_WRONLY}
		request := `{"op":"acquire","mode":"exclusive","paths":["alice/f"],"wait":"0s"}`

		m.setACL(t, "alice/f", fmt.Sprintf("u:%d:rw", otherUID))
		fb := bob.Open("alice/f", unix.O_RDONLY)
		bob.OK(flockReq(fb, unix.LOCK_EX))
		if _, err := alice.Do(write); err != syscall.EBUSY {
			t.Errorf("beside the flock of a writer by the ACL: %v, want EBUSY", err)
		}
		bob.MustClose(fb)
		control := bob.Open(".locks/control", unix.O_RDWR)
		if got := bob.ask(control, request); !strings.HasPrefix(got, `{"ok":true`) {
			t.Errorf("a writer by the ACL asks for a lock: %s", got)
		}
		bob.MustClose(control)

		// Now the mask has the right to write for another user's sake.
		if err := os.Chown(m.Path("alice/f"), ordinaryUID, otherUID); err != nil {
			t.Fatal(err)
		}
		m.setACL(t, "alice/f", fmt.Sprintf("u:%d:r,u:%d:rw,g::r,m::rw", otherUID, otherUID+1))
		fb = bob.Open("alice/f", unix.O_RDONLY)
		bob.OK(flockReq(fb, unix.LOCK_EX))
		change(t, alice)
		bob.MustClose(fb)
		control = bob.Open(".locks/control", unix.O_RDWR)
		if got := bob.ask(control, request); !strings.Contains(got, `"not_allowed"`) {
			t.Errorf("a reader by the ACL asks for a lock: %s", got)
		}
		bob.MustClose(control)
	}, lockTimeout(time.Second))
}

// An ACL that keeps a user out of a directory keeps it from locking what is there.
func TestACLOfDirectoryKeepsLocksOut(t *testing.T) {
	strangerMounts(t, func(t *testing.T, m *Mount) {
		if err := os.Chmod(m.Path("alice/f"), 0o666); err != nil {
			t.Fatal(err)
		}
		bob := m.ClientAs(t, otherUID)
		m.setACL(t, "alice", fmt.Sprintf("u:%d:-,m::rwx", otherUID))
		control := bob.Open(".locks/control", unix.O_RDWR)
		if got := bob.ask(control, `{"op":"acquire","mode":"exclusive","paths":["alice/f"],"wait":"0s"}`); !strings.Contains(got, `"not_allowed"`) {
			t.Errorf("a user who cannot reach the file asks for a lock: %s", got)
		}
		bob.MustClose(control)
	})
}
