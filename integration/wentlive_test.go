package integration

import (
	"testing"

	"golang.org/x/sys/unix"

	"latchfs/integration/internal/wire"
)

// goesLive are ways in which the writer of a file makes it live.
var goesLive = map[string]func(c *Client, fd int){
	"synced twice": func(c *Client, fd int) {
		c.OK(wire.Request{Op: "fsync", FD: fd})
		c.OK(wire.Request{Op: "pwrite", FD: fd, Data: []byte("BBBB")})
		c.OK(wire.Request{Op: "fsync", FD: fd})
	},
	"bytes locked": func(c *Client, fd int) { c.OK(fcntlReq("setlk", fd, unix.F_WRLCK, 0, 1)) },
}

// waitersOfLive are scripts that change f while another program has it, on the basis of
// what they have read before or after their wait.
var waitersOfLive = map[string]struct {
	script  string
	refused bool
}{
	"redirection":         {`x=$(cat f); echo "$x-changed" > f`, true},
	"save":                {`x=$(cat f); echo "$x-changed" > t; mv t f`, true},
	"sed -i":              {`sed -i s/O/Z/ f`, true},
	"in place":            {`x=$(cat f); printf x | dd of=f conv=notrunc status=none`, true},
	"truncation":          {`x=$(cat f); "$PYTHON" -c 'import os; os.truncate("f", 1)'`, true},
	"moved away":          {`x=$(cat f); mv f f~`, true},
	"never read":          {`echo whole > f`, false},
	"read after the wait": {`"$PYTHON" -c 'f = open("f", "r+"); d = f.read(); f.seek(0); f.write(d); f.truncate()'`, false},
}

// A writer that waits for a file which goes live meanwhile is asked what it has read, as it
// would be if the wait had ended with a commit: the file was not live when it was read.
func TestWaiterForAFileThatGoesLive(t *testing.T) {
	needsLatchfs(t)
	forEachMount(t, func(t *testing.T, m *Mount) {
		for how, goLive := range goesLive {
			for name, w := range waitersOfLive {
				m.WriteFile("f", "OLD")
				a := m.Client(t)
				fd := a.Open("f", unix.O_RDWR)
				a.Write(fd, "AAAA")
				b := m.LaunchUnrelated(t, "bash", "-c", w.script)
				m.AwaitWaiters(t, "f", 1)
				goLive(a, fd)
				is := a.ReadAt(fd, 100, 0)
				a.MustClose(fd)
				out := b.Wait()
				if refused := out.Code != 0; refused != w.refused || refused && !saysBusy(out.Stdout+out.Stderr) {
					t.Errorf("%s, %s: refused is %v: %+v", how, name, refused, out)
				}
				if got := m.ReadFile("f"); w.refused && got != is {
					t.Errorf("%s, %s: %q is lost, the file holds %q", how, name, is, got)
				}
				a.Quit()
				a.m.Bash(t, `rm -f f f~ t sed*`)
			}
		}
	})
}
