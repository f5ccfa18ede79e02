package suid

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"latchfs/fs/sys"
)

func nobody(uint32) bool { return false }
func all(uint32) bool    { return true }

// fileOf is an open file with a mode.
func fileOf(t *testing.T, mode uint32) int {
	t.Helper()
	fd, err := unix.Open(filepath.Join(t.TempDir(), "f"), unix.O_RDWR|unix.O_CREAT|unix.O_CLOEXEC, 0o600)
	if err == nil {
		err = unix.Fchmod(fd, mode)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	return fd
}

// modeOf is the mode of an open file.
func modeOf(t *testing.T, fd int) uint32 {
	t.Helper()
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		t.Fatal(err)
	}
	return st.Mode & 0o7777
}

// capable gives an open file capabilities (cap_net_raw+ep, as ping has), or skips the test.
func capable(t *testing.T, fd int) int {
	t.Helper()
	value := []byte{1, 0, 0, 2, 0, 0x20, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}
	if err := unix.Fsetxattr(fd, "security.capability", value, 0); err != nil {
		t.Skip("a file cannot be given capabilities here:", err)
	}
	return fd
}

// isCapable reports whether an open file has capabilities.
func isCapable(fd int) bool {
	n, err := unix.Fgetxattr(fd, "security.capability", nil)
	return err == nil && n > 0
}

// The table of the package, for every mode that matters.
func TestAfterWrite(t *testing.T) {
	for _, c := range []struct {
		mode, stranger, member uint32
	}{
		{0o644, 0o644, 0o644},
		{0o4755, 0o755, 0o755},
		{0o4644, 0o644, 0o644},
		{0o2755, 0o755, 0o755},
		{0o2644, 0o644, 0o2644},
		{0o6755, 0o755, 0o755},
		{0o6644, 0o644, 0o2644},
		{0o7777, 0o1777, 0o1777},
		{0o2767, 0o767, 0o2767}, // others may execute it, and its group may not
		{unix.S_IFREG | 0o4711, unix.S_IFREG | 0o711, unix.S_IFREG | 0o711},
	} {
		if got := AfterWrite(c.mode, 7, nobody); got != c.stranger {
			t.Errorf("%o, written by a stranger: %o, want %o", c.mode, got, c.stranger)
		}
		if got := AfterWrite(c.mode, 7, all); got != c.member {
			t.Errorf("%o, written by a member: %o, want %o", c.mode, got, c.member)
		}
		asked := uint32(0)
		AfterWrite(c.mode, 7, func(gid uint32) bool { asked = gid; return false })
		if lone := IsLoneSetgid(c.mode); lone != (c.member&unix.S_ISGID != 0) || lone != (asked == 7) {
			t.Errorf("%o has the setgid bit alone: %v; asked for group %d", c.mode, lone, asked)
		}
	}
}

func TestKill(t *testing.T) {
	for _, path := range []bool{false, true} {
		for _, c := range []struct {
			mode, want uint32
			in         Membership
		}{
			{0o644, 0o644, nobody},
			{0o4755, 0o755, nobody},
			{0o6751, 0o751, all},
			{0o2644, 0o644, nobody},
			{0o2644, 0o2644, all},
		} {
			fd := fileOf(t, c.mode)
			through := fd
			if path { // a descriptor that only names the file
				p, err := unix.Open(sys.Self(fd), unix.O_PATH|unix.O_CLOEXEC, 0)
				if err != nil {
					t.Fatal(err)
				}
				defer unix.Close(p)
				through = p
			}
			changed, err := Kill(through, c.in)
			if got := modeOf(t, fd); err != nil || got != c.want || changed != (c.want != c.mode) {
				t.Errorf("%o, O_PATH %v: %o, changed %v, %v; want %o", c.mode, path, got, changed, err, c.want)
			}
		}
	}
}

// It asks for the file's own group.
func TestKillAsksForTheGroup(t *testing.T) {
	fd := fileOf(t, 0o2644)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		t.Fatal(err)
	}
	if _, err := Kill(fd, func(gid uint32) bool { return gid == st.Gid }); err != nil || modeOf(t, fd) != 0o2644 {
		t.Errorf("written by a member: %o, %v", modeOf(t, fd), err)
	}
	if _, err := Kill(fd, func(gid uint32) bool { return gid != st.Gid }); err != nil || modeOf(t, fd) != 0o644 {
		t.Errorf("written by a member of other groups: %o, %v", modeOf(t, fd), err)
	}
}

// The setgid bit of a directory is no privilege.
func TestKillLeavesDirectories(t *testing.T) {
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o755|os.ModeSetgid); err != nil {
		t.Fatal(err)
	}
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	if changed, err := Kill(fd, nobody); changed || err != nil || modeOf(t, fd) != 0o2755 {
		t.Errorf("changed %v, %v: %o", changed, err, modeOf(t, fd))
	}
}

func TestKillTakesCapabilities(t *testing.T) {
	fd := capable(t, fileOf(t, 0o755))
	if changed, err := Kill(fd, nobody); changed || err != nil || isCapable(fd) {
		t.Errorf("changed %v, %v; has capabilities: %v", changed, err, isCapable(fd))
	}
	capable(t, fd)
	if err := dropCapabilities(fd); err != nil || isCapable(fd) {
		t.Errorf("%v; has capabilities: %v", err, isCapable(fd))
	}
}

// A file without capabilities is none that cannot lose them; other failures are told.
func TestFailures(t *testing.T) {
	fd := fileOf(t, 0o644)
	if err := dropCapabilities(fd); err != nil {
		t.Errorf("a file without capabilities: %v", err)
	}
	const closed = 1 << 20
	if err := dropCapabilities(closed); err != unix.ENOENT {
		t.Errorf("capabilities of what is not open: %v", err)
	}
	if _, err := Kill(closed, nobody); fmt.Sprint(err) != fmt.Sprint(unix.EBADF) {
		t.Errorf("what is not open: %v", err)
	}
}
