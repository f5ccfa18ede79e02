package proc

import (
	"bytes"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"latchfs/lockmgr/proc/internal/procfs"
)

func TestDescribe(t *testing.T) {
	r := newReader(t)
	dir := t.TempDir()
	c := startChild(t, func(cmd *exec.Cmd) {
		cmd.Dir = dir
		cmd.Args = []string{"one", "two words", "", "four"}
		cmd.Env = append(cmd.Env, "LABEL=a=b", "EMPTY=")
	})
	c.do("name", "scribe")
	d := r.Describe(c.pid())
	if d.Program != "scribe" || d.Cwd != dir || d.UID != uint32(os.Geteuid()) ||
		!slices.Equal(d.Cmdline, []string{"one", "two words", "", "four"}) {
		t.Errorf("%+v", d)
	}
	for name, want := range map[string]string{"LABEL": "a=b", "EMPTY": "", "LABE": "", "NONE": ""} {
		if got := r.FirstEnv(c.pid(), []string{name}); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
}

func TestFirstEnv(t *testing.T) {
	r := newReader(t)
	c := startChild(t, func(cmd *exec.Cmd) {
		cmd.Env = append(cmd.Env, "ONE=1", "TWO=2=2", "EMPTY=")
	})
	for _, tt := range []struct {
		names []string
		want  string
	}{
		{[]string{"ONE", "TWO"}, "1"},
		{[]string{"TWO", "ONE"}, "2=2"},
		{[]string{"NONE", "EMPTY", "TWO", "ONE"}, "2=2"},
		{[]string{"EMPTY", "NONE"}, ""},
		{[]string{"TWO=2"}, "2"}, // no variable has such a name, but nobody asks for it
		{nil, ""},
	} {
		if got := r.FirstEnv(c.pid(), tt.names); got != tt.want {
			t.Errorf("%q: %q, want %q", tt.names, got, tt.want)
		}
	}
}

// No more is read of an environment than a bound, and no half of a value.
func TestFirstEnvBounded(t *testing.T) {
	r := newReader(t)
	const piece = 100_000
	long := strings.Repeat("x", piece)
	c := startChild(t, func(cmd *exec.Cmd) {
		cmd.Env = []string{childEnv + "=1", "A=" + long, "B=" + long, "ACROSS=" + long, "BEHIND=1"}
	})
	for name, want := range map[string]int{"A": piece, "B": piece, "ACROSS": 0, "BEHIND": 0} {
		if got := len(r.FirstEnv(c.pid(), []string{name})); got != want {
			t.Errorf("%s is %d bytes long, want %d", name, got, want)
		}
	}
	if b, err := r.root.ReadUpTo(procfs.PIDPath(c.pid(), "environ"), 1000); len(b) != 1000 || err != nil {
		t.Errorf("%d bytes and %v, want 1000", len(b), err)
	}
}

func TestDescribeLong(t *testing.T) {
	r := newReader(t)
	long := strings.Repeat("x", 100_000)
	c := startChild(t, func(cmd *exec.Cmd) {
		cmd.Args = []string{"child", long}
		cmd.Env = append(cmd.Env, "A="+long, "LAST=here")
	})
	if d := r.Describe(c.pid()); len(strings.Join(d.Cmdline, " ")) > maxCmdline || len(d.Cmdline) != 2 {
		t.Errorf("%d arguments", len(d.Cmdline))
	}
	_ = r.root.WithFile(procfs.PIDPath(c.pid(), "cmdline"), func(b []byte) error {
		if want := len("child\x00" + long + "\x00"); len(b) != want {
			t.Errorf("read %d bytes of a file of %d", len(b), want)
		}
		return nil
	})
	if got := r.FirstEnv(c.pid(), []string{"LAST"}); got != "here" {
		t.Errorf("LAST is %q", got)
	}
}

// terminal is a pseudo-terminal with a program on it.
type terminal struct {
	t    *testing.T
	cmd  *exec.Cmd
	ptmx *os.File
	seen []byte
}

// onTerminal starts a program in a session of its own on a new terminal.
func onTerminal(t *testing.T, args ...string) *terminal {
	t.Helper()
	ptmx, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ptmx.Close() })
	n, err := unix.IoctlGetInt(int(ptmx.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.IoctlSetPointerInt(int(ptmx.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	tty, err := os.OpenFile("/dev/pts/"+strconv.Itoa(n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer tty.Close()
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Env = []string{"PS1=ready>", "PATH=/usr/bin:/bin", "TERM=dumb"}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = tty, tty, tty
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	return &terminal{t: t, cmd: cmd, ptmx: ptmx}
}

// await reads until the program has written something.
func (term *terminal) await(text string) {
	term.t.Helper()
	buf := make([]byte, 1024)
	for !bytes.Contains(term.seen, []byte(text)) {
		n, err := term.ptmx.Read(buf)
		if err != nil {
			term.t.Fatalf("%v; the terminal shows %q", err, term.seen)
		}
		term.seen = append(term.seen, buf[:n]...)
	}
	term.seen = nil
}

func (term *terminal) pid() int32 { return int32(term.cmd.Process.Pid) }

func TestInteractive(t *testing.T) {
	r := newReader(t)
	for _, args := range [][]string{{"/bin/bash", "--norc", "--noprofile"}, {"/bin/dash", "-i"}} {
		term := onTerminal(t, args...)
		term.await("ready>")
		if !r.isPrompt(t, term.pid()) {
			t.Errorf("%v at its prompt is not interactive", args)
		}
		// A subshell of it is not, nor is a script that it runs.
		term.ptmx.WriteString("(cat; true)\n")
		sub := awaitChild(t, r, term.pid())
		if r.isPrompt(t, sub) {
			t.Errorf("a subshell of %v is interactive", args)
		}
		if !r.isPrompt(t, term.pid()) {
			t.Errorf("%v waiting for a command is not interactive", args)
		}
	}
	for _, args := range [][]string{
		{"/bin/bash", "-c", "echo ready; read x"},
		{"/bin/dash", "-c", "echo ready; read x"},
		{"/bin/sh", "-c", "trap '' TSTP TTOU; exec sed -u s/ask/ready/"},
	} {
		term := onTerminal(t, args...)
		term.ptmx.WriteString("ask\n")
		term.await("ready")
		if r.isPrompt(t, term.pid()) {
			t.Errorf("%v is interactive", args)
		}
	}
	// Without a terminal nobody types.
	shell := exec.Command("/bin/bash", "-c", "trap '' TSTP TTIN TTOU; echo ready; read x")
	shell.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	in, err := shell.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := shell.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := shell.Start(); err != nil {
		t.Fatal(err)
	}
	defer shell.Wait()
	defer in.Close()
	if _, err := out.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	if r.isPrompt(t, int32(shell.Process.Pid)) {
		t.Error("a shell without a terminal is interactive")
	}
}

// awaitChild watches a process until it has a child that has one itself.
func awaitChild(t *testing.T, r *Reader, pid int32) int32 {
	t.Helper()
	for {
		if d := r.Descendants(pid); len(d) > 1 {
			return d[0]
		}
		if _, err := r.stat(pid); err != nil {
			t.Fatal(err)
		}
	}
}
