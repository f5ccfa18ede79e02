package integration

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

const bigSize = 17 << 20 // more than is copied at an open

// bigFile makes a file of that size, with a hole in it.
func bigFile(data string) error {
	f, err := os.Create(filepath.Join(data, "big"))
	if err != nil {
		return err
	}
	defer f.Close()
	for _, at := range []int64{0, bigSize / 2} {
		if _, err := f.WriteAt(bytes.Repeat([]byte("0123456789abcdef"), bigSize/4/16), at); err != nil {
			return err
		}
	}
	return f.Truncate(bigSize)
}

// A program that edits a large file sees at each moment what it has written and the rest as
// it was, and so does everybody after its close, by whatever means it reads and writes.
func TestEditsOfALargeFile(t *testing.T) {
	forEachMount(t, func(t *testing.T, m *Mount) {
		m.Python(t, `
import mmap, os, random, tempfile
rnd = random.Random(6)
model = bytearray(open("big", "rb").read())
def whole():
    got = open("big", "rb").read()
    assert got == model, (len(got), len(model), next((i for i in range(min(len(got), len(model))) if got[i] != model[i]), -1))
def put(fd, at, data):
    assert os.pwrite(fd, data, at) == len(data)
    model[len(model):] = bytes(max(0, at + len(data) - len(model)))
    model[at:at + len(data)] = data
def near(n): return rnd.choice([0, 1, 4095, 4096, n // 4 - 2, n // 2 + 4096, n - 1, n, rnd.randrange(n)])
def check(fd, at, n): assert os.pread(fd, n, at) == model[at:at + n], (at, n)
for turn in range(8):
    flags = rnd.choice([os.O_RDWR, os.O_RDWR, os.O_RDWR | os.O_SYNC, os.O_RDWR | os.O_DSYNC])
    fd = os.open("big", flags)
    for step in range(rnd.randrange(1, 25)):
        at, n = near(len(model)), rnd.choice([1, 3, 4096, 5000, 70000])
        kind = rnd.random()
        if kind < 0.5: put(fd, at, bytes([rnd.randrange(256)]) * n)
        elif kind < 0.55: put(fd, at, bytes(n))
        elif kind < 0.9: check(fd, max(0, at - 3), n)
        elif kind < 0.92 and turn > 3:
            with mmap.mmap(fd, len(model)) as v:
                assert v[:] == model
                spot = rnd.randrange(len(model) - 9)
                v[spot:spot + 9] = model[spot:spot + 9] = b"in a page"
        elif kind < 0.94 and turn > 3: os.fsync(fd)
        elif kind < 0.96 and turn > 3:
            cut = rnd.randrange(len(model) - 70000, len(model) + 70000)
            os.ftruncate(fd, cut)
            del model[cut:]
            model.extend(bytes(cut - len(model)))
        elif kind < 0.98 and turn > 3:
            os.posix_fallocate(fd, 0, len(model) + 1000)
            model.extend(bytes(1000))
        elif turn > 3:
            with tempfile.TemporaryFile() as out:
                os.sendfile(out.fileno(), fd, at, n)
                out.seek(0)
                assert out.read() == model[at:at + n]
    check(fd, 0, len(model))
    assert os.fstat(fd).st_size == len(model)
    os.close(fd)
    whole()
`)
	}, withSeed(bigFile))
}

// An edit of a large file that nobody else has open leaves the file where it is; who has it
// open keeps what he has opened.
func TestReadersOfAnEditedLargeFile(t *testing.T) {
	forEachMount(t, func(t *testing.T, m *Mount) {
		m.Python(t, `
import mmap, os
def edit(mark):
    fd = os.open("big", os.O_RDWR)
    for at in 0, 17000000:
        assert os.pread(fd, 16, at) != mark
        os.pwrite(fd, mark, at)
        assert os.pread(fd, 16, at) == mark
    os.close(fd)
def marks(fd): return os.pread(fd, 16, 0), os.pread(fd, 16, 17000000)
def now():
    fd = os.open("big", os.O_RDONLY)
    try: return marks(fd)
    finally: os.close(fd)
reader = os.open("big", os.O_RDONLY)
before = marks(reader)
edit(b"the first edit..")
assert marks(reader) == before, marks(reader)
assert now() == (b"the first edit..",) * 2, now()
os.close(reader)
reader = os.open("big", os.O_RDONLY)
view = mmap.mmap(reader, 0, prot=mmap.PROT_READ)
os.close(reader)
edit(b"the second edit.")
assert view[:16] == view[17000000:17000016] == b"the first edit..", view[:16]
assert now() == (b"the second edit.",) * 2, now()
`)
		if *plain {
			return
		}
		before := statOf(t, filepath.Join(m.Data, "big"))
		eventually(t, "an edit leaves the file where it is", func() bool {
			// The kernel tells of the last close after that has returned.
			m.Python(t, `
import os
fd = os.open("big", os.O_RDWR)
os.pwrite(fd, os.urandom(16), 5000)
os.close(fd)
`)
			after := statOf(t, filepath.Join(m.Data, "big"))
			same := after.Ino == before.Ino
			before = after
			return same
		})
	}, withSeed(bigFile))
}

func statOf(t *testing.T, path string) (st unix.Stat_t) {
	t.Helper()
	if err := unix.Stat(path, &st); err != nil {
		t.Fatal(err)
	}
	return st
}

// Whoever opens a large file while others edit it sees each edit whole or not at all.
func TestEditsOfALargeFileAreWhole(t *testing.T) {
	forEachMount(t, func(t *testing.T, m *Mount) {
		m.Python(t, `
import os, sys
places = [0, 4096, 3000000, 9000000, 17000000]
def reader(stop):
    seen = set()
    while not os.path.exists(stop):
        fd = os.open("big", os.O_RDONLY)
        marks = {os.pread(fd, 16, at) for at in places}
        os.close(fd)
        assert len(marks) == 1, marks
        seen |= marks
    assert len(seen) > 1, seen
def writer(stop):
    for i in range(25):
        fd = os.open("big", os.O_RDWR)
        for at in places: os.pwrite(fd, b"edit %011d" % i, at)
        os.close(fd)
        fd = os.open("big", os.O_RDONLY)
        assert os.pread(fd, 16, 9000000) == b"edit %011d" % i
        os.close(fd)
with open("big", "r+b") as f:
    for at in places:
        f.seek(at)
        f.write(b"the beginning...")
workers = {}
for work in reader, reader, writer:
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            work("stop")
            code = 0
        finally: os._exit(code)
    workers[pid] = work
for _ in range(3):
    pid, status = os.wait()
    if workers[pid] == writer or status != 0: open("stop", "w").close()
    assert status == 0, workers[pid]
`)
	}, withSeed(bigFile), careless())
}

// A killed daemon leaves each edit of a large file whole or not done, and none undone that
// was acknowledged.
func TestCrashDuringEdits(t *testing.T) {
	needsLatchfs(t)
	m := mount(t, withSeed(bigFile))
	moment, last := drawn(t), 0
	for round := range repeat(6, 200) {
		p := m.LaunchPython(t, `
import os, sys
for i in range(int(sys.argv[1]), 10**6):
    fd = os.open("big", os.O_RDWR)
    for at in 0, 4096, 3000000, 9000000, 17000000: os.pwrite(fd, b"edit %011d" % i, at)
    os.close(fd)
    print("edit", i, flush=True)
`, strconv.Itoa(last+1))
		p.AwaitLine(fmt.Sprint("edit ", last+1+moment.IntN(4)))
		m.Crash(t)
		p.Wait()
		m.Start(t)
		lines := strings.Fields(p.Stdout())
		acknowledged, err := strconv.Atoi(lines[len(lines)-1])
		if err != nil {
			t.Fatal(err)
		}
		there := m.Python(t, `
fd = open("big", "rb")
marks = set()
for at in 0, 4096, 3000000, 9000000, 17000000:
    fd.seek(at)
    marks.add(fd.read(16))
assert len(marks) == 1, marks
print(int(marks.pop()[5:]))
`)
		if last, err = strconv.Atoi(strings.TrimSpace(there)); err != nil || last < acknowledged {
			t.Fatalf("round %d: edit %d was acknowledged, and %d is there: %v", round, acknowledged, last, err)
		}
	}
}

// What a program replaces that insists on an edit of an old version is kept, whatever the size.
func TestInsistentEditOfALargeFile(t *testing.T) {
	needsLatchfs(t)
	m := mount(t, withSeed(bigFile))
	for i, flags := range []string{"O_WRONLY", "O_RDWR"} {
		insistOnAnEdit(t, m, flags, "replaced "+strconv.Itoa(i))
	}
}

// insistOnAnEdit lets a program edit, by an open with those flags, what another has changed
// to mark since it read that.
func insistOnAnEdit(t *testing.T, m *Mount, flags, mark string) {
	p := m.LaunchPython(t, `
import errno, os, sys, time
os.close(os.open("big", os.O_RDONLY))
print("has read", flush=True)
input()
def edit():
    fd = os.open("big", getattr(os, sys.argv[1]))
    try: os.pwrite(fd, b"insists", 9000000)
    finally: os.close(fd)
try:
    edit()
    raise SystemExit("it was not refused")
except OSError as e: assert e.errno == errno.EBUSY, e
time.sleep(1.1) # that long an attempt counts as the same one
edit()
`, flags)
	p.AwaitLine("has read")
	m.Python(t, `
import os, sys
fd = os.open("big", os.O_RDWR)
os.pread(fd, 1, 0)
os.pwrite(fd, sys.argv[1].encode(), 9000000)
os.close(fd)
`, mark)
	p.Send("go on")
	p.OK()
	replaced := false
	for _, v := range m.Versions("big") {
		if v.Kept {
			content := m.Locks("history/big/" + strconv.Itoa(v.Version))
			replaced = replaced || strings.HasPrefix(content[9000000:], mark)
		}
	}
	if !replaced {
		t.Errorf("%s: what was replaced is not kept: %+v", flags, m.Versions("big"))
	}
}
