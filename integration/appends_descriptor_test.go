package integration

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// What a program that has a file open to append does with its descriptor.

// A file that was emptied, or replaced, under those who append to it has for them the size
// that it has now: loggers that turn their files over by size ask their descriptor.
func TestAppenderSeesTheSizeOfItsFile(t *testing.T) {
	forEachMount(t, func(t *testing.T, m *Mount) {
		m.Python(t, `
import logging.handlers, os, subprocess
def sizes(fd): return os.fstat(fd).st_size, os.lseek(fd, 0, os.SEEK_END)
def check(want): assert sizes(fd) == (want, want), (sizes(fd), want)
long = "0123456789\n" * 100
for how in ": > f", "cp f f.1 && truncate -s 0 f", "printf 'x\\n' > t && mv t f":
    with open("f", "w") as f: f.write(long)
    fd = os.open("f", os.O_WRONLY | os.O_APPEND)
    check(len(long))
    subprocess.run(how, shell=True, check=True)
    check(os.stat("f").st_size)
    os.write(fd, b"line\n")
    check(os.stat("f").st_size)
    old = open("/proc/self/fd/%d" % fd) # may be the old version: it stays whole
    assert len(old.read()) in (len(long), os.stat("f").st_size)
    old.close()
    os.close(fd)

with open("app.txt", "w") as f: f.write(long)
h = logging.handlers.RotatingFileHandler("app.txt", maxBytes=len(long), backupCount=3)
subprocess.run(": > app.txt", shell=True, check=True)
log = logging.getLogger("x")
log.addHandler(h)
for n in range(3): log.warning("%d", n)
assert open("app.txt").read() == "0\n1\n2\n"
assert not os.path.exists("app.txt.1")
`)
	})
}

// What a program appends comes before what it does next through other descriptors of the file, and
// never to another file of that name.
func TestAppenderBesideOwnWriter(t *testing.T) {
	scripts := map[string]string{
		"half a line, and a write": `
f, g = os.open("f", W | A | C), os.open("f", os.O_RDWR); os.write(f, b"abc"); os.write(g, b"ABCDE"); os.write(f, b"f"); os.pwrite(g, b"123456789", 0)
os.close(f); os.close(g); show("f")`,
		"half a line, and room": `
f, g = os.open("f", W | A | C), os.open("f", W); os.write(f, b"abc"); os.posix_fallocate(g, 0, 9); os.close(g); os.close(f); show("f")`,
		"half a line, and bits": `
f = os.open("f", W | A | C, 0o644); os.write(f, b"abc"); os.fchmod(f, 0o4755); os.close(f); show("f")
f = os.open("f", W | A); os.write(f, b"def"); os.chmod("f", 0o6755); os.close(f); show("f")`,
		"removed, and made anew": `
f = os.open("f", W | A | C); os.write(f, b"old\n"); os.unlink("f"); g = os.open("f", W | C | os.O_EXCL)
os.write(f, b"more\nha"); os.posix_fallocate(f, 0, 99); os.write(g, b"new\n"); print(os.fstat(f).st_size, os.fstat(f).st_nlink)
os.close(g); os.write(f, b"lf"); os.ftruncate(f, 3); print(os.fstat(f).st_size); os.close(f); show("f")`,
	}
	forEachMount(t, func(t *testing.T, m *Mount) {
		for name, script := range scripts {
			m.AsOnPlain(t, name, "bash", "-c", "rm -rf w; mkdir w; cd w; exec "+bench.python+` -c '
import os
W, A, C = os.O_WRONLY, os.O_APPEND, os.O_CREAT
def show(name): print("%o" % os.stat(name).st_mode, open(name).read())
`+script+"' 2>&1")
		}
	})
}

// Who takes O_APPEND off a descriptor writes to a place in the file. That is refused: it
// would come to the end, with success.
func TestAppenderThatWouldWriteInside(t *testing.T) {
	forEachMount(t, func(t *testing.T, m *Mount) {
		m.Python(t, `
import errno, fcntl, os
fd = os.open("f", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
os.write(fd, b"first\n")
fcntl.fcntl(fd, fcntl.F_SETFL, fcntl.fcntl(fd, fcntl.F_GETFL) & ~os.O_APPEND)
try:
    os.pwrite(fd, b"F", 0)
    raise SystemExit("written")
except OSError as e:
    assert e.errno == errno.EOPNOTSUPP, e
why = open(".locks/why").read()
assert "f was left as it was" in why and "O_APPEND" in why, why
fcntl.fcntl(fd, fcntl.F_SETFL, fcntl.fcntl(fd, fcntl.F_GETFL) | os.O_APPEND)
os.write(fd, b"second\n")
os.close(fd)
`)
		if got := m.ReadFile("f"); got != "first\nsecond\n" {
			t.Errorf("%q", strings.TrimSpace(got))
		}
	})
}

// A program that does not take O_APPEND off, but asks for one write that does not append, is
// refused in the same way. What it appends goes to the end wherever that is by now.
func TestAppenderThatWritesInsideOnce(t *testing.T) {
	plain, err := os.OpenFile(filepath.Join(t.TempDir(), "f"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer plain.Close()
	if _, err := unix.Pwritev2(int(plain.Fd()), [][]byte{{'x'}}, 0, unix.RWF_NOAPPEND); err == unix.EOPNOTSUPP {
		t.Skip("the kernel has no RWF_NOAPPEND (Linux 6.9)")
	}
	forEachMount(t, func(t *testing.T, m *Mount) {
		m.Python(t, `
import errno, os, subprocess
NOAPPEND = 0x20
fd = os.open("f", os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o644)
os.write(fd, b"first\n")
for offset in 0, 3, 100:
    try:
        os.pwritev(fd, [b"F"], offset, NOAPPEND)
        raise SystemExit("written")
    except OSError as e:
        assert e.errno == errno.EOPNOTSUPP, e
why = open(".locks/why").read()
assert "f was left as it was" in why and "RWF_NOAPPEND" in why, why
subprocess.run("echo second >> f", shell=True, check=True)
os.pwritev(fd, [b"thi"], 0, 0)
os.pwritev(fd, [b"rd\n"], 0, 0)
os.close(fd)
`)
		if got := m.ReadFile("f"); got != "first\nsecond\nthird\n" {
			t.Errorf("%q", got)
		}
	})
}

// What is stored through a mapping of a file that is open to append goes to its place in that
// file, whatever its name has by now, and what is appended to the end of what has the name.
func TestStoresBesideAppends(t *testing.T) {
	forEachMount(t, func(t *testing.T, m *Mount) {
		m.Python(t, `
import fcntl, mmap, os, subprocess
size = 5000 # the last page is not full
def fresh(name, how=0):
    with open(name, "wb") as f: f.write(b"A" * size)
    fd = os.open(name, os.O_RDWR | os.O_APPEND | how)
    if how: os.write(fd, b"A" * size)
    return fd
def check(name, want):
    with open(name, "rb") as f: got = f.read()
    assert got == want, (name, len(got), got[:4], got[size - 4:])
def stored(end=b""): return b"zz" + b"A" * (size - 4) + b"yy" + end
def store(m, first=b"zz", last=b"yy"): m[:2], m[size - 2:size] = first, last

for name, how in ("f", 0), ("live.db", 0), ("becomes-live", os.O_TRUNC):
    fd = fresh(name, how)
    if how: fcntl.lockf(fd, fcntl.LOCK_EX, 1, 0)
    m = mmap.mmap(fd, size)
    store(m)
    m.close()
    os.close(fd)
    check(name, stored())

# Between appends, its own and those of others; synced; after the close.
fd = fresh("f")
m = mmap.mmap(fd, size)
os.write(fd, b"one\ntw")
store(m)
os.write(fd, b"o\n")
m.flush()
os.fsync(fd)
check("f", stored(b"one\ntwo\n"))
subprocess.run("echo three >> f", shell=True, check=True)
store(m, b"xx")
os.close(fd)
m.close()
check("f", b"xx" + stored(b"one\ntwo\nthree\n")[2:])
# That was nobody else's change.
with open("f", "r+b") as f: f.write(b"w")

# What has taken the name is not written.
fd = fresh("f")
m = mmap.mmap(fd, size)
m[0] # the page is there
subprocess.run("echo new > t && mv t f", shell=True, check=True)
store(m)
m.flush()
os.write(fd, b"line\n")
m.close()
os.close(fd)
check("f", b"new\nline\n")
`)
	})
}

// Who has a file open to append, which somebody else has replaced since, and saves it
// himself: the close is the commit. His old descriptor does not write the new version.
func TestSaveBesideAnAppenderOfAnEarlierVersion(t *testing.T) {
	forEachMount(t, func(t *testing.T, m *Mount) {
		for _, replace := range []string{"echo other > f", "echo other > t && mv t f"} {
			m.WriteFile("f", "old\n")
			a := m.Client(t)
			logger := a.Open("f", unix.O_WRONLY|unix.O_APPEND)
			m.Launch(t, "sh", "-c", replace).OK()
			fd := a.Open("f", unix.O_WRONLY|unix.O_TRUNC)
			a.Write(fd, "saved\n")
			a.MustClose(fd)
			if got := m.ReadFile("f"); got != "saved\n" {
				t.Errorf("after %q and a save: %q", replace, got)
			}
			second := a.Open("f", unix.O_RDWR|unix.O_APPEND)
			a.Write(second, "line\n")
			m.Launch(t, "sh", "-c", "echo other >> f").OK()
			a.Write(logger, "first\n")
			if got, want := m.ReadFile("f"), "saved\nline\nother\nfirst\n"; got != want {
				t.Errorf("after %q and a save: %q, want %q", replace, got, want)
			}
		}
	})
}

// A program that appends to a file by one descriptor, or cuts it, and writes it by another
// gets what it gets on a plain directory, whichever of the file's names it has opened.
func TestAppenderBesideItsOwnWriter(t *testing.T) {
	alongside(t)
	needsLatchfs(t)
	const script = `
import os
def show(): print(open('m').read(), end=';')
def save(what):
    with open('m', 'w') as f: f.write(what)
save('0123456789'); a = os.open('m', os.O_WRONLY | os.O_APPEND); w = os.open('m', os.O_WRONLY)
os.ftruncate(a, 3); os.pwrite(w, b'WW', 2); os.close(w); show(); os.write(a, b'end\n'); os.close(a); show()
save('0123456789'); a = os.open('m', os.O_WRONLY | os.O_APPEND); w = os.open('m', os.O_WRONLY | os.O_TRUNC)
os.write(w, b'hello'); os.ftruncate(a, 3); os.close(a); os.close(w); show()
save('old\n'); os.link('m', 'bak'); w = os.open('m', os.O_WRONLY); a = os.open('bak', os.O_WRONLY | os.O_APPEND)
os.write(w, b'NEW'); os.write(a, b'more\n'); os.close(a); os.close(w); show(); print(open('bak').read())
w = os.open('m', os.O_WRONLY); os.write(w, b'N'); a = os.open('bak', os.O_WRONLY | os.O_APPEND)
os.write(a, b'again\n'); os.ftruncate(a, 7); os.close(a); os.close(w); show(); print(open('bak').read())
`
	forEachMount(t, func(t *testing.T, m *Mount) {
		m.AsOnPlain(t, "the program", bench.python, "-c", script)
	})
}

// A truncation through an append descriptor drops the setuid bit, and the setgid bit of a file
// that its group may not execute only for those who are not in the group.
func TestAppenderThatTruncatesAndPrivileges(t *testing.T) {
	alongside(t)
	needsLatchfs(t)
	const script = `
import os
os.mkdir("w")
os.chmod("w", 0o777)
if os.geteuid() == 0:
    os.setgroups([]); os.setgid(4242); os.setuid(4242)
for mode in 0o6664, 0o6674, 0o4664:
    fd = os.open("w/f", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.write(fd, b"line\n")
    os.fchmod(fd, mode)
    os.ftruncate(fd, 2)
    print(oct(os.stat("w/f").st_mode), os.stat("w/f").st_size)
    os.close(fd)
    os.unlink("w/f")
`
	forEachMount(t, func(t *testing.T, m *Mount) {
		m.AsOnPlain(t, "the program", bench.python, "-c", script)
	})
}
