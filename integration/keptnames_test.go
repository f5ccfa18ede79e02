package integration

import "testing"

// A file that has other names when one of them gets another file goes on under those: what is
// kept of it is a copy. Nobody reads there what is written to the file later, when it may be
// another's secret, and no link of it is counted that nobody has made.
func TestHistoryKeepsNoFileThatGoesOn(t *testing.T) {
	alongside(t)
	needsLatchfs(t)
	forEachMount(t, func(t *testing.T, m *Mount) {
		for name, begin := range map[string]string{
			"closed":            `open(a, "w").write("first\n"); os.link(a, b)`,
			"open":              `open(a, "w").write("first\n"); os.link(a, b); fd = os.open(a, os.O_RDWR)`,
			"linked while open": `open(a, "w").write("first\n"); fd = os.open(a, os.O_RDWR); os.link(a, b)`,
			"new":               `fd = os.open(a, os.O_WRONLY|os.O_CREAT, 0o644); os.write(fd, b"first\n"); os.link(a, b)`,
		} {
			m.Mkdir(name)
			m.Python(t, `
import os, sys
os.chdir(sys.argv[1])
a, b, fd = "a", "b", -1
`+begin+`
with open("new", "w") as f: # saved by a rename before the close
    f.write("second\n"); f.flush(); os.replace("new", b)
if fd >= 0: os.close(fd)
os.chmod(a, 0o600)
open(a, "w").write("secret\n")
links = os.stat(a).st_nlink
assert links == 1, links
`, name)
			m.expectPast(name+"/b", "1 found \"first\\n\"\n2 commit")
			if got := m.ReadFile(name+"/a") + m.ReadFile(name+"/b"); got != "secret\nsecond\n" {
				t.Errorf("%s: the files hold %q", name, got)
			}
		}
	})
}
