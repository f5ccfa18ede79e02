package integration

import (
	"strings"
	"testing"
)

// No mode that a user gives a file keeps the mount from starting after a crash, and nothing that
// was written to it is lost.
func TestStartBesideBarredFiles(t *testing.T) {
	needsLatchfs(t)
	forEachMount(t, func(t *testing.T, m *Mount) {
		for _, mode := range []string{"200", "400", "000"} {
			p := m.LaunchPython(t, `
import os, sys
mode = int(sys.argv[1], 8)
def open_(name, flags, text):
    fd = os.open(name, flags | os.O_CREAT, 0o644); os.write(fd, text); return fd
for name in "saved", "linked": os.close(open_(name, os.O_WRONLY | os.O_TRUNC, b"old\n"))
if not os.path.exists("link"): os.link("linked", "link")
appended = open_("appended", os.O_WRONLY | os.O_APPEND, b"line\n")
os.close(open_("saved", os.O_WRONLY | os.O_TRUNC, b"new\n"))
os.close(open_("linked", os.O_WRONLY | os.O_TRUNC, b"new\n"))
os.close(open_("fresh" + sys.argv[1], os.O_WRONLY, b"new\n"))
old = open_("synced", os.O_RDWR, b"synced\n"); os.fsync(old)
new = open_("new" + sys.argv[1], os.O_WRONLY | os.O_EXCL, b"synced\n"); os.fsync(new)
for name in "appended", "saved", "linked", "fresh" + sys.argv[1], "new" + sys.argv[1]: os.chmod(name, mode)
for fd in old, new: os.fchmod(fd, mode)
print("ready", flush=True); sys.stdin.read()
`, mode)
			p.AwaitLine("ready")
			m.Crash(t)
			p.Kill()
			m.Start(t)
			out := m.Bash(t, `stat -c "%n %a" appended saved linked fresh`+mode+`; chmod 644 appended saved linked fresh* new* synced 2>/dev/null; cat saved linked fresh`+mode+` new`+mode+`; tail -n 1 appended`)
			want := strings.NewReplacer("MODE", strings.TrimLeft(mode, "0")+map[bool]string{true: "0"}[mode == "000"]).Replace("appended MODE\nsaved MODE\nlinked MODE\nfresh"+mode+" MODE\n") +
				"new\nnew\nnew\nsynced\nline\n"
			if out.Stdout != want {
				t.Errorf("after a crash beside files of mode %s: %+v\nwant %q\n%s", mode, out, want, m.log())
			}
		}
	})
}
