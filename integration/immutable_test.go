package integration

import (
	"os/exec"
	"testing"
)

// A file that chattr(1) has made immutable, or one for appending alone, is refused to who would
// replace its content when it is opened, as on a plain directory: a shell does not look at the
// error of a close. One for appending alone can be appended to.
func TestImmutableFileIsNotOpenedToWrite(t *testing.T) {
	const script = `
import os
def says(what, do):
    try: do()
    except OSError as e: print(what, e.strerror)
    else: print(what, "done")
for flags in ("r+", "w"): says(flags, lambda: open("f", flags).close())
says("truncate", lambda: os.truncate("f", 1))
says("O_WRONLY", lambda: os.close(os.open("f", os.O_WRONLY)))
says("a", lambda: open("f", "a").close())
print("echo", os.system("echo new > f") != 0)
print(open("f").read(), end="")
`
	forEachMount(t, func(t *testing.T, m *Mount) {
		for attribute, toAppend := range map[string]string{"i": "Operation not permitted", "a": "done"} {
			m.WriteFile("f", "old\n")
			change := func(sign string) error { return exec.Command("chattr", sign+attribute, m.Data+"/f").Run() }
			if err := change("+"); err != nil {
				t.Skipf("the filesystem has no attribute %s: %v", attribute, err)
			}
			got := m.Python(t, script)
			if err := change("-"); err != nil {
				t.Fatal(err)
			}
			mustSee(t, attribute, got, "r+ Operation not permitted\nw Operation not permitted\ntruncate Operation not permitted\nO_WRONLY Operation not permitted\na "+toAppend+"\necho True\nold\n")
		}
	})
}
