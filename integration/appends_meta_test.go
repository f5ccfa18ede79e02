package integration

import "testing"

// What a program changes of the metadata through an append descriptor is changed of the file that
// has the name, also when the file was saved since the open.
func TestMetadataThroughAnAppendDescriptor(t *testing.T) {
	alongside(t)
	const script = `
import os, subprocess
def sh(text): subprocess.run(["sh", "-c", text], check=True)
def shown(which):
    st = os.stat(which)
    return "%o" % st.st_mode, int(st.st_mtime) if st.st_mtime < 1e8 else "now", st.st_size, [(a, os.getxattr(which, a)) for a in os.listxattr(which)]
def change(fd, n):
    os.fchmod(fd, 0o640 + n); print("mode", shown("f"), shown(fd))
    os.setxattr(fd, "user.a", b"%d" % n); print("set", shown("f"), shown(fd))
    os.removexattr(fd, "user.a"); print("removed", shown("f"), shown(fd))
    os.setxattr(fd, "user.b", b"%d" % n)
    os.write(fd, b"half"); os.utime(fd, (n, n)); print("times", shown("f"), shown(fd))
    sh("chmod 600 f; chmod 6%d0 f" % n)
fd = os.open("f", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
os.write(fd, b"one\n")
change(fd, 1)
sh("echo anew > f"); change(fd, 2)
os.write(fd, b"two\n"); change(fd, 3)
sh("echo anew > f; echo again > f"); change(fd, 4)
with open("f", "w") as f: f.write("own\n")
change(fd, 5)
other = os.open("f", os.O_RDWR | os.O_APPEND); sh("echo anew > f"); change(other, 6); os.close(other)
os.fchmod(fd, 0o604); print("mode", shown("f"), "%o" % os.fstat(fd).st_mode)
os.write(fd, b"half a line"); os.utime(fd, (8, 8)); os.close(fd)
print(shown("f"), open("f").read())
`
	forEachMount(t, func(t *testing.T, m *Mount) {
		m.AsOnPlain(t, "the program", bench.python, "-c", script)
	})
}
