package integration

import (
	"strings"
	"testing"
)

// posix_fallocate(3) through an append descriptor gives the file room, and makes it longer, as on
// a plain directory.
func TestAllocateThroughAnAppendDescriptor(t *testing.T) {
	alongside(t)
	const script = `
import os, subprocess
def shown(): return os.stat("f").st_size, open("f", "rb").read().rstrip(b"\0"), open("f", "rb").read().count(b"\0")
def sh(text): subprocess.run(["sh", "-c", text], check=True)
open("f", "w").write("old\n")
fd = os.open("f", os.O_WRONLY | os.O_APPEND)
os.posix_fallocate(fd, 0, 100); print(1, shown(), os.fstat(fd).st_size)
os.write(fd, b"one\n"); print(2, shown())
os.posix_fallocate(fd, 0, 10); print(3, shown())
os.write(fd, b"half"); os.posix_fallocate(fd, 100, 200); os.write(fd, b" a line\n"); print(4, shown())
os.fsync(fd); os.close(fd); print(5, shown())
sh("echo anew > f; echo one >> f; fallocate -n -l 5000 f; truncate -s 4 f")
fd = os.open("f", os.O_RDWR | os.O_APPEND | os.O_CREAT)
new = os.open("f", os.O_RDWR)
os.pwrite(new, b"A", 0); os.posix_fallocate(fd, 4, 8); os.write(fd, b"two\n"); os.close(new); os.close(fd); print(6, shown())
fd = os.open("new", os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL, 0o644)
os.posix_fallocate(fd, 0, 8); os.write(fd, b"x"); print(os.fstat(fd).st_size); os.close(fd); print(os.stat("new").st_size)
sh("exec 3>>f; echo anew >f; python3 -c 'import os; os.posix_fallocate(3, 0, 50)'; echo behind >&3"); print(7, shown())
`
	forEachMount(t, func(t *testing.T, m *Mount) {
		m.AsOnPlain(t, "the program", bench.python, "-c", strings.ReplaceAll(script, "python3", bench.python))
		if *plain {
			return
		}
		if events := m.Bash(t, "sleep .5; cat .locks/events.jsonl"); strings.Contains(events.Stdout, `"bypass"`) {
			t.Error(events.Stdout)
		}
	})
}
