package integration

import (
	"bytes"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// Proc is a program that runs on the mount.
type Proc struct {
	Cmd *exec.Cmd

	t    testing.TB
	m    *Mount
	in   *os.File // our end of its standard input
	out  lockedBuffer
	err  lockedBuffer
	done chan struct{}
}

// Outcome is how a program ended.
type Outcome struct {
	Code           int // exit status, -1 when killed by a signal
	Signal         syscall.Signal
	Stdout, Stderr string
}

// lockedBuffer collects output that is looked at while it grows.
type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// Launch starts a program as the mount's user with the mount as its working
// directory. The whole process group is killed when the test ends.
func (m *Mount) Launch(t testing.TB, name string, argv ...string) *Proc {
	t.Helper()
	return m.launch(t, exec.Command(name, argv...))
}

// Run runs a program to its end.
func (m *Mount) Run(t testing.TB, name string, argv ...string) Outcome {
	t.Helper()
	return m.Launch(t, name, argv...).Wait()
}

// LaunchPython starts a python3 script; sys.argv[1:] are argv.
func (m *Mount) LaunchPython(t testing.TB, script string, argv ...string) *Proc {
	t.Helper()
	return m.Launch(t, bench.python, append([]string{"-c", script}, argv...)...)
}

// launchOutside starts a python3 script that touches the mount only by what it does itself:
// it starts elsewhere, and looks for no modules in its working directory.
func (m *Mount) launchOutside(t testing.TB, script string, argv ...string) *Proc {
	t.Helper()
	cmd := exec.Command(bench.python, append([]string{"-I", "-c", script}, argv...)...)
	cmd.Dir = "/"
	return m.launch(t, cmd)
}

// Python runs a script, which must succeed, and returns its output.
func (m *Mount) Python(t testing.TB, script string, argv ...string) string {
	t.Helper()
	return m.LaunchPython(t, script, argv...).OK()
}

// Bash runs a bash script; $1 and on are argv.
func (m *Mount) Bash(t testing.TB, script string, argv ...string) Outcome {
	t.Helper()
	return m.Run(t, "bash", append([]string{"-c", script, "bash"}, argv...)...)
}

// AsOnPlain runs a program in the mount and in a plain directory: it must succeed in both, and
// print the same.
func (m *Mount) AsOnPlain(t *testing.T, what string, argv ...string) {
	t.Helper()
	plain := exec.Command(argv[0], argv[1:]...)
	plain.Dir = t.TempDir()
	got, want := m.Run(t, argv[0], argv[1:]...), finish(t, plain)
	if got.Stdout != want.Stdout || got.Code != 0 || want.Code != 0 {
		t.Errorf("%s: %+v, beside %+v on a plain directory", what, got, want)
	}
}

// LaunchBash starts a bash script.
func (m *Mount) LaunchBash(t testing.TB, script string, argv ...string) *Proc {
	t.Helper()
	return m.Launch(t, "bash", append([]string{"-c", script, "bash"}, argv...)...)
}

func (m *Mount) launch(t testing.TB, cmd *exec.Cmd) *Proc {
	t.Helper()
	theirs, ours, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer theirs.Close()
	p := &Proc{Cmd: cmd, t: t, m: m, in: ours, done: make(chan struct{})}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	m.asOwner(cmd)
	enters := cmd.Dir == "" // nobody wants it elsewhere
	if enters {
		cmd.Dir = m.Dir
	}
	cmd.Env = append(cmd.Env, "PWD="+cmd.Dir)
	if m.options.faults != nil && enters {
		// Each step of the daemon waits for this process, which may stand still between a fork
		// and the exec after it: another program has to enter the mount.
		cmd.Args = append([]string{"env", "-C", m.Dir, cmd.Path}, cmd.Args[1:]...)
		cmd.Path, cmd.Dir = "/usr/bin/env", "/"
	}
	cmd.Stdin = theirs
	cmd.Stdout, cmd.Stderr = &p.out, &p.err
	cmd.WaitDelay = 2 * time.Second // a background child may keep the pipes open
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { cmd.Wait(); close(p.done) }()
	t.Cleanup(p.Kill)
	return p
}

// Close closes the program's standard input: what a script waits for with
// sys.stdin.readline() or read.
func (p *Proc) Close() { p.in.Close() }

// Send writes a line to the program's standard input.
func (p *Proc) Send(line string) {
	p.t.Helper()
	if _, err := p.in.WriteString(line + "\n"); err != nil {
		p.t.Fatal(err)
	}
}

// PID is the program's.
func (p *Proc) PID() int { return p.Cmd.Process.Pid }

// Signal sends a signal to the program alone.
func (p *Proc) Signal(s syscall.Signal) { p.Cmd.Process.Signal(s) }

// Kill ends the program and everything it started in its process group. Its input ends
// afterwards: a program that reads it would otherwise end by itself first, with success.
func (p *Proc) Kill() {
	syscall.Kill(-p.PID(), syscall.SIGKILL)
	p.in.Close()
	select {
	case <-p.done:
	case <-time.After(patience):
		p.t.Errorf("does not die of SIGKILL: %s", describe(p.PID()))
	}
}

// Stdout is what the program printed so far.
func (p *Proc) Stdout() string { return p.out.String() }

// Stderr is what the program complained of so far.
func (p *Proc) Stderr() string { return p.err.String() }

// Done tells whether the program has ended.
func (p *Proc) Done() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// AwaitOutput is AwaitLine for what others print who have the program's output:
// it may have ended.
func (p *Proc) AwaitOutput(want string) {
	p.t.Helper()
	eventually(p.t, "the line "+want, func() bool { return strings.Contains("\n"+p.Stdout(), "\n"+want+"\n") })
}

// Wait waits for the program's end.
func (p *Proc) Wait() Outcome {
	p.t.Helper()
	select {
	case <-p.done:
	case <-time.After(4 * time.Minute):
		p.t.Fatalf("%q does not end: %s\n%s%s", p.Cmd.Args, describe(p.PID()), p.Stdout(), p.Stderr())
	}
	o := Outcome{Stdout: p.Stdout(), Stderr: p.Stderr(), Code: p.Cmd.ProcessState.ExitCode()}
	if ws := p.Cmd.ProcessState.Sys().(syscall.WaitStatus); ws.Signaled() {
		o.Signal = ws.Signal()
	}
	return o
}

// OK waits for the program, which must exit with 0, and returns its output.
func (p *Proc) OK() string {
	p.t.Helper()
	o := p.Wait()
	if o.Code != 0 {
		p.t.Fatalf("%.200q ended with %d %v\n%s%s", p.Cmd.Args, o.Code, o.Signal, o.Stdout, o.Stderr)
	}
	return o.Stdout
}

// AwaitLine waits until the program has printed a line that equals want.
func (p *Proc) AwaitLine(want string) {
	p.t.Helper()
	eventually(p.t, "the line "+want, func() bool {
		if strings.Contains("\n"+p.Stdout(), "\n"+want+"\n") {
			return true
		}
		if p.Done() {
			p.t.Fatalf("%.200q ended without printing %q\n%s%s", p.Cmd.Args, want, p.Stdout(), p.Stderr())
		}
		return false
	})
}

// runAs runs a program as another user, from a directory that everybody may
// enter, and returns its standard output and whether it succeeded.
func (m *Mount) runAs(t testing.TB, uid int, name string, argv ...string) (string, error) {
	t.Helper()
	cmd := exec.Command(name, argv...)
	m.as(cmd, uid)
	cmd.Dir = "/"
	out, err := cmd.Output()
	return string(out), err
}
