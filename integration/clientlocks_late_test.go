package integration

import (
	"fmt"
	"testing"

	"golang.org/x/sys/unix"
)

// RELEASE comes after close has returned, when the process may have locked the
// file again. It ends what was locked through the closed descriptor, and no more.

// lockAgain locks, closes, opens and locks again, argv[3] times, and has a process
// that was forked before look whether the lock is still there after the RELEASE of
// the first open: a mark, a lock of another kind through the first descriptor,
// tells of that by its end. With argv[4] the file is replaced under the first lock.
const lockAgain = `
import fcntl, os, struct, sys
kind, name, rounds = sys.argv[1], sys.argv[2], int(sys.argv[3])
mode, type = (os.O_RDWR, fcntl.F_WRLCK) if name == "x.lock" else (os.O_RDONLY, fcntl.F_RDLCK)
def lk(type, start=0): return struct.pack("hhqqi4x", type, os.SEEK_SET, start, 1, 0)
def flock(fd): fcntl.flock(fd, fcntl.LOCK_EX)
def far(fd): fcntl.fcntl(fd, fcntl.F_OFD_SETLKW, lk(fcntl.F_WRLCK, 1 << 40))
lock, mark = {
    "posix": (lambda fd: fcntl.fcntl(fd, fcntl.F_SETLKW, lk(type)), flock),
    "ofd": (lambda fd: fcntl.fcntl(fd, fcntl.F_OFD_SETLKW, lk(type)), flock),
    "flock": (flock, far),
}[kind]
def held():
    if kind != "flock":
        return struct.unpack("hhqqi4x", fcntl.fcntl(b, fcntl.F_GETLK, lk(fcntl.F_WRLCK)))[0] == type
    try:
        fcntl.flock(b, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    fcntl.flock(b, fcntl.LOCK_UN)
    return False
go, ready = os.pipe(), os.pipe()
if os.fork() == 0:
    os.close(go[1])
    lost = 0
    while os.read(go[0], 1):
        b = os.open(name, mode)
        mark(b)
        lost += not held()
        os.close(b)
        os.write(ready[1], b".")
    print("lost", lost)
    sys.stdout.flush()
    os._exit(0)
for _ in range(rounds):
    a = os.open(name, mode)
    lock(a)
    mark(a)
    if len(sys.argv) > 4:
        open("new", "w").close()
        os.rename("new", name)
    os.close(a)
    a = os.open(name, mode)
    lock(a)
    os.write(go[1], b".")
    os.read(ready[0], 1)
    os.close(a)
os.close(go[1])
os.wait()
`

func TestLockSurvivesALateRelease(t *testing.T) {
	forEachLockFile(t, func(t *testing.T, m *Mount, name string) {
		if got := m.Python(t, lockAgain, "posix", name, fmt.Sprint(repeat(20, 5000))); got != "lost 0\n" {
			t.Errorf("of the POSIX locks taken after a close: %s", got)
		}
	})
}

// The kernel gives the number by which it knows an open file to another one as
// soon as the first is closed, before RELEASE.
func TestLockSurvivesTheReleaseOfItsNumber(t *testing.T) {
	rounds := fmt.Sprint(repeat(20, 5000))
	forEachMount(t, func(t *testing.T, m *Mount) {
		m.WriteFile("x.lock", "x")
		m.WriteFile("data.json", "x")
		for _, how := range [][]string{{"flock", "x.lock", rounds}, {"ofd", "x.lock", rounds}, {"ofd", "data.json", rounds, "replaced"}} {
			if got := m.Python(t, lockAgain, how...); got != "lost 0\n" {
				t.Errorf("of the locks taken after a close, %q: %s", how, got)
			}
		}
	})
}

// What unlocking in the middle leaves of a lock ends with the descriptor, by
// close and by death.
func TestSplitLockEnds(t *testing.T) {
	for _, family := range []string{"", "ofd-"} {
		forEachMount(t, func(t *testing.T, m *Mount) {
			m.WriteFile("x.lock", "x")
			for _, end := range []func(*Client, int){(*Client).MustClose, func(c *Client, _ int) { c.Kill() }} {
				a, fa := rangeLocker(t, m)
				b, fb := rangeLocker(t, m)
				a.OK(fcntlReq(family+"setlk", fa, unix.F_WRLCK, 0, 100))
				a.OK(fcntlReq(family+"setlk", fa, unix.F_UNLCK, 40, 20))
				a.OK(fcntlReq(family+"setlk", fa, unix.F_UNLCK, 0, 40))
				a.OK(flockReq(fa, unix.LOCK_SH))
				wait := b.Go(fcntlReq(family+"setlkw", fb, unix.F_WRLCK, 60, 1))
				wait.MustBlock(t)
				end(a, fa)
				wait.OK()
				b.MustClose(fb)
			}
		})
	}
}
