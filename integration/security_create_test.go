package integration

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// The attacks of an ordinary user on a mount of root. bobUID has a directory of his
// own that he reaches outside the mount, too; aliceUID is his victim.
const (
	aliceUID = 61001
	bobUID   = 61002
)

// asBob makes a python script an ordinary user's. D is his directory in the mount and
// U the same outside it.
const asBob = `
import ctypes, errno, os, stat, sys, threading, time
bob = %d
os.setgroups([]); os.setresgid(bob, bob, bob); os.setresuid(bob, bob, bob)
D, U = sys.argv[1], sys.argv[2]
libc = ctypes.CDLL(None, use_errno=True)
def exchange(a, b):
    return libc.renameat2(-100, a.encode(), -100, b.encode(), 2) == 0
`

// bobScript is a script of bob's.
func bobScript(body string) string { return fmt.Sprintf(asBob, bobUID) + body }

// forBothRootMounts runs a test on a mount of root over data in which bob has a
// directory, with and without passthrough. opts makes the options of one mount.
func forBothRootMounts(t *testing.T, test func(t *testing.T, m *Mount), opts func(t *testing.T) []mountOption) {
	t.Helper()
	needsRoot(t)
	variants := map[string][]mountOption{"root": nil, "root-nopassthrough": {noPassthrough()}}
	if *plain {
		variants = map[string][]mountOption{"plain": nil}
	}
	for name, variant := range variants {
		t.Run(name, func(t *testing.T) {
			if opts != nil {
				variant = append(variant, opts(t)...)
			}
			test(t, mount(t, append(variant, withBob())...))
		})
	}
}

// withBob gives bob a directory. It comes after all options that fill the data.
func withBob() mountOption {
	return func(o *mountOptions) {
		fill := o.seed
		o.seed = func(data string) error {
			if fill != nil {
				if err := fill(data); err != nil {
					return err
				}
			}
			bob := filepath.Join(data, "bob")
			return errors.Join(os.Mkdir(bob, 0o755), os.Chown(bob, bobUID, bobUID))
		}
	}
}

// victimFile makes a file with an owner and mode, and returns how it is.
func victimFile(t *testing.T, path string, uid int, mode uint32) (check func() string) {
	t.Helper()
	if err := os.WriteFile(path, []byte("secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(path, uid, uid); err != nil {
		t.Fatal(err)
	}
	if err := unix.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
	var inode unix.Stat_t
	if err := unix.Stat(path, &inode); err != nil {
		t.Fatal(err)
	}
	fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0) // whatever name it gets
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	return func() string {
		var st unix.Stat_t
		if err := unix.Fstat(fd, &st); err != nil {
			return err.Error()
		}
		content, _ := os.ReadFile(fmt.Sprintf("/proc/self/fd/%d", fd))
		if st.Uid == inode.Uid && st.Gid == inode.Gid && st.Mode == inode.Mode && string(content) == "secret\n" {
			return ""
		}
		return fmt.Sprintf("it is of %d:%d with mode %o and holds %q", st.Uid, st.Gid, st.Mode, content)
	}
}

// While bob makes a file, a directory or a link through the mount he gives its name to
// another file outside the mount.
func TestNewNameSwapped(t *testing.T) {
	inStress(t)
	forBothRootMounts(t, func(t *testing.T, m *Mount) {
		outside := filepath.Join(m.Home(), "roots")
		roots := victimFile(t, outside, 0, 0o644)
		alices := victimFile(t, filepath.Join(m.Data, "bob/alices"), aliceUID, 0o600)
		m.Python(t, bobScript(`
target, tries = sys.argv[3], int(sys.argv[4])
name, stop, put = "n", False, None
def swap():
    while not stop:
        try:
            os.rename(f"{U}/{name}", f"{U}/away")
        except FileNotFoundError:
            continue
        try:
            if put == "link":
                os.symlink(target, f"{U}/{name}")
            else:
                os.rename(f"{U}/alices", f"{U}/{name}")
        except FileExistsError:
            pass
        return
makers = [
    lambda n: os.mknod(n, 0o6777 | stat.S_IFREG),
    lambda n: os.mkdir(n, 0o777),
    lambda n: os.symlink("x", n),
    lambda n: os.mkfifo(n, 0o6777),
    lambda n: os.close(os.open(n, os.O_CREAT | os.O_WRONLY | os.O_EXCL | os.O_APPEND, 0o6777)),
]
def clean():
    for n in (name, "away"):
        p = f"{U}/{n}"
        try:
            st = os.lstat(p)
        except FileNotFoundError:
            continue
        if stat.S_ISDIR(st.st_mode):
            os.rmdir(p)
        elif n == name and put == "alices" and not os.path.lexists(f"{U}/alices") and st.st_ino == alices:
            os.rename(p, f"{U}/alices")
        else:
            os.unlink(p)
alices = os.lstat(f"{U}/alices").st_ino
sys.setswitchinterval(1e-5)
until = time.monotonic() + 2
for i in range(tries):
    if time.monotonic() > until:
        break
    put, stop = ("link", "alices")[i % 2], False
    t = threading.Thread(target=swap)
    t.start()
    try:
        makers[(i // 2) % len(makers)](f"{D}/{name}")
    except OSError:
        pass
    stop = True
    t.join()
    clean()
`), m.Path("bob"), filepath.Join(m.Data, "bob"), outside, fmt.Sprint(repeat(300, 5000)))
		if now := roots(); now != "" {
			t.Errorf("a link led to root's file outside the data: %s", now)
		}
		if now := alices(); now != "" {
			t.Errorf("alice's file was given the new name: %s", now)
		}
	}, nil)
}
