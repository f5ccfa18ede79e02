package integration

import (
	"strings"
	"testing"
)

// A program that removes the file before it writes the new one (install, tar, cp) and whose
// content is refused leaves the old one where it was.
func TestRefusedContentOfAReplacedFile(t *testing.T) {
	needsLatchfs(t)
	forEachMount(t, func(t *testing.T, m *Mount) {
		m.Bash(t, `echo '{' > bad; tar cf bad.tar --transform 's/bad/a.json/' bad`)
		for _, replace := range []string{
			"install -m 600 bad a.json", "cp --remove-destination bad a.json", "tar xf bad.tar",
			`python3 -c 'import os; os.unlink("a.json"); f = open("a.json", "w"); f.write("{"); f.close()'`,
		} {
			got := m.Bash(t, `echo '{"a": 1}' > a.json; chmod 640 a.json; `+replace+` 2>/dev/null && echo accepted; stat -c %a a.json; cat a.json`)
			mustSee(t, replace, got.Stdout+got.Stderr, "640\n{\"a\": 1}\n")
			if why := m.ReadFile(".locks/why"); !strings.Contains(why, "The content was not accepted, and nothing has changed") {
				t.Errorf("%s: why:\n%s", replace, why)
			}
		}
		// What somebody else has removed is gone.
		if got := m.Bash(t, `echo '{"a": 1}' > a.json; rm a.json; cp bad a.json 2>/dev/null; ls a.json`); got.Stdout != "" {
			t.Errorf("there is %q", got.Stdout)
		}
	}, withPolicy("[[rule]]\nglob = [\"*.json\"]\nvalidate = \"json\"\n"))
}
