package integration

import (
	"fmt"
	"strings"
	"testing"
)

// A file that was made without a name (O_TMPFILE) gets one while its maker has it open. What
// the maker writes after that is in the file, whatever another program does to it meanwhile,
// and neither of the two is refused. After the close it is a file like any other.
func TestTmpfileWrittenOnAfterItsLink(t *testing.T) {
	const maker = `
import ctypes, os, sys
fd = os.open(".", os.O_TMPFILE | os.O_RDWR, 0o666)
os.write(fd, b"one\n")
assert ctypes.CDLL(None).linkat(-100, b"/proc/self/fd/%d" % fd, -100, b"f", 0x400) == 0 # AT_SYMLINK_FOLLOW
print("linked", flush=True)
sys.stdin.readline()
os.write(fd, b"two\n")
os.fsync(fd)
print("written", flush=True)
sys.stdin.readline()
os.close(fd)
print("closed", flush=True)
sys.stdin.readline()
`
	cases := map[string]struct{ before, after, want string }{
		"replaced": {`printf 'BB\n' > f`, "", "BB\n\x00two\n"},
		"updated":  {`exec 3<>f`, `printf 'B' >&3; exec 3>&-`, "Bne\ntwo\n"},
		"appended": {`exec 3>>f; printf 'B\n' >&3`, `printf 'C\n' >&3; exec 3>&-`, "one\ntwo\nC\n"},
	}
	forEachMount(t, func(t *testing.T, m *Mount) {
		for name, c := range cases {
			m.Bash(t, "rm -f f")
			p := m.LaunchPython(t, maker)
			p.AwaitLine("linked")
			other := m.LaunchBash(t, c.before+" && echo opened && read\n"+c.after+"\necho done")
			other.AwaitLine("opened")
			p.Send("write")
			p.AwaitLine("written")
			other.Send("go on")
			if out := other.OK(); !strings.HasSuffix(out, "done\n") {
				t.Errorf("%s: the other says %q", name, out)
			}
			if got := m.ReadFile("f"); got != c.want {
				t.Errorf("%s: the file holds %q, not %q", name, got, c.want)
			}
			p.Send("close")
			p.AwaitLine("closed")
			p.Send("end")
			p.OK()
			tries := 10
			eventually(t, "the end of the live file", func() bool {
				tries++
				mark := fmt.Sprint(tries)
				return *plain || m.Bash(t, "exec 3<>f; printf "+mark+" >&3; head -c2 f").Stdout != mark
			})
		}
	})
}

// A program that is alone saves a file by a file without a name, a link and a rename, and
// changes it by other ways in between, as fast as it can. It is never refused, and what it has
// written last is there.
func TestTmpfileSavesAlone(t *testing.T) {
	const saver = `
import ctypes, os, sys
libc = ctypes.CDLL(None)
def unnamed(text):
    fd = os.open(".", os.O_TMPFILE | os.O_WRONLY, 0o644)
    os.write(fd, text)
    assert libc.linkat(-100, b"/proc/self/fd/%d" % fd, -100, b"f.new", 0x400) == 0 # AT_SYMLINK_FOLLOW
    os.close(fd)
    os.rename("f.new", "f")
def update(text):
    fd = os.open("f", os.O_RDWR | os.O_CREAT, 0o644)
    os.ftruncate(fd, len(text))
    os.pwrite(fd, text, 0)
    os.close(fd)
def overwrite(text):
    fd = os.open("f", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    os.write(fd, text)
    os.close(fd)
def second_name(text):
    if os.path.exists("f.same"): os.unlink("f.same")
    os.link("f", "f.same")
    overwrite(text)
for n in range(25):
    for step in sys.argv[1].split():
        text = b"%d %s\n" % (n, step.encode()) + b"x" * (n * 37 % 200)
        try:
            globals()[step](text)
        except OSError as e:
            sys.exit("%d: %s: %s" % (n, step, e))
assert open("f", "rb").read() == text
`
	forEachMount(t, func(t *testing.T, m *Mount) {
		for _, steps := range []string{
			"unnamed update", "unnamed overwrite overwrite",
			"unnamed second_name update", "unnamed update second_name",
		} {
			m.Bash(t, "rm -f f f.*")
			m.Python(t, saver, steps)
		}
		if events := m.ReadFile(".locks/events.jsonl"); !*plain && (strings.Contains(events, `"event":"conflict"`) || strings.Contains(events, `"event":"bypass"`)) {
			t.Errorf("nobody else was there, and the trail says\n%s", events)
		}
	})
}
