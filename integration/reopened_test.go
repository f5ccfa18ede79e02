package integration

import (
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A program that has a file open to write opens it to read as well, and closes the first
// descriptor. What is written through /proc/self/fd/N of the second is in the file that has the
// name, or is refused: that the session has changed nothing, or has written into a file with
// several names, makes no difference.
func TestReaderOfASessionIsOpenedAnewToWrite(t *testing.T) {
	needsLatchfs(t)
	const script = `
import os, subprocess, sys, time
old = b"y\n" * int(sys.argv[1]); large = len(old) > 1 << 20
def make(links):
    with open("f", "wb") as f: f.write(old)
    for n in links: os.link("f", n)
def read(name):
    with open(name, "rb") as f: return f.read()
def opens(flags):
    def do(name):
        fd = os.open(name, flags)
        try: os.write(fd, b"written\n")
        finally: os.close(fd)
    return do
ways = {
    "to write": opens(os.O_WRONLY), "to read and write": opens(os.O_RDWR), "cut": opens(os.O_WRONLY | os.O_TRUNC),
    "to append": opens(os.O_WRONLY | os.O_APPEND), "truncate": lambda name: os.truncate(name, 1),
}
want = {"to write": b"written\n" + old[8:], "cut": b"written\n"} # what is not here is refused
since = {
    "nothing": lambda: None, "moved": lambda: os.rename("f", "g"),
    "saved": lambda: subprocess.run("echo other > f", shell=True, check=True),
}
for links in [], ["k"]:
    for own in False, True: # whether the shadow has a node of its own
        for wrote in False, True:
            for way in ways:
                for what in since:
                    if what != "nothing" and (links or wrote) or large and (links or wrote or own or what != "nothing"): continue
                    case = (len(old), links, own, wrote, way, what)
                    make(links)
                    first = os.open("f", os.O_RDONLY) if own else -1
                    w = os.open("f", os.O_RDWR); r = os.open("f", os.O_RDONLY)
                    if wrote: os.pwrite(w, b"n", 0); os.pwrite(w, b"y", 0)
                    os.close(w)
                    while any(os.path.exists(".locks/held/%s.lock" % n) for n in ["f"] + links): time.sleep(0.01) # it stands under any name
                    since[what]()
                    name = "g" if what == "moved" else "f"
                    before = read(name)
                    try: ways[way]("/proc/self/fd/%d" % r)
                    except OSError as e:
                        if e.strerror != "Device or resource busy" or way in want: print(case, e)
                        now = before
                        with open(".locks/why") as why:
                            if "opened anew through a descriptor" not in why.read(): print(case, "is refused, and nobody says why")
                    else: now = old + b"written\n" if way == "to append" else want.get(way, b"what is refused") if what != "saved" or way not in want else b"written\n"
                    if read(name) != now: print(case, "leaves", read(name)[:20])
                    if not links and os.pread(r, len(old), 0) != old: print(case, "the reader reads", os.pread(r, 20, 0))
                    for fd in r, first:
                        if fd >= 0: os.close(fd)
                    for n in [name] + links: os.unlink(n)
`
	forEachMount(t, func(t *testing.T, m *Mount) {
		for _, lines := range []string{"8", "9000000"} { // the latter is more than is copied at an open
			if out := m.Python(t, script, lines); out != "" {
				t.Errorf("%s lines:\n%s", lines, out)
			}
		}
	})
}

// Whether such a descriptor may be opened anew is asked of the file, not of what its reader has.
func TestReaderOfASessionMayNotWriteTheFile(t *testing.T) {
	needsRoot(t)
	needsLatchfs(t)
	const script = `
import os, time
os.mkdir("d"); os.chown("d", 65534, 65534); os.chdir("d")
os.setgroups([]); os.setgid(65534); os.setuid(65534)
with open("f", "w") as f: f.write("old")
w = os.open("f", os.O_RDWR); r = os.open("f", os.O_RDONLY); os.close(w)
while os.path.exists("../.locks/held/d/f.lock"): time.sleep(0.01)
os.chmod("f", 0o444)
through = "/proc/self/fd/%d" % r
for do in lambda: os.open(through, os.O_WRONLY), lambda: os.open(through, os.O_WRONLY | os.O_TRUNC), lambda: os.truncate(through, 1):
    try: do()
    except PermissionError: pass
    else: print("is allowed")
print(open("f").read())
`
	for _, opts := range [][]mountOption{nil, {noPassthrough()}} {
		if out := mount(t, opts...).Python(t, script); out != "old\n" {
			t.Error(out)
		}
	}
}

// Whoever waits for a file's readers, since it has opened a descriptor of the file to write, is
// interrupted like anybody else who waits, also if there was another signal before: a terminal
// that has changed its size.
func TestSecondSignalWhileReadersAreWaitedFor(t *testing.T) {
	needsLatchfs(t)
	const script = `
import os, signal
signal.signal(signal.SIGWINCH, lambda *a: None)
signal.signal(signal.SIGINT, signal.SIG_DFL)
os.open("/proc/self/fd/%d" % os.open("f", os.O_PATH), os.O_RDWR)
`
	forEachMount(t, func(t *testing.T, m *Mount) {
		m.WriteFile("f", "old")
		reader := m.Client(t)
		fd := reader.Open("f", unix.O_RDONLY)
		p := m.LaunchPython(t, script)
		m.AwaitStatus(t, "the lock of f", func(s Status) bool { return s.Held() == 1 })
		p.Signal(syscall.SIGWINCH)
		time.Sleep(100 * time.Millisecond) // so that it is announced by itself
		if p.Done() {
			t.Fatalf("it has ended: %+v", p.Wait())
		}
		sent := time.Now()
		p.Signal(syscall.SIGINT)
		o := p.Wait()
		if took := time.Since(sent); o.Signal != syscall.SIGINT || took > promised(time.Second) {
			t.Errorf("%+v, after %v", o, took)
		}
		reader.MustClose(fd)
	})
}
