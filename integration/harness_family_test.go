package integration

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"latchfs/integration/internal/counting"
)

// Family is a bash script of which the next command comes from the test. It has
// no relatives close enough to share what it knows of a file, so that the rules
// about relatives see it as a program of its own; what it starts is its family.
type Family struct {
	p    *Proc
	said int // commands so far
}

// familyLoop runs the lines of its standard input, one after the other.
const familyLoop = `while IFS= read -r line; do eval "$line" < /dev/null; printf '\n== %d\n' $?; done 2>&1`

// Family starts a family with the mount as its working directory.
func (m *Mount) Family(t testing.TB) *Family {
	t.Helper()
	return &Family{p: m.LaunchUnrelated(t, "bash", "-c", familyLoop)}
}

// LaunchUnrelated starts a program as Launch does, but with parents of its own.
func (m *Mount) LaunchUnrelated(t testing.TB, argv ...string) *Proc {
	t.Helper()
	argv = counting.Unrelated(argv)
	return m.launch(t, exec.Command(argv[0], argv[1:]...))
}

// familyAnswer is what ends the output of a command.
var familyAnswer = regexp.MustCompile(`\n== ([0-9]+)\n`)

// Try runs a command line in the family's shell and returns what it printed, on
// both outputs, and its exit status.
func (f *Family) Try(command string) (string, int) {
	f.p.t.Helper()
	f.p.Send(command)
	f.said++
	var ends [][]int
	var out string
	eventually(f.p.t, "an answer to "+command, func() bool {
		out = f.p.Stdout()
		ends = familyAnswer.FindAllStringSubmatchIndex(out, -1)
		if len(ends) < f.said && f.p.Done() {
			f.p.t.Fatalf("the shell ended in %q\n%s%s", command, out, f.p.Stderr())
		}
		return len(ends) >= f.said
	})
	end, begin := ends[f.said-1], 0
	if f.said > 1 {
		begin = ends[f.said-2][1]
	}
	code, _ := strconv.Atoi(out[end[2]:end[3]])
	return out[begin:end[0]], code
}

// OK runs a command line that must succeed, and returns what it printed.
func (f *Family) OK(command string) string {
	f.p.t.Helper()
	out, code := f.Try(command)
	if code != 0 {
		f.p.t.Errorf("%s: exit %d\n%s", command, code, out)
	}
	return out
}

// Refused runs a command line that must fail and say that something is busy.
func (f *Family) Refused(command string) {
	f.p.t.Helper()
	if out, code := f.Try(command); code == 0 || !saysBusy(out) {
		f.p.t.Errorf("%s was not refused: exit %d\n%s", command, code, out)
	}
}

// saysBusy tells whether a tool has reported EBUSY.
func saysBusy(out string) bool {
	return strings.Contains(out, "esource busy") || strings.Contains(out, "EBUSY") || strings.Contains(out, "Errno 16]")
}

// Pause is a point in a program at which the test does something. The program
// runs the executable Command there, in whatever way it can run one; it returns
// when the test lets it go on.
type Pause struct {
	Command string

	t          testing.TB
	came, goOn *os.File
}

// pauseScript says that the program has come, and waits.
const pauseScript = `#!/bin/sh
echo came > %[1]s.came
read go < %[1]s.go
`

// newPause makes a pause outside of the mount.
func (m *Mount) newPause(t testing.TB) *Pause {
	t.Helper()
	dir, err := os.MkdirTemp(m.Home(), "pause-")
	if err != nil {
		t.Fatal(err)
	}
	p := &Pause{Command: filepath.Join(dir, "pause"), t: t}
	if err := os.WriteFile(p.Command, fmt.Appendf(nil, pauseScript, p.Command), 0o755); err != nil {
		t.Fatal(err)
	}
	p.came, p.goOn = makeFIFO(t, p.Command+".came"), makeFIFO(t, p.Command+".go")
	if err := giveTo(dir, m.UID); err != nil {
		t.Fatal(err)
	}
	return p
}

// makeFIFO makes a fifo and opens it for both ways, so that no end of it waits
// for the other to be opened.
func makeFIFO(t testing.TB, path string) *os.File {
	t.Helper()
	if out, err := exec.Command("mkfifo", path).CombinedOutput(); err != nil {
		t.Fatalf("%v %s", err, out)
	}
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

// Await waits until the program has come to the pause.
func (p *Pause) Await(program *Proc) {
	p.t.Helper()
	came := make([]byte, len("came\n"))
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); {
		if err := p.came.SetReadDeadline(time.Now().Add(10 * poll)); err != nil {
			p.t.Fatal(err)
		}
		if n, _ := p.came.Read(came); n > 0 {
			return
		}
		if program.Done() {
			break
		}
	}
	p.t.Fatalf("%.300q did not come to its pause\n%s%s", program.Cmd.Args, program.Stdout(), program.Stderr())
}

// Go lets the program go on.
func (p *Pause) Go() {
	p.t.Helper()
	if _, err := p.goOn.WriteString("go\n"); err != nil {
		p.t.Fatal(err)
	}
}

// soon waits for the program's end, which it must come to within patience, or it
// is killed.
func (p *Proc) soon() Outcome {
	p.t.Helper()
	select {
	case <-p.done:
	case <-time.After(patience):
		p.t.Errorf("%.300q does not end", p.Cmd.Args)
		p.Kill()
	}
	return p.Wait()
}
