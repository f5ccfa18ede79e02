package integration

import (
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// Readers of a file to which others append.

// passesThrough tells a script whether reads pass through to the file below the mount.
func passesThrough(t *testing.T) string {
	if strings.HasSuffix(t.Name(), "/root") {
		return "passes = True\n"
	}
	return "passes = False\n"
}

// A reader sees each line as soon as it was appended, whoever has opened the file first, until
// another program replaces the file: then the version stays that it has open, while the
// appenders go on in the new one.
func TestReaderFollowsAppenders(t *testing.T) {
	forEachMount(t, func(t *testing.T, m *Mount) {
		m.Python(t, passesThrough(t)+`
import mmap, os, subprocess
def other(command): subprocess.run(["setsid", "-w", "sh", "-c", command], check=True)
def check(r, want):
    got = os.pread(r, 1 << 16, 0)
    assert (got, os.fstat(r).st_size) == (want, len(want)), (got, os.fstat(r).st_size, want)
    with mmap.mmap(r, 0, prot=mmap.PROT_READ) as p: assert p[:] == want, (p[:], want)
for n, first in enumerate(("reader", "appender")):
    f = "f%d" % n
    with open(f, "w") as w: w.write("old\n")
    if first == "appender": other("echo 0 >> " + f)
    want = open(f, "rb").read()
    r = os.open(f, os.O_RDONLY)
    check(r, want)
    a = os.open(f, os.O_WRONLY | os.O_APPEND)
    late = os.open(f, os.O_RDONLY)
    for line in range(5):
        other("echo other >> " + f)
        want += b"other\n"
        check(r, want)
        check(late, want)
        os.write(a, b"own\n")
        want += b"own\n"
        check(r, want)
        check(late, want)
    other("echo NEW > " + f)
    os.write(a, b"line\n")
    check(r, want)
    check(late, want)
    other("echo other >> " + f)
    check(r, want)
    check(late, want)
    assert open(f).read() == "NEW\nline\nother\n"
    for fd in r, a, late: os.close(fd)

a = os.open("g", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
late = os.open("g", os.O_RDONLY)
want = b""
for part in (b"half", b" and half\n") * 5: # its own lines a program sees at once
    os.write(a, part)
    want += part
    if passes: os.fstat(late) # nobody asks the daemon before the file is read
    check(late, want)
`)
	})
}

// A program that watches a file hears of each append, whoever reads the file, and since when.
func TestWatchHearsAppends(t *testing.T) {
	forEachMount(t, func(t *testing.T, m *Mount) {
		m.Python(t, `
import ctypes, os, select, subprocess
def other(command): subprocess.run(["setsid", "-w", "sh", "-c", command], check=True)
libc, MODIFY = ctypes.CDLL(None), 2
def heard(watch):
    n = 0
    while select.select([watch], [], [], 0)[0]: n += len(os.read(watch, 4096)) // 16
    return n
for first in ("reader", "watch", "appender"):
    with open(first, "w") as w: w.write("old\n")
    if first == "appender": a = os.open(first, os.O_WRONLY | os.O_APPEND)
    if first != "watch":
        r = os.open(first, os.O_RDONLY)
        os.read(r, 100)
    watch = libc.inotify_init1(os.O_NONBLOCK)
    assert libc.inotify_add_watch(watch, first.encode(), MODIFY) > 0
    if first == "watch":
        r = os.open(first, os.O_RDONLY)
        os.read(r, 100)
    for line in range(3):
        other("echo line >> " + first)
        got = heard(watch), os.read(r, 100)
        assert got == (1, b"line\n"), (first, got)
        late = os.open(first, os.O_RDONLY)
        os.read(late, 100)
        other("echo line >> " + first)
        got = heard(watch), os.read(r, 100)
        assert got == (1, b"line\n"), (first, got)
        os.close(late)
        if first == "appender":
            os.write(a, b"line\n")
            got = heard(watch), os.read(r, 100)
            assert got == (1, b"line\n"), (first, got)
`)
	})
}

// The kernel keeps no pages for readers of what is appended to right now, or not at once: what
// it adds to these may be zeros. It keeps them for readers of every other file.
func TestReadersOfRecordsKeepNoPages(t *testing.T) {
	forEachMount(t, func(t *testing.T, m *Mount) {
		p := m.LaunchPython(t, passesThrough(t)+`
import ctypes, os, struct, subprocess, sys, time
libc = ctypes.CDLL(None, use_errno=True)
def pages(fd): # cachestat(2)
    span, got = struct.pack("QQ", 0, 0), ctypes.create_string_buffer(40)
    if libc.syscall(451, fd, span, got, 0):
        print("no cachestat: errno", ctypes.get_errno())
        sys.exit()
    return struct.unpack_from("Q", got)[0]
def keeps(name):
    r = os.open(name, os.O_RDONLY)
    os.read(r, 4096)
    n = pages(r)
    os.close(r)
    return n > 0
def check(name, want):
    got = keeps(name)
    assert got == (want and not passes), (name, got)
def make(name):
    with open(name, "w") as f: f.write("old\n")
    check(name, True)
    return os.open(name, os.O_WRONLY | os.O_APPEND)
a = make("whole")
b = os.open("whole", os.O_WRONLY | os.O_APPEND)
check("whole", False)
os.write(a, b"line\n")
os.close(a)
check("whole", False)
os.close(b)
for _ in range(1000): # the kernel tells of the last close when it has returned
    if passes or keeps("whole"): break
    time.sleep(0.01)
check("whole", True)

a = make("pieces")
os.write(a, b"ha")
os.write(a, b"lf\n")
os.close(a)

a = make("waits")
r = os.open("waits", os.O_RDONLY) # the kernel does not forget the file
print("opened", flush=True)
sys.stdin.readline() # another program has it open to write
os.write(a, b"line\n")
print("written", flush=True)
sys.stdin.readline()
os.close(a)

time.sleep(0.3) # for both to be closed, as the kernel tells
check("pieces", False)
check("waits", False)
a = make("replaced")
subprocess.run(["setsid", "-w", "sh", "-c", "echo new > replaced"], check=True)
check("replaced", True)
os.write(a, b"line\n")
check("replaced", False)

a = os.open("new", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
check("new", False)
`)
		p.AwaitLine("opened")
		holder := m.Client(t)
		fd := holder.Open("waits", unix.O_RDWR)
		p.Send("")
		p.AwaitLine("written")
		holder.MustClose(fd)
		p.Send("")
		p.OK()
	})
}

// What waits for its newline, or goes to the file that has the name now, is nothing that a
// reader finds behind the end of the file: no zeros either.
func TestReaderFindsNoZeros(t *testing.T) {
	inStress(t)
	forEachMount(t, func(t *testing.T, m *Mount) {
		m.Python(t, `
import os, subprocess, sys
writer = '''
import os, sys
how = sys.argv[1]
a = os.open(how, os.O_WRONLY | os.O_APPEND)
print("open", flush=True)
sys.stdin.readline()
if how == "replaced": os.spawnlp(os.P_WAIT, "setsid", "setsid", "-w", "sh", "-c", "echo new > " + how)
for n in range(1000):
    os.write(a, b"ha")
    os.write(a, b"lf\\n")
'''
def find(r, p):
    while p.poll() is None:
        for _ in range(50):
            got = os.pread(r, 4096, max(0, os.fstat(r).st_size - 20))
            assert b"\0" not in got, (how, got)
    assert p.returncode == 0
    os.close(r)
def start():
    p = subprocess.Popen([sys.executable, "-c", writer, how], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    p.stdout.readline()
    return p
def go(p):
    p.stdin.write("\n")
    p.stdin.flush()
for how in "replaced", "half", "again":
    with open(how, "w") as f: f.write("old\n")
    p = start()
    r = os.open(how, os.O_RDONLY)
    go(p)
    find(r, p)
    if how == "again":
        r = os.open(how, os.O_RDONLY) # before the next appender, and after the last one
        p = start()
        go(p)
        find(r, p)
`)
	})
}
