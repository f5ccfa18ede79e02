package integration

import (
	"fmt"
	"testing"
)

// Threads of one process that write a file and change its mode and attributes
// at the same moments are one family, so that no lock keeps them apart. None is refused,
// and none of their changes is taken for one around the mount.
func TestThreadsThatChangeOneFile(t *testing.T) {
	inStress(t)
	const script = `
import os, random, sys, threading
def written(r, n):
    with open(n, "w") as f: f.write("x" * r.choice([1, 100, 5000, 70000]))
def patched(r, n):
    fd = os.open(n, os.O_RDWR | os.O_CREAT)
    os.pread(fd, 100, 0); os.pwrite(fd, b"y" * 100, r.choice([0, 50, 5000]))
    os.close(fd)
def handed_on(r, n):
    fd = os.open(n, os.O_WRONLY | os.O_CREAT)
    copy = os.dup(fd)
    os.write(fd, b"d"); os.close(fd); os.write(copy, b"e"); os.close(copy)
def mode(r, n): os.chmod(n, r.choice([0o600, 0o644, 0o664]))
def attribute(r, n): os.setxattr(n, "user.x", b"%d" % r.randrange(9))
calls = [written, patched, handed_on, mode, attribute]
names = ["a", "b"]
for n in names: open(n, "w").close()
def work(k):
    r = random.Random(int(sys.argv[2]) * 100 + k)
    for _ in range(int(sys.argv[1])):
        call = r.choice(calls)
        try: call(r, r.choice(names))
        except OSError as e: print(call.__name__, e)
threads = [threading.Thread(target=work, args=(k,)) for k in range(6)]
for t in threads: t.start()
for t in threads: t.join()
`
	forEachMount(t, func(t *testing.T, m *Mount) {
		seed := fmt.Sprint(drawnSeed())
		if out := m.Python(t, script, fmt.Sprint(repeat(60, 5000)), seed); out != "" {
			t.Errorf("seed %s: %s", seed, out)
		}
	})
}
