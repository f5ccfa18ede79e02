package integration

import (
	"runtime"
	"strings"
	"testing"
)

// warmHolders is a program that has saved often, so that the daemon has files of /proc
// open for it. It then leaves the file "f" open in a way that its own close does not end,
// says so, waits, and ends it. Each way is a function that leaves the file to somebody, and
// returns what ends that. Its argument is how many threads it has that do nothing.
const warmHolders = `
import ctypes, mmap, os, socket, subprocess, sys, threading
libc = ctypes.CDLL(None, use_errno=True)

def save(name, text):
    fd = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    os.write(fd, text)
    return fd

def child(work):
    r, w = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(w)
        os.read(r, 1)
        work()
        os._exit(0)
    os.close(r)
    def end():
        os.write(w, b"x")
        os.close(w)
        os.waitpid(pid, 0)
    return end

def dup():
    fd = save("f", b"one ")
    again = os.dup(fd)
    os.close(fd)
    return lambda: (os.write(again, b"two"), os.close(again))

def dup_high():
    fd = save("f", b"one ")
    os.dup2(fd, 200)
    os.close(fd)
    return lambda: (os.write(200, b"two"), os.close(200))

def in_another_place():
    low = os.open("/dev/null", os.O_WRONLY)  # a number that the daemon has seen as /dev/null
    os.close(save("other", b"x"))
    fd = save("f", b"one ")
    os.dup2(fd, low)
    os.close(fd)
    return lambda: (os.write(low, b"two"), os.close(low))

def fork():
    fd = save("f", b"one ")
    end = child(lambda: os.write(fd, b"two"))
    os.close(fd)
    return end

def fork_by_thread():
    fd, ends = save("f", b"one "), []
    done = threading.Event()
    def run():
        ends.append(child(lambda: os.write(fd, b"two")))
        done.wait()
    t = threading.Thread(target=run)
    t.start()
    while not ends: pass
    os.close(fd)
    return lambda: (ends[0](), done.set(), t.join())

def fork_by_thread_that_ends():
    fd, ends = save("f", b"one "), []
    t = threading.Thread(target=lambda: ends.append(child(lambda: os.write(fd, b"two"))))
    t.start()
    t.join()
    os.close(fd)
    return ends[0]

def grandchild():
    fd = save("f", b"one ")
    r, w = os.pipe()
    os.set_inheritable(fd, True)
    p = subprocess.Popen(["bash", "-c", "exec 9<&0; bash -c 'read x <&9; printf two >&%d' & wait" % fd], stdin=r, close_fds=False)
    os.close(r)
    os.close(fd)
    return lambda: (os.write(w, b"x\n"), os.close(w), p.wait())

def spawn():
    fd = save("f", b"one ")
    r, w = os.pipe()
    p = subprocess.Popen(["sh", "-c", "read x; printf two"], stdin=r, stdout=fd)
    os.close(r)
    os.close(fd)
    return lambda: (os.write(w, b"x\n"), os.close(w), p.wait())

def passed_to_older_child():
    ours, theirs = socket.socketpair()
    def work():
        fds = socket.recv_fds(theirs, 1, 1)[1]
        theirs.send(b"got")
        theirs.recv(1)
        os.write(fds[0], b"two")
    end = child(work)
    for i in range(5): os.close(save("other", b"x"))  # the daemon sees the child, asleep
    fd = save("f", b"one ")
    socket.send_fds(ours, [b"x"], [fd])
    t = threading.Thread(target=end)  # lets the child begin, and waits for it
    t.start()
    ours.recv(3)
    os.close(fd)
    return lambda: (ours.send(b"x"), t.join())

CLONE_FILES, SIGCHLD = 0x400, 17
def shared_table():
    fd = save("f", b"one ")
    r, w = os.pipe()
    r2, w2 = os.pipe()
    pid = libc.syscall(56, CLONE_FILES | SIGCHLD, 0, 0, 0, 0)
    if pid == 0:
        libc.unshare(CLONE_FILES)  # a copy of the table, with the file
        os.write(w2, b"x")
        os.read(r, 1)
        os.write(fd, b"two")
        os._exit(0)
    os.read(r2, 1)
    os.close(fd)
    return lambda: (os.write(w, b"x"), os.waitpid(pid, 0))

def mapping():
    fd = os.open("f", os.O_RDWR | os.O_TRUNC)
    os.write(fd, b"one ...")
    m = mmap.mmap(fd, 7)
    os.close(fd)
    def end():
        m[4:] = b"two"
        m.close()
    return end

for _ in range(int(sys.argv[1])): threading.Thread(target=threading.Event().wait, daemon=True).start()
ways = [dup, dup_high, in_another_place, fork, fork_by_thread, fork_by_thread_that_ends, grandchild, spawn, passed_to_older_child, mapping]
if os.uname().machine == "x86_64": ways.append(shared_table)
for way in ways:
    for i in range(5): os.close(save("other", b"x"))
    os.close(save("f", b"old"))
    end = way()
    print(way.__name__, flush=True)
    sys.stdin.readline()
    end()
    print(way.__name__ + " over", flush=True)
    sys.stdin.readline()
print("all", flush=True)
`

// A program of which much is known by heart: who else holds what it closes is seen all the
// same, also where its other threads are not asked for their children.
func TestHoldersBesideAWarmProgram(t *testing.T) {
	forEachMount(t, func(t *testing.T, m *Mount) {
		for _, threads := range []string{"0", "8"} {
			p := m.LaunchPython(t, warmHolders, threads)
			for _, way := range strings.Fields("dup dup_high in_another_place fork fork_by_thread fork_by_thread_that_ends grandchild spawn passed_to_older_child mapping") {
				awaitWay(t, m, p, way)
			}
			if runtime.GOARCH == "amd64" {
				awaitWay(t, m, p, "shared_table")
			}
			p.AwaitLine("all")
			p.OK()
		}
	})
}

// awaitWay looks at the file between the close and the end of another holder.
func awaitWay(t *testing.T, m *Mount, p *Proc, way string) {
	t.Helper()
	p.AwaitLine(way)
	if got := m.ReadFile("f"); got != "old" {
		t.Errorf("%s: while the file is held it has %q", way, got)
	}
	p.Send("")
	p.AwaitLine(way + " over")
	eventually(t, way, func() bool { return m.ReadFile("f") == "one two" })
	p.Send("")
}
