package integration

import (
	"fmt"
	"strings"
	"testing"
)

// Setuid and setgid bits that are set after the last write stay, whoever wrote; those that
// are set before it stay if root writes. So it is on a plain directory.
func TestSetuidSetInASession(t *testing.T) {
	const setup = `
import os, stat
def old():
    with open(f, "w") as out: out.write("old content")
def opened(flags, mode=0o755): return os.open(f, flags | os.O_CREAT, mode)
trunc, plain = os.O_WRONLY | os.O_TRUNC, os.O_WRONLY
new = plain | os.O_EXCL
def case(name, steps):
    global f
    f = os.path.join(dir, name)
    exec(steps)
    print("%s=%o" % (name, stat.S_IMODE(os.stat(f).st_mode)))
`
	cases := []struct{ name, steps, user, root string }{
		{"cp", `old(); fd = opened(trunc); os.write(fd, b"x"); os.fchmod(fd, 0o4755); os.close(fd)`, "4755", "4755"},
		{"setgid", `old(); fd = opened(trunc); os.write(fd, b"x"); os.fchmod(fd, 0o2755); os.close(fd)`, "2755", "2755"},
		{"byname", `old(); fd = opened(plain); os.write(fd, b"x"); os.chmod(f, 0o6755); os.close(fd)`, "6755", "6755"},
		{"cut", `old(); fd = opened(trunc); os.fchmod(fd, 0o4755); os.close(fd)`, "4755", "4755"},
		{"times", `old(); fd = opened(trunc); os.write(fd, b"x"); os.fchmod(fd, 0o4755); os.utime(fd, (1, 1)); os.close(fd)`, "4755", "4755"},
		{"before", `old(); fd = opened(plain); os.fchmod(fd, 0o4755); os.write(fd, b"x"); os.close(fd)`, "755", "4755"},
		{"had", `old(); os.chmod(f, 0o6755); fd = opened(plain); os.write(fd, b"x"); os.close(fd)`, "755", "6755"},
		{"hadseen", `old(); os.chmod(f, 0o6755); fd = opened(plain); os.write(fd, b"x"); os.fchmod(fd, os.fstat(fd).st_mode & 0o7777); os.close(fd)`, "755", "6755"},
		{"hadcut", `old(); os.chmod(f, 0o6755); fd = opened(trunc); os.close(fd)`, "755", "6755"},
		{"hadtimes", `old(); os.chmod(f, 0o6755); fd = opened(plain); os.utime(fd, (1, 1)); os.write(fd, b"x"); os.close(fd)`, "755", "6755"},
		{"cutlater", `old(); fd = opened(plain); os.write(fd, b"xyz"); os.fchmod(fd, 0o4755); os.ftruncate(fd, 1); os.close(fd)`, "755", "4755"},
		{"cutbyname", `old(); fd = opened(plain); os.write(fd, b"xyz"); os.fchmod(fd, 0o4755); os.truncate(f, 1); os.close(fd)`, "755", "4755"},
		{"off", `old(); os.chmod(f, 0o6755); fd = opened(plain); os.write(fd, b"x"); os.fchmod(fd, 0o700); os.close(fd)`, "700", "700"},
		{"chown", `old(); fd = opened(plain); os.fchmod(fd, 0o6755); os.fchown(fd, os.getuid(), -1); os.write(fd, b"x"); os.close(fd)`, "755", "755"},
		{"new", `fd = opened(new, 0o4755); os.write(fd, b"x"); os.close(fd)`, "755", "4755"},
		{"newbefore", `fd = opened(new); os.fchmod(fd, 0o4755); os.write(fd, b"x"); os.close(fd)`, "755", "4755"},
		{"newseen", `fd = opened(new); os.fchmod(fd, 0o4755); os.write(fd, b"x"); os.fchmod(fd, os.stat(f).st_mode & 0o7777); os.close(fd)`, "755", "4755"},
		{"newafter", `fd = opened(new); os.write(fd, b"x"); os.fchmod(fd, 0o4755); os.close(fd)`, "4755", "4755"},
		{"newcut", `fd = opened(new); os.fchmod(fd, 0o4755); os.ftruncate(fd, 0); os.close(fd)`, "755", "4755"},
		{"newcutbyname", `fd = opened(new); os.fchmod(fd, 0o4755); os.truncate(f, 0); os.close(fd)`, "755", "4755"},
		{"newcutseen", `fd = opened(new); os.fchmod(fd, 0o4755); os.truncate(f, 0); os.fchmod(fd, os.stat(f).st_mode & 0o7777); os.close(fd)`, "755", "4755"},
		{"newcutopen", `fd = opened(new); os.fchmod(fd, 0o4755); os.close(os.open(f, trunc)); os.close(fd)`, "755", "4755"},
		{"newcutopenseen", `fd = opened(new); os.fchmod(fd, 0o4755); os.close(os.open(f, trunc)); os.fchmod(fd, os.stat(f).st_mode & 0o7777); os.close(fd)`, "755", "4755"},
		{"renamed", `to = f + ".to"; fd = opened(new); os.fchmod(fd, 0o4755); os.write(fd, b"x"); os.rename(f, to); os.close(fd); os.rename(to, f)`, "755", "4755"},
		{"renamednew", `to = f + ".to"; fd = opened(new, 0o4755); os.write(fd, b"x"); os.rename(f, to); os.close(fd); os.rename(to, f)`, "755", "4755"},
		{"renamedafter", `to = f + ".to"; fd = opened(new); os.write(fd, b"x"); os.fchmod(fd, 0o4755); os.rename(f, to); os.close(fd); os.rename(to, f)`, "4755", "4755"},
		{"newoff", `fd = opened(new, 0o4755); os.write(fd, b"x"); os.fchmod(fd, 0o700); os.close(fd)`, "700", "700"},
	}
	forBothRootMounts(t, func(t *testing.T, m *Mount) {
		var steps strings.Builder
		for _, c := range cases {
			fmt.Fprintf(&steps, "case(%q, %q)\n", c.name, c.steps)
		}
		m.Bash(t, "mkdir root")
		user := m.LaunchPython(t, bobScript("dir = sys.argv[1]\n"+setup+steps.String()), m.Path("bob"), "").OK()
		root := m.Python(t, "dir = 'root'\n"+setup+steps.String())
		for _, c := range cases {
			for who, x := range map[string][2]string{"a user": {user, c.user}, "root": {root, c.root}} {
				if want := "\n" + c.name + "=" + x[1] + "\n"; !strings.Contains("\n"+x[0], want) {
					t.Errorf("%s of %s does not have mode %s:\n%s", c.name, who, x[1], x[0])
				}
			}
		}
	}, nil)
}

// What a file of root's shows of the bits while root writes it is what a plain directory shows,
// also if an ordinary user has joined root and cut the file.
func TestSetuidWhileRootWrites(t *testing.T) {
	needsRoot(t)
	const script = `
import os
def show(*at): print(*["%o" % (os.stat(a).st_mode & 0o7777) for a in at])
def cut_by_user():
    if os.fork() == 0:
        os.setgroups([]); os.setgid(65534); os.setuid(65534)
        os.close(os.open("f", os.O_WRONLY | os.O_TRUNC))
        os._exit(0)
    os.wait()
for mode in 0o4777, 0o2777, 0o6777:
    for flags in os.O_RDWR, os.O_WRONLY | os.O_TRUNC:
        for then in lambda: None, cut_by_user, lambda: os.fchown(fd, 65534, -1):
            with open("f", "w") as f: f.write("old")
            os.chmod("f", mode)
            fd = os.open("f", flags); show(fd)
            os.write(fd, b"new"); show(fd, "f")
            then(); show(fd, "f")
            os.close(fd); show("f")
            os.unlink("f")
`
	for _, opts := range [][]mountOption{nil, {noPassthrough()}} {
		mount(t, opts...).AsOnPlain(t, "root", bench.python, "-c", script)
	}
}
