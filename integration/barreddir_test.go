package integration

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// No mode that users give a directory of theirs keeps their own mount from starting after a crash.
// It says which directory it did not look through, puts right all else, and that as soon as it
// may: what was synced in it comes back.
func TestStartBesideBarredDirectories(t *testing.T) {
	needsLatchfs(t)
	for _, mode := range []string{"000", "444", "555"} {
		t.Run(mode, func(t *testing.T) { besideABarredDirectory(t, mode) })
	}
}

func besideABarredDirectory(t *testing.T, mode string) {
	requireTool(t, "fusermount3")
	m := mount(t, asUser())
	m.Bash(t, "mkdir -p barred/below open; echo old | tee barred/f barred/below/f open/f")
	p := m.LaunchPython(t, `
import os, sys
def open_(name, flags, text):
    fd = os.open(name, flags | os.O_CREAT, 0o644); os.write(fd, text); return fd
fds = []
for d in "barred", "barred/below", "open":
    os.close(open_(d + "/saved", os.O_WRONLY, b"saved\n"))
    fds += [open_(d + "/new", os.O_WRONLY | os.O_EXCL, b"synced\n"), open_(d + "/log", os.O_WRONLY | os.O_APPEND, b"line\n")]
    fds += [open_(d + "/f", os.O_WRONLY | os.O_TRUNC, b"half")]
for fd in fds[::3]: os.fsync(fd)
os.chmod("barred", int(sys.argv[1], 8))
print("ready", flush=True); sys.stdin.read()
`, mode)
	p.AwaitLine("ready")
	m.Crash(t)
	p.Kill()
	orphan := filepath.Join(m.Data, "open", ".latchfs-0123456789abcdef0123456789abcdef")
	if err := os.WriteFile(orphan, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(orphan, m.UID, m.UID); err != nil {
		t.Fatal(err)
	}

	m.Start(t)
	awaitLog(t, m, `"barred\" may not be listed`, "chmod u+rwx", m.Path("barred"))
	awaitLog(t, m, " 1 orphaned shadows removed")
	if told := strings.Count(m.log(), "may not be listed"); told != 1 {
		t.Errorf("told %d times", told)
	}
	if out := m.Bash(t, "cat open/*"); out.Stdout != "old\nline\nsynced\nsaved\n" {
		t.Errorf("where nothing bars the recovery: %+v", out)
	}
	m.Bash(t, "chmod u+rwx barred")
	if out := m.Bash(t, "cat barred/f barred/below/f barred/saved"); out.Stdout != "old\nold\nsaved\n" {
		t.Errorf("behind the bar: %+v", out)
	}
	m.Stop(t)
	m.Start(t)
	awaitLog(t, m, "is mounted at")
	if out := m.Bash(t, "cat barred/* barred/below/* 2>/dev/null"); out.Stdout != strings.Repeat("old\nline\nsynced\nsaved\n", 2) {
		t.Errorf("when it may be looked through: %+v\n%s", out, m.log())
	}
	m.Bash(t, "rm -r barred")
	m.Stop(t)
	if findings, _ := m.Fsck(t); len(findings) > 0 {
		t.Errorf("after a stop fsck finds %+v", findings)
	}
}
