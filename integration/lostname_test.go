package integration

import "testing"

// A file that was renamed a moment ago is opened at once by whatever leads to it now, also if
// a name that it has lost has become one of a symbolic link to it.
func TestLostNameThatIsALink(t *testing.T) {
	needsLatchfs(t)
	const script = `
import ctypes, os
mnt = os.getcwd()
def exchange(a, b): assert ctypes.CDLL(None).renameat2(-100, a.encode(), -100, b.encode(), 2) == 0
def save(name, text):
    with open(name, "w") as f: f.write(text)
def beside(): # a link in another directory
    os.mkdir("d"); save("d/f", "old"); os.rename("d/f", "g"); os.symlink("../g", "d/f"); return "d/f", "g"
def same():
    save("f", "old"); os.rename("f", "f.real"); os.symlink("f.real", "f"); return "f", "f.real"
def absolute():
    save("f", "old"); os.rename("f", "f.real"); os.symlink(os.getcwd() + "/f.real", "f"); return os.getcwd() + "/f", "f.real"
def exchanged():
    os.mkdir("d"); save("c", "old"); save("d/b", "p"); exchange("c", "d/b"); os.symlink("b", "d/c"); return "d/c", "d/b"
def directory():
    os.mkdir("d"); os.mkdir("e"); save("d/f", "old"); os.rename("d/f", "e/f"); os.rmdir("d"); os.symlink("e", "d"); return "d/f", "e/f"
def hard():
    save("f", "old"); os.rename("f", "g"); os.rename("g", "h"); os.link("h", "f"); os.link("h", "k"); return "f", "h"
def outside(): # a link that no mount has
    link = os.path.dirname(mnt) + "/f"
    save("f", "old"); os.symlink(os.getcwd() + "/f", link); os.rename("f", "g")
    os.remove(link); os.symlink(os.getcwd() + "/g", link); return link, "g"
for case in beside, same, absolute, exchanged, directory, hard, outside:
    os.mkdir(case.__name__); os.chdir(case.__name__)
    by, file = case()
    try:
        with open(by) as f: f.read()
        save(by, "one"); save(by, "two")
        with open(file) as f: got = f.read()
        if got != "two": print(case.__name__, "holds", got)
    except OSError as e: print(case.__name__, "->", e)
    os.chdir(mnt)
`
	forEachMount(t, func(t *testing.T, m *Mount) {
		if out := m.Python(t, script); out != "" {
			t.Error(out)
		}
		if out := m.Bash(t, `cd same && mv f.real f.old && rm f && echo 1 > h; mv h h.real; ln -s h.real h; echo 3 > h && cat h.real`); out.Stdout != "3\n" {
			t.Errorf("a shell says %q", out)
		}
	})
}

// A program opens a file through a descriptor of it (O_PATH), changes nothing, and removes the
// file before it closes that. The descriptor leads to what the file held.
func TestDescriptorOfARemovedFile(t *testing.T) {
	alongside(t)
	const script = `
import os, subprocess, time
subprocess.run(["sh", "-c", "yes | head -c 17M > f"], check=True) # more than is copied at an open
descriptor = os.open("f", os.O_PATH)
w = os.open("/proc/self/fd/%d" % descriptor, os.O_RDWR)
os.unlink("f")
os.close(w)
for _ in range(500): # the kernel tells some time after the close that nobody has the file open
    with open("/proc/self/fd/%d" % descriptor) as f: text = f.read(4)
    if text: break
    time.sleep(0.01)
print(repr(text), os.stat(descriptor).st_size, os.stat(descriptor).st_nlink)
`
	forEachMount(t, func(t *testing.T, m *Mount) { m.AsOnPlain(t, "the program", bench.python, "-c", script) })
}

// A program has a large file open to read and to write, changes nothing, and closes the latter.
// What it has open to read holds what the file holds, and so does what is opened again.
func TestReaderBesideAnUnchangedLargeFile(t *testing.T) {
	needsLatchfs(t)
	const script = `
import mmap, os, subprocess
subprocess.run(["sh", "-c", "yes | head -c 17M > f"], check=True) # more than is copied at an open
def check(when, r):
    for at in 0, 9 << 20, (17 << 20) - 4:
        got = os.pread(r, 4, at)
        if got != b"y\ny\n": print(when, "at", at, "reads", got)
    if os.lseek(r, 0, os.SEEK_HOLE) != 17 << 20: print(when, "finds a hole")
    with mmap.mmap(r, 0, prot=mmap.PROT_READ) as m:
        if m[5 << 20] != ord("y"): print(when, "maps", m[5 << 20])
for flags in os.O_RDWR, os.O_WRONLY:
    w = os.open("f", flags); r = os.open("f", os.O_RDONLY)
    check("before", r)
    os.close(w)
    check("between", r)
    while os.path.exists(".locks/held/f.lock"): pass
    check("afterwards", r)
    again = os.open("f", os.O_RDONLY); check("again", again); os.close(again)
    os.close(r)
`
	forEachMount(t, func(t *testing.T, m *Mount) {
		if out := m.Python(t, script); out != "" {
			t.Error(out)
		}
	})
}

// A large file that a program has open to write, and has not written, becomes live with all that
// it holds: by a byte-range lock, by a name that is live, by a database's marker beside it.
func TestLargeFileGoesLive(t *testing.T) {
	needsLatchfs(t)
	const script = `
import fcntl, os, subprocess
def check(when, name):
    with open(name, "rb") as f:
        if f.read() != b"y\n" * (17 << 19): print(when, "the file holds something else")
def locks(fd): fcntl.lockf(fd, fcntl.LOCK_EX)
def links(fd): os.link("links/f", "links/f.db-journal")
def marks(fd): open("marks/PG_VERSION", "w").write("17")
for lives in locks, links, marks:
    name = lives.__name__ + "/f"
    os.mkdir(lives.__name__)
    subprocess.run("yes | head -c 17M > " + name, shell=True, check=True) # more than is copied at an open
    fd = os.open(name, os.O_RDWR); r = os.open(name, os.O_RDONLY)
    lives(fd)
    check(lives.__name__, name)
    os.pwrite(fd, b"x\n", 9 << 20); os.pwrite(fd, b"y\n", 9 << 20)
    for by in fd, r:
        if os.pread(by, 2, 9 << 20) != b"y\n": print(lives.__name__, os.pread(by, 2, 9 << 20))
    os.close(fd); os.close(r)
    check("at the end of " + lives.__name__, name)
`
	forEachMount(t, func(t *testing.T, m *Mount) {
		if out := m.Python(t, script); out != "" {
			t.Error(out)
		}
	})
}
