package integration

import (
	"fmt"
	"strings"
	"testing"
)

// office opens, locks and saves a document as LibreOffice does: it locks with fcntl whatever it has
// open to read and write, the temporary file, too, and renames that into place when it has closed it.
const office = `
import fcntl, os, sys
def opened(name, flags=os.O_RDWR):
    fd = os.open(name, flags, 0o666)
    fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    return fd
def load():
    os.close(opened("report.odt"))
    fd = opened("report.odt")
    text = os.read(fd, 100).decode()
    os.close(fd)
    return text
def save(text, number):
    temp = "lu%d.tmp" % number
    os.close(os.open(temp, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
    fd = opened(temp)
    os.write(fd, text.encode())
    os.close(opened("report.odt"))
    os.close(fd)
    os.rename(temp, "report.odt")
    os.close(opened("report.odt"))
for number, line in enumerate(sys.argv[1:]):
    save(load() + line, number)
`

// A document whose program locks what it has open is no database: each save is a version, kept like
// any other, a look is none, and nothing was changed outside the mount.
func TestDocumentsThatAreLocked(t *testing.T) {
	needsLatchfs(t)
	forEachMount(t, func(t *testing.T, m *Mount) {
		m.WriteFile("report.odt", "0")
		m.Python(t, office, "1", "2")
		m.Python(t, office, "3")
		if got := m.ReadFile("report.odt"); got != "0123" {
			t.Fatalf("the document holds %q", got)
		}
		var held []string
		for i := range 3 { // the fourth is the file itself
			held = append(held, m.ReadFile(fmt.Sprintf(".locks/history/report.odt/%d", i+1)))
		}
		if got := strings.Join(held, " "); got != "0 01 012" || len(m.Versions("report.odt")) != 4 {
			t.Errorf("the versions are %q, of %d", got, len(m.Versions("report.odt")))
		}
		if got := m.EventsOf("bypass", "report.odt"); len(got) > 0 {
			t.Errorf("changed outside the mount: %v", got)
		}
	})
}
