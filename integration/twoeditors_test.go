package integration

import "testing"

// Who opens in vim a file that somebody else is editing is told so before the first key.
func TestSecondEditorIsWarned(t *testing.T) {
	requireTool(t, "vim")
	inShortOnRoot(t, func(t *testing.T, m *Mount) {
		got := m.LaunchPython(t, `
import os, pty, select, sys

def vim():
    pid, fd = pty.fork()
    if pid == 0:
        os.environ["TERM"] = "xterm"
        os.execvp("vim", ["vim", "-u", "NONE", "-i", "NONE", "-N", "f"])
    return pid, fd

def until(fd, *texts):
    seen = b""
    while not any(t in seen for t in texts):
        if not select.select([fd], [], [], 20)[0]:
            return seen
        seen += os.read(fd, 65536)
    return seen

with open("f", "w") as f:
    f.write("first line\n")
first, one = vim()
until(one, b"first line")
second, two = vim()
seen = until(two, b"ATTENTION", b"first line")
print("warned" if b"ATTENTION" in seen else "not warned: %r" % seen)
for pid, fd in (second, two), (first, one):
    os.kill(pid, 9)
    os.waitpid(pid, 0)
`).Wait()
		mustSee(t, "the second editor", got.Stdout+got.Stderr, "warned\n")
	})
}
