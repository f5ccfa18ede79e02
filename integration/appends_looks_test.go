package integration

import "testing"

// What a program appends is there when the same program looks at the file by its name.

// The end of a line does not hide between the descriptor and the file while another thread
// of the program closes the descriptor.
func TestAppenderSeesItsLineBesideItsClose(t *testing.T) {
	forEachMount(t, func(t *testing.T, m *Mount) {
		m.Python(t, `
import os, threading
def look(path):
    with open(path, "rb") as f: return f.read()
def bare(path):
    fd = os.open(path, os.O_RDONLY)
    try: return os.read(fd, 100)
    finally: os.close(fd)
for n in range(100):
    for name, before in ("new%d" % n, b""), ("old%d" % n, b"old\n"):
        if before:
            with open(name, "wb") as f: f.write(before)
        fd = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        os.write(fd, b"12")
        closing = threading.Thread(target=os.close, args=(fd,))
        closing.start()
        got = (look, bare)[n % 2](name)
        closing.join()
        assert got == before + b"12", (name, got)
`)
	})
}

// A program that goes on to append to a file that another one has replaced finds its
// unfinished line by the file's name, whoever has looked there before.
func TestAppenderSeesItsLineInTheFileThatItFollows(t *testing.T) {
	forEachMount(t, func(t *testing.T, m *Mount) {
		m.WriteFile("f", "old\n")
		m.Python(t, `
import os, subprocess
def other(command): subprocess.run(["setsid", "sh", "-c", command], check=True)
def check(want):
    size = os.stat("f").st_size
    with open("f") as f: got = f.read()
    assert (got, size) == (want, len(want)), (got, size)
def append(text):
    a.write(text)
    a.flush()
a = open("f", "a")
append("half")
check("old\nhalf")
append("\n")
other("echo NEW > f")
append("half")
check("NEW\nhalf")
append(" and half")
check("NEW\nhalf and half")
append("\n")
check("NEW\nhalf and half\n")
other("echo NEWER > f")
check("NEWER\n")
append("half")
other("stat f > /dev/null")
check("NEWER\nhalf")
append("\n")
other("echo NEWEST > f2; mv f2 f")
fd = os.open("f", os.O_RDONLY)
append("half")
assert os.fstat(fd).st_size == len("NEWEST\nhalf"), os.fstat(fd).st_size
os.close(fd)
check("NEWEST\nhalf")
a.close()
check("NEWEST\nhalf")
`)
	})
}

// A descriptor that goes on in a file which has replaced its own has the links of that: some
// programs open their log anew when it has none. There are none when the file is removed.
func TestAppenderSeesTheLinksOfItsFile(t *testing.T) {
	forEachMount(t, func(t *testing.T, m *Mount) {
		m.Python(t, `
import os, subprocess
def links(): return os.fstat(fd).st_nlink
for how in "echo 2 > f", "echo 3 > t; mv t f":
    fd = os.open("f", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    os.write(fd, b"1\n")
    assert links() == 1, links()
    subprocess.run(how, shell=True, check=True)
    os.write(fd, b"more\n")
    assert os.fstat(fd).st_size == os.stat("f").st_size
    assert links() == 1, (how, links())
    os.link("f", "g")
    assert links() == 2, (how, links())
    os.unlink("g")
    os.unlink("f")
    assert links() == 0, (how, links())
    os.close(fd)
`)
	})
}
