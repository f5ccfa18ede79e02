package integration

import (
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// closesAndChanges closes a file in one thread, and when it is told to does something to
// its name in another.
const closesAndChanges = `
import os, sys, threading
name, gate, op = sys.argv[1:]
fd = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
os.write(fd, (gate + "\ngood\n").encode())
closing = threading.Thread(target=os.close, args=(fd,))
closing.start()
sys.stdin.readline()
if op == "unlink": os.unlink(name)
if op == "rename": os.rename(name, name + "-renamed")
if op == "replace": os.rename("t", name)
closing.join()
`

// Who takes away or changes the name of a file that its own family is just closing waits
// for the commit. Nobody else waits for the directory meanwhile, of which the kernel
// would hold the lock: the command that judges the content may look around there.
func TestOwnFamilyWaitsForTheCommand(t *testing.T) {
	needsLatchfs(t)
	forEachMount(t, func(t *testing.T, m *Mount) {
		c := judgedMount(t, m)
		for _, op := range []string{"unlink", "rename", "replace"} {
			for _, is := range []string{"new", "there"} {
				name := "gate/" + op
				g := newGate(t, m, op+"-"+is)
				after := newGate(t, m, op+"-"+is+"-after")
				after.open()
				if err := c.Save("t", after.dir+"\ngood\n"); err != nil {
					t.Fatal(err)
				}
				p := m.LaunchPython(t, closesAndChanges, name, g.dir, op)
				g.awaitAsked()
				began := time.Now()
				p.Send("")
				eventually(t, op+" is shown to wait", func() bool { return m.waits(p.PID()) })
				c.List("gate")
				if _, err := c.Stat("gate/nothing"); err != unix.ENOENT {
					t.Errorf("%s: stat: %v", op, err)
				}
				m.Mkdir("gate/dir-" + op + is)
				wantSoon(t, op+": a look around", began)
				g.open()
				p.OK()
				_, err := c.Stat(name)
				if gone := err == unix.ENOENT; gone != (op == "unlink" || op == "rename") {
					t.Errorf("%s, %s: afterwards the name has %v", op, is, err)
				}
				m.AwaitFree(t, patience, name)
			}
		}
	}, withPolicy(judged))
}
