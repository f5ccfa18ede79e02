package integration

import "testing"

// What a program changes of the metadata of a new file before it renames it comes before
// what it writes after that, and is done once: the close changes nothing.
func TestMetadataOfANewFileThatIsRenamedWhileOpen(t *testing.T) {
	const program = `
import os
def show(name):
    st = os.stat(name)
    print(name, int(st.st_mtime) if st.st_mtime < 1e8 else "now", "%o" % st.st_mode,
        [(a, os.getxattr(name, a)) for a in os.listxattr(name)], open(name).read())
def times(f): os.utime(f, (1e6, 1e6))
def flags(f): os.setxattr(f, "user.a", b"1", os.XATTR_CREATE)
def mode(f): os.fchmod(f, 0o600)
for change in times, flags, mode:
    for old in False, True:
        for last in False, True:
            a, b = "new %s %d %d" % (change.__name__, old, last), "name %s %d %d" % (change.__name__, old, last)
            if old: open(b, "w").write("old")
            f = os.open(a, os.O_RDWR | os.O_CREAT, 0o644)
            os.write(f, b"1")
            change(f)
            if not last: os.write(f, b"2")
            os.rename(a, b); show(b)
            os.close(f); show(b)
# What is changed after the rename counts.
for change in times, flags, mode:
    f = os.open("later", os.O_RDWR | os.O_CREAT, 0o644)
    os.write(f, b"1")
    os.utime(f, (2e6, 2e6))
    os.rename("later", change.__name__)
    change(f)
    os.close(f); show(change.__name__)
# Both names are there for an exchange.
open("there", "w").write("there")
f = os.open("here", os.O_RDWR | os.O_CREAT, 0o644)
os.write(f, b"1"); times(f); flags(f); os.write(f, b"2")
import ctypes
if ctypes.CDLL(None, use_errno=True).renameat2(-100, b"here", -100, b"there", 2):
    raise OSError(ctypes.get_errno(), "renameat2")
os.close(f); show("here"); show("there")
`
	forEachMount(t, func(t *testing.T, m *Mount) {
		m.AsOnPlain(t, "the program", bench.python, "-c", program)
	})
}

// A directory from which an open file was renamed away is empty, also if its program has synced
// the file before.
func TestEmptiedDirectoryOfARenamedFile(t *testing.T) {
	alongside(t)
	needsLatchfs(t)
	const script = `
import os
def moved(flags, name):
    os.mkdir("d"); os.mkdir("e")
    open("d/old", "w").write("old")
    fd = os.open("d/" + name, flags, 0o644)
    os.write(fd, b"x")
    os.fsync(fd)
    os.rename("d/" + name, "e/" + name)
    for other in os.listdir("d"): os.unlink("d/" + other)
    os.rmdir("d")
    os.write(fd, b"y")
    os.fsync(fd)
    os.close(fd)
    print(os.path.exists("d"), os.listdir("e"), open("e/" + name).read())
    os.unlink("e/" + name); os.rmdir("e")
moved(os.O_RDWR | os.O_CREAT | os.O_EXCL, "f")
moved(os.O_RDWR | os.O_TRUNC, "old")
moved(os.O_RDWR, "old")
`
	forEachMount(t, func(t *testing.T, m *Mount) {
		m.AsOnPlain(t, "the program", bench.python, "-c", script)
	})
}
