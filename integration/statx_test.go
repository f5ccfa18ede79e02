package integration

import (
	"testing"

	"golang.org/x/sys/unix"

	"latchfs/integration/internal/wire"
)

// Who asks for the birth time, too, as stat(1) and node do, is told the same as who does not.

const statxBoth = `
import ctypes, os, struct
libc = ctypes.CDLL(None, use_errno=True)
def sized(mask, path="f"):
    got = ctypes.create_string_buffer(256)
    if libc.statx(-100, path.encode(), 0, mask, got) != 0: raise OSError(ctypes.get_errno(), "statx")
    return struct.unpack_from("<Q", got, 40)[0]
BASIC, ALL = 0x7ff, 0xfff
`

func TestStatxShowsTheCallersUnfinishedLine(t *testing.T) {
	forEachMount(t, func(t *testing.T, m *Mount) {
		m.WriteFile("f", "old\n")
		m.Python(t, statxBoth+`
for mask, other in (ALL, BASIC), (BASIC, ALL):
    before = sized(mask)
    fd = os.open("f", os.O_WRONLY | os.O_APPEND)
    os.write(fd, b"half")
    assert sized(mask) == before + 4, (mask, sized(mask), before)
    assert sized(other) == before + 4, (other, sized(other), before)
    os.close(fd)
`)
	})
}

func TestStatxBesideAWriter(t *testing.T) {
	forEachMount(t, func(t *testing.T, m *Mount) {
		m.WriteFile("f", "old\n")
		p := m.LaunchPython(t, statxBoth+`
import sys
fd = os.open("f", os.O_WRONLY | os.O_TRUNC)
os.write(fd, b"half")
os.write(fd, b"half")
assert sized(ALL) == sized(BASIC) == os.fstat(fd).st_size == 8, (sized(ALL), sized(BASIC))
print("ready", flush=True)
sys.stdin.readline()
os.close(fd)
assert sized(ALL) == sized(BASIC) == 8, (sized(ALL), sized(BASIC))
`)
		p.AwaitLine("ready")
		want := "4"
		if *plain {
			want = "8"
		}
		m.Python(t, statxBoth+`
import sys
for mask in ALL, BASIC:
    assert sized(mask) == int(sys.argv[1]), (mask, sized(mask))
`, want)
		p.Send("close")
		p.OK()
	})
}

// An lseek(2) to the end of a file finds the caller's own unfinished line, whatever the kernel took
// the size for: a stranger who looks while a line is held back makes it forget that piece, although
// it is there a moment later.
func TestSeekToTheEndOfTheCallersUnfinishedLine(t *testing.T) {
	forEachMount(t, func(t *testing.T, m *Mount) {
		m.WriteFile("f", "")
		c := m.Client(t)
		fd := c.Open("f", unix.O_WRONLY|unix.O_APPEND)
		size := int64(0)
		write := func(what string) {
			c.Write(fd, what)
			size += int64(len(what))
		}
		seen := func() int64 {
			st, err := m.control.Stat("f")
			if err != nil {
				t.Fatal(err)
			}
			return st.Size
		}
		for range 10 {
			write("question? ")
			seen() // without the line, most probably
			eventually(t, "the unfinished line in the file", func() bool { return seen() == size })
			write("answer\n")
			write("half")
			if end := c.OK(wire.Request{Op: "seek", FD: fd, Kind: unix.SEEK_END}).N; int64(end) != size {
				t.Fatalf("the end is at %d, want %d", end, size)
			}
			write("\n")
		}
		c.MustClose(fd)
	})
}
