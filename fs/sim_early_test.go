package fs

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// Programs that give a file another name, or a further one, before they close it. What is written
// by then has that name at once, and stays what it is when the program is killed.

// drawEarly adds commands that do so, as drawLocks does.
func (s *simScript) drawEarly(seed uint64, names []string) {
	r := rand.New(rand.NewPCG(seed, 61))
	if r.IntN(6) != 0 || s.hazards.cuts > 0 || s.stagesNames() || s.locksSeveral() {
		return
	}
	for range 1 + r.IntN(2) {
		line := []string{"early ", "early ", "earlier "}[r.IntN(3)] + names[r.IntN(len(names))]
		if r.IntN(3) == 0 && len(names) > 1 {
			i := r.IntN(len(names))
			line = "bumpln " + names[i] + " " + names[(i+1+r.IntN(len(names)-1))%len(names)]
		}
		p := &s.programs[r.IntN(2)] // not the guest, who may only read
		p.lines = slices.Insert(p.lines, r.IntN(len(p.lines)+1), line)
	}
}

// saveEarly saves a file as save does, but renames the temporary file before it closes it. goesOn:
// it writes another version then, which the close makes the file.
func (p *simProc) saveEarly(path string, goesOn bool) {
	temp := fmt.Sprintf("%s.tmp%d", path, p.pid-firstPID)
	fd, f, e := p.open(temp, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL)
	if e != 0 {
		return
	}
	f.version = p.w.model.newVersion(p)
	if p.writeVersion(fd, f.version) != 0 {
		p.close(fd)
		return
	}
	p.enter(unix.SYS_RENAMEAT2, fmt.Sprintf("rename the open %s to %s", temp, path), temp, path)
	if f.k != p.kernel { // the daemon has died, and the temporary file with it
		p.leave()
		p.close(fd)
		return
	}
	began := p.w.now()
	e = p.kernel.rename(p, temp, path, 0)
	p.w.logf("%s renames the open %s to %s: %s", p, temp, path, result(e))
	p.w.model.did(p, simOp{kind: "rename", path: temp, to: path, version: f.version, errno: e}, began)
	if e == 0 {
		f.version = unchanged
	}
	p.leave()
	if e == 0 && goesOn && p.ftruncate(fd, 0) == 0 {
		f.pos = 0
		f.version = p.w.model.newVersion(p)
		p.writeVersion(fd, f.version)
	}
	p.close(fd)
}

// A program is killed between the rename of a file that it has open and the close. The file has its
// new name, with what was written before the rename.
func TestKilledAfterAnEarlyRename(t *testing.T) {
	for _, line := range []string{"early a", "earlier a", "early b"} {
		name := line[len(line)-1:]
		w := inTurns(t, []simProgram{simProgramOf("ann", line), simProgramOf("bob", "cat "+name)},
			"ann until call "+map[bool]string{true: "close", false: "write"}[strings.HasPrefix(line, "early ")], "ann until call close", "kill ann", "ann to the end", "the kernel to the end", "bob to the end")
		if !strings.Contains(w.transcript(), "bob[2] reads "+name+`: "<ann1.`) {
			t.Errorf("%s: bob does not read what was renamed", line)
		}
	}
}
