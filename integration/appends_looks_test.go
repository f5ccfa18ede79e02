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
