package integration

import (
	"strings"
	"testing"
)

// What somebody does who has heard of latchfs an hour ago: he overwrites a file by
// mistake and gets it back, and has bad JSON refused and finds out why.
func TestNewcomer(t *testing.T) {
	needsLatchfs(t)
	forEachMount(t, func(t *testing.T, m *Mount) {
		m.WriteFile("notes.md", "a year of notes\n")
		m.WriteFile("tasks.json", `{"v": 1}`+"\n")

		o := m.Bash(t, `set -e
echo oops > notes.md
`+bench.binary+` history notes.md
`+bench.binary+` restore notes.md 1
cat notes.md
rm notes.md
`+bench.binary+` history --deleted
`+bench.binary+` restore notes.md 3
cat notes.md`)
		mustEndWith(t, o, 0)
		if n := strings.Count(o.Stdout, "a year of notes\n"); n != 2 {
			t.Errorf("it came back %d times, want 2:\n%s", n, o.Stdout)
		}

		// A shell says nothing, python does; both find the old version.
		o = m.Bash(t, `echo '{"v": }' > tasks.json; cat tasks.json; cat .locks/why; `+bench.binary+` rejected list; `+bench.binary+` audit tasks.json`)
		for _, want := range []string{`{"v": 1}`, "EBADMSG", "json: line 1, column 7", "tasks.json", "kept"} {
			if !strings.Contains(o.Stdout, want) {
				t.Errorf("%q is not among what he reads:\n%s", want, o.Stdout)
			}
		}
		got := m.Python(t, `
import errno
f = open("tasks.json", "w")
f.write("[1, 2")
try: f.close()
except OSError as e: print(errno.errorcode[e.errno])`)
		if strings.TrimSpace(got) != "EBADMSG" || m.ReadFile("tasks.json") != `{"v": 1}`+"\n" {
			t.Errorf("python is told %q, and the file holds %q", got, m.ReadFile("tasks.json"))
		}
	}, withPolicy("[[rule]]\nglob = \"*.json\"\nvalidate = \"json\"\n"))
}
