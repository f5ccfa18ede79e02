package integration

import "testing"

// A program that had closed its descriptor and still had the file mapped has written it
// when it has ended: whoever looks then finds that.
func TestMappedFileIsThereWhenItsProgramHasEnded(t *testing.T) {
	const program = `
import mmap, os, sys
def write(name, text):
    pid = os.fork()
    if pid == 0:
        fd = os.open(name, os.O_RDWR | os.O_CREAT)
        os.ftruncate(fd, len(text))
        m = mmap.mmap(fd, len(text))
        m[:] = text
        fds = [int(n) for n in os.listdir("/proc/self/fd") if n.isdigit()]
        for n in fds:  # the mmap object has a descriptor of its own
            if n > 2:
                try: os.close(n)
                except OSError: pass
        os._exit(0)
    os.waitpid(pid, 0)
for i in range(20):
    write("stat%d" % i, b"first")
    os.stat("stat%d" % i)
    write("stat%d" % i, b"again")
    assert open("stat%d" % i).read() == "again", "an old version of stat%d" % i
    os.mkdir("d%d" % i)
    write("d%d/listed" % i, b"text")
    assert os.listdir("d%d" % i) == ["listed"], "not listed: d%d" % i
`
	forEachMount(t, func(t *testing.T, m *Mount) {
		m.Python(t, program)
	})
}
