package integration

import (
	"fmt"
	"testing"
)

// In a sticky directory nobody takes another user's name away, nor what has got the name
// a moment ago: while bob's calls are on their way through the mount, his file and one of
// alice's change places outside it, again and again.
func TestStickyNameSwapped(t *testing.T) {
	inStress(t)
	forBothRootMounts(t, func(t *testing.T, m *Mount) {
		out := m.LaunchPython(t, `
import ctypes, errno, mmap, os, sys
D, U, alice, bob, tries = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), int(sys.argv[5])
libc = ctypes.CDLL(None, use_errno=True)
def exchange(a, b):
    if libc.renameat2(-100, a.encode(), -100, b.encode(), 2) != 0:
        raise OSError(ctypes.get_errno(), "")
def rename_open(a, b):
    with open(a, "w") as f:
        f.write("bob's")
        f.flush()
        os.rename(a, b)
def save(a):
    with open(a, "w") as f:
        f.write("bob's")
def make(path, uid, is_dir):
    if is_dir:
        os.mkdir(path)
    else:
        with open(path, "x") as f:
            f.write(f"{uid}'s")
    os.chown(path, uid, uid)
current = mmap.mmap(-1, 8)
def as_bob(call):
    os.setgroups([]); os.setresgid(bob, bob, bob); os.setresuid(bob, bob, bob)
    for i in range(tries + 1): # the last one is left alone
        current[:4] = i.to_bytes(4, "little")
        for _ in range(4):
            try:
                call(f"{D}/{i}", f"{D}/bobs{i}", f"{D}/new{i}")
                said = "done"
            except OSError as e:
                said = errno.errorcode[e.errno]
            if said != "EPERM":
                break
    return said
def run(kind, call, is_dir):
    global D, U
    D, U = f"{D}/s", f"{U}/s"
    os.mkdir(U)
    os.chmod(U, 0o1777)
    for i in range(tries + 1):
        make(f"{U}/{i}", bob, is_dir); make(f"{U}/alices{i}", alice, is_dir); make(f"{U}/bobs{i}", bob, is_dir)
    current[:4] = bytes(4)
    r, w = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.write(w, as_bob(call).encode())
        os._exit(0)
    os.close(w)
    while os.waitpid(pid, os.WNOHANG) == (0, 0):
        i = int.from_bytes(current[:4], "little")
        if i < tries:
            libc.renameat2(-100, f"{U}/{i}".encode(), -100, f"{U}/alices{i}".encode(), 2)
    said = os.read(r, 100).decode()
    os.close(r)
    lost = 0
    for i in range(tries):
        owners = []
        for name in (f"{U}/{i}", f"{U}/alices{i}"):
            try:
                owners.append(os.lstat(name).st_uid)
            except FileNotFoundError:
                pass
        lost += alice not in owners
    if lost:
        print(f"{kind}: of {tries} files of alice's {lost} have lost their names")
    if said != "done":
        print(f"{kind} of bob's own file: {said}")
calls = {
    "unlink": (lambda n, other, new: os.unlink(n), False),
    "rename over it": (lambda n, other, new: os.rename(other, n), False),
    "rename of an open file over it": (lambda n, other, new: rename_open(new, n), False),
    "save": (lambda n, other, new: save(n), False),
    "rename away": (lambda n, other, new: os.rename(n, new), False),
    "rename over another": (lambda n, other, new: os.rename(n, other), False),
    "exchange": (lambda n, other, new: exchange(n, other), False),
    "rmdir": (lambda n, other, new: os.rmdir(n), True),
    "rename of a directory over it": (lambda n, other, new: os.rename(other, n), True),
    "rename of a directory away": (lambda n, other, new: os.rename(n, new), True),
}
for kind, (call, is_dir) in calls.items():
    run(kind, call, is_dir)
`, m.Dir, m.Data, fmt.Sprint(aliceUID), fmt.Sprint(bobUID), fmt.Sprint(repeat(20, 500))).Wait()
		if out.Code != 0 || out.Stdout != "" {
			t.Errorf("%s%s", out.Stdout, out.Stderr)
		}
	}, func(*testing.T) []mountOption {
		// A file that is swapped while a version of it is kept has two names then.
		return []mountOption{careless(), withFindings("orphaned-content")}
	})
}
