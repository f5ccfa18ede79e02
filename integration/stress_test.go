package integration

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// versions is what the programs below share: argv is seconds and seed. Every version
// that they write ends with its own checksum, so that whoever reads one can tell a
// complete version from anything else. They print what should not have happened.
const versions = `
import errno, fcntl, mmap, os, random, shutil, signal, sys, time, zlib
until, rnd = time.monotonic() + float(sys.argv[1]), random.Random(int(sys.argv[2]))
me = sys.argv[2]
expected = {None, errno.ENOENT, errno.EBUSY, errno.EDEADLK, errno.EAGAIN, errno.ENOTEMPTY, errno.EEXIST}
done = {}

def version():
    body = (str(rnd.random()) + "\n") * rnd.randrange(1, 3000)
    return f"{body}{zlib.crc32(body.encode())}\n"

def check(text, where):
    body, _, last = text.rstrip("\n").rpartition("\n")
    if not text or text[-1] != "\n" or str(zlib.crc32((body + "\n").encode())) != last:
        print(f"torn {where}: {len(text)} bytes {text[:30]!r}...{text[-30:]!r}")

def save(n):
    with open(n, "w") as f:
        f.write(version())

def update(n):
    with open(n, "r+") as f:
        check(f.read(), "update")
        f.seek(0)
        f.write(version())
        f.truncate()

def read(n):
    with open(n) as f:
        check(f.read(), "read")

def work():
    while time.monotonic() < until:
        op = rnd.choice(ops)
        try:
            op(rnd.choice(names))
            done["ok"] = done.get("ok", 0) + 1
        except OSError as e:
            done[e.errno] = done.get(e.errno, 0) + 1
            if e.errno not in expected:
                print(f"{op}: {e}")
    print("done", {errno.errorcode.get(k, k): v for k, v in done.items()})
`

// chaos does random operations on a few names until its time is up, and prints at
// last how much it did.
const chaos = versions + `
names = ["a", "b", "c", "d1/x", "d1/y", "d2/x"]

def careful(n):
    t = f"{os.path.dirname(n) or '.'}/t{me}"
    try:
        with open(t, "w") as f:
            f.write(version())
            if rnd.random() < 0.3:
                os.fsync(f.fileno())
        os.rename(t, n)
    except OSError:
        try: os.unlink(t)
        except OSError: pass
        raise

def locked(n):
    with open(n) as f:
        fcntl.flock(f, fcntl.LOCK_EX | (fcntl.LOCK_NB if rnd.random() < 0.5 else 0))
        save(n)

def two(n):
    with open(n, "r+"), open(rnd.choice(names), "r+"):
        pass

def half(n):
    with open(n, "w") as f:
        f.write(version()[:-3])
        f.flush()
        os.kill(os.getpid(), signal.SIGKILL)

def killed(n):
    op = rnd.choice([half] + ops)
    pid = os.fork()
    if pid == 0:
        try:
            op(n)
        except OSError as e:
            if e.errno not in expected:
                print(f"killed {op}: {e}", flush=True)
        os._exit(0)
    time.sleep(rnd.random() * 0.008)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)

def mapped(n):
    with open(n, "r+b") as f:
        size = os.fstat(f.fileno()).st_size
        if size < 100:
            return
        with mmap.mmap(f.fileno(), size) as m:
            check(m[:].decode(), "mapping")
            body = m[:20] * (size // 20 - 2)
            crc = str(zlib.crc32(body.decode().encode() + b"\n")).encode()
            new = body + b"\n" + crc + b"\n"
            f.truncate(max(size, len(new)))
            m[:min(size, len(new))] = new[:size]
            f.truncate(len(new))

def copy(n):
    to = rnd.choice(names)
    if to != n:
        shutil.copyfile(n, to)

def exclusive(n):
    with open(n, "x") as f:
        f.write(version())

def note(n):
    with open("notes.txt", "a") as f:
        f.write(f"{me} {'x' * rnd.randrange(100)} end\n")

def notes(n):
    with open("notes.txt") as f:
        for line in f:
            if not line.endswith(" end\n"):
                print(f"torn line {line!r}")

ops = [save, save, careful, careful, update, locked, read, read, read, two,
       mapped, copy, exclusive, note, notes, killed, killed,
       lambda n: os.unlink(n),
       lambda n: os.rename(n, rnd.choice(names)),
       lambda n: os.chmod(n, 0o644),
       lambda n: os.utime(n),
       lambda n: os.rename("d1", "d3") or os.rename("d3", "d1"),
       lambda n: os.listdir(os.path.dirname(n) or "."),
       lambda n: os.stat(n)]
work()
`

// Random operations by several processes at once: whoever reads, reads a
// complete version; nothing but the documented errors; nothing left behind.
func TestRandomOperations(t *testing.T) {
	inStress(t)
	alongside(t)
	const processes = 6
	length := time.Duration(repeat(4, 120)) * time.Second
	forEachMount(t, func(t *testing.T, m *Mount) {
		m.Mkdir("d1")
		m.Mkdir("d2")
		runStress(t, m, processes, length, func(int) string { return chaos })
	}, lockTimeout(2*time.Second))
}

// Files are created, saved, updated and removed in a directory that gets another
// name and its own again all the time: who has the lock has it under both names.
func TestSavesInARenamedDirectory(t *testing.T) {
	inStress(t)
	alongside(t)
	const savers = versions + `
names = ["d1/x", "d3/x"]
ops = [save, save, update, read, lambda n: os.unlink(n)]
work()
`
	const renamers = versions + `
names = ["d1", "d3"]
ops = [lambda n: os.rename(n, "d3" if n == "d1" else "d1"), os.listdir, os.stat]
work()
`
	length := time.Duration(repeat(3, 60)) * time.Second
	forEachMount(t, func(t *testing.T, m *Mount) {
		m.Mkdir("d1")
		runStress(t, m, 6, length, func(n int) string {
			if n < 2 {
				return renamers
			}
			return savers
		})
		for _, e := range m.Events() {
			if e.Event == "bypass" {
				t.Errorf("nobody wrote around the mount: %+v", e)
			}
		}
	}, lockTimeout(2*time.Second))
}

// runStress runs as many programs at once and passes on what they complain of.
func runStress(t *testing.T, m *Mount, processes int, length time.Duration, program func(n int) string) {
	t.Helper()
	seed := drawnSeed() % 1_000_000
	var procs []*Proc
	for n := range processes {
		procs = append(procs, m.LaunchPython(t, program(n), fmt.Sprint(length.Seconds()), fmt.Sprint(seed+int64(n))))
	}
	for n, p := range procs {
		out := p.OK()
		complaints, summary, _ := strings.Cut("\n"+out, "\ndone ")
		t.Logf("seed %d: %s", seed+int64(n), strings.TrimSpace(summary))
		if complaints != "" {
			t.Errorf("seed %d: %.2000s", seed+int64(n), complaints)
		}
	}
}
