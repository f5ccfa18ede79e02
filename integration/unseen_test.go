package integration

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"latchfs/integration/internal/wire"
)

// unseen are the mounts whose daemon cannot see what the client has open.
var unseen = []struct {
	name    string
	uid     int // of the client
	options []mountOption
}{
	{"in another pid namespace", 0, []mountOption{foreignPIDs()}},
	{"in another pid namespace, without passthrough", 0, []mountOption{foreignPIDs(), noPassthrough()}},
	{"of another user", otherUID, []mountOption{asUser(), withArgs("--allow-other"), withSeed(func(data string) error {
		if err := os.WriteFile(filepath.Join(data, "f"), []byte("old\n"), 0o644); err != nil {
			return err
		}
		return errors.Join(os.Chmod(data, 0o777), os.Chmod(filepath.Join(data, "f"), 0o666))
	})}},
}

// letUsersLetOthersIn is for ordinary users who let others in, which fuse.conf has to allow.
func letUsersLetOthersIn(t *testing.T) {
	t.Helper()
	conf := filepath.Join(t.TempDir(), "fuse.conf")
	if err := os.WriteFile(conf, []byte("user_allow_other\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount(conf, "/etc/fuse.conf", "", unix.MS_BIND, ""); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount("/etc/fuse.conf", unix.MNT_DETACH); err != nil {
			t.Errorf("unmount fuse.conf: %v", err)
		}
	})
}

// onUnseen runs a test on each of these mounts.
func onUnseen(t *testing.T, test func(t *testing.T, m *Mount, uid int)) {
	t.Helper()
	needsRoot(t)
	needsLatchfs(t)
	requireTool(t, "fusermount3")
	inTest(t)
	letUsersLetOthersIn(t)
	for _, u := range unseen {
		t.Run(u.name, func(t *testing.T) { test(t, mount(t, u.options...), u.uid) })
	}
}

// A program of which the daemon cannot see what it has open has the file until the last of its
// descriptors is closed. Shells close a copy of it before they have written anything.
func TestUnseenProgramsHaveTheirFiles(t *testing.T) {
	onUnseen(t, func(t *testing.T, m *Mount, uid int) {
		c := m.ClientAs(t, uid)
		if uid == 0 {
			must(t, c.Save("f", "old\n"))
		}
		fd := c.Open("f", unix.O_WRONLY|unix.O_TRUNC)
		c.Write(fd, "half\n")
		c.MustClose(int(c.OK(wire.Request{Op: "dup", FD: fd}).N))
		if got := m.ReadFile("f"); got != "old\n" {
			t.Errorf("after the close of a copy f holds %q", got)
		}
		if _, err := m.ClientAs(t, m.UID).TryOpen("f", unix.O_WRONLY|unix.O_NONBLOCK); err != syscall.EAGAIN {
			t.Errorf("another writer: %v, want EAGAIN", err)
		}
		c.Write(fd, "whole\n")
		c.MustClose(fd)
		if got := m.ReadFile("f"); got != "half\nwhole\n" {
			t.Errorf("after the close f holds %q", got)
		}
		for i := range 100 {
			want := fmt.Sprintln(i)
			must(t, c.Save("f", want))
			if got := m.ReadFile("f"); got != want {
				t.Fatalf("after save %d f holds %q", i, got)
			}
		}
	})
}

// unseenScript is everyday redirection; it prints what a plain directory has it print.
const unseenScript = `
umask 0; cd "$1" || exit
echo one > f; cat f
{ echo a; sleep 0.2; date +b; echo c; } > g; cat g
(echo x; ls /nonexistent; echo y) > h 2> /dev/null; cat h
exec 3> f; echo d >&3; date +e >&3; exec 3>&-; cat f
for i in 1 2 3 4 5 6 7 8 9; do echo $i > "f$i"; cat "f$i"; done
mkdir d; for i in 1 2 3 4 5 6 7 8 9; do echo $i > "d/f$i"; ls d; done
echo more >> g; cat g
exec 9> lock; flock -w 10 9 && echo locked; (flock -n 9 && echo still); exec 9>&-
flock lock echo whoever locks next
seq 9 > t && mv t g; cat g`

func TestUnseenShells(t *testing.T) {
	onUnseen(t, func(t *testing.T, m *Mount, uid int) {
		plain := t.TempDir()
		if err := os.Chmod(plain, 0o777); err != nil {
			t.Fatal(err)
		}
		want, err := m.runAs(t, 0, "bash", "-c", unseenScript, "bash", plain)
		if err != nil {
			t.Fatal(err)
		}
		got, err := m.runAs(t, uid, "bash", "-c", unseenScript, "bash", m.Dir)
		if err != nil || got != want {
			t.Errorf("%v: it prints %q, want %q", err, got, want)
		}
		if found, err := filepath.Glob(filepath.Join(m.Data, ".latchfs/rejected/*")); err != nil || len(found) > 0 {
			t.Errorf("kept aside: %q, %v", found, err)
		}
	})
}
