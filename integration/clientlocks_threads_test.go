package integration

import (
	"fmt"
	"testing"
)

// Threads of one process are one locker to fcntl(2): what one of them waits for
// may become part of what another has got meanwhile.
func TestThreadsLockTogether(t *testing.T) {
	inStress(t)
	const script = `
import errno, fcntl, os, struct, sys, threading
rounds = int(sys.argv[1])
def lk(type, start, len): return struct.pack("hhqqi4x", type, os.SEEK_SET, start, len, 0)
def work(start, len):
    for _ in range(rounds):
        for type in fcntl.F_RDLCK, fcntl.F_WRLCK, fcntl.F_UNLCK:
            try:
                fcntl.fcntl(fd, fcntl.F_SETLKW, lk(type, start, len))
            except OSError as e:
                # Another thread's range may close what looks like a cycle.
                if e.errno != errno.EDEADLK:
                    print(errno.errorcode[e.errno])
children = []
for _ in range(2):
    pid = os.fork()
    if pid == 0:
        fd = os.open("x.lock", os.O_RDWR)
        threads = [threading.Thread(target=work, args=(10 * n, 25)) for n in range(6)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        sys.stdout.flush()
        os._exit(0)
    children.append(pid)
for pid in children:
    os.waitpid(pid, 0)
`
	forEachMount(t, func(t *testing.T, m *Mount) {
		m.WriteFile("x.lock", "x")
		if out := m.Python(t, script, fmt.Sprint(repeat(30, 1000))); out != "" {
			t.Errorf("threads that lock overlapping ranges: %q", out)
		}
	})
}

// A file goes live by the first lock of a read-write descriptor. Threads that open
// and lock it at that moment get the same file: nobody is refused, no write is lost.
func TestThreadsLockWhatGoesLive(t *testing.T) {
	inStress(t)
	const script = `
import fcntl, os, struct, sys, threading
threads = 12
def work(name, n):
    begin.wait()
    try:
        fd = os.open(name, os.O_RDWR)
        fcntl.fcntl(fd, fcntl.F_OFD_SETLKW, struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, n * 100, 100, 0))
        os.pwrite(fd, b"%x" % n, n * 100)
        os.close(fd)
    except OSError as e:
        print(e)
for k in range(int(sys.argv[1])):
    name = f"{k}.bin"
    with open(name, "wb") as f:
        f.write(b"." * threads * 100)
    begin = threading.Barrier(threads)
    all = [threading.Thread(target=work, args=(name, n)) for n in range(threads)]
    for t in all:
        t.start()
    for t in all:
        t.join()
    got = open(name, "rb").read()[::100]
    if got != b"0123456789ab":
        print(got)
`
	forEachMount(t, func(t *testing.T, m *Mount) {
		if out := m.Python(t, script, fmt.Sprint(repeat(40, 2000))); out != "" {
			t.Errorf("threads that lock a file for the first time: %s", out)
		}
	})
}
