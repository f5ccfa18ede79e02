package proc

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"latchfs/lockmgr"
	"latchfs/lockmgr/proc/internal/environs"
	"latchfs/lockmgr/proc/internal/procfs"
)

// label is the variable that the tests ask for.
var label = []string{"LABEL"}

// A process that has the number of another one is not taken for it.
func TestEnvOf(t *testing.T) {
	r := newReader(t)
	c := startChild(t, func(cmd *exec.Cmd) { cmd.Env = append(cmd.Env, "LABEL=mine") })
	o := r.mustOwner(t, c.pid())
	if got := r.EnvOf(o, label); got != "mine" {
		t.Errorf("the label is %q", got)
	}
	o.Start--
	if got := r.EnvOf(o, label); got != "" {
		t.Errorf("of an earlier process with that number the label is %q", got)
	}
}

// withAndWithoutForks runs a test with a reader that is told of execve, and one that is not.
func withAndWithoutForks(t *testing.T, test func(t *testing.T, r *Reader)) {
	t.Run("told", func(t *testing.T) { test(t, following(t)) })
	t.Run("untold", func(t *testing.T) { test(t, newReader(t)) })
}

// relabelled is a program that becomes itself again with another label for each line it
// reads, and says the label that it was started with.
func relabelled(t *testing.T, prefix ...string) (pid int32, next func() string) {
	t.Helper()
	script := filepath.Join(t.TempDir(), "script")
	const text = `echo $LABEL; read x; export LABEL; case $LABEL in
		zero) LABEL=one;; one) LABEL=two;; two) LABEL=six;; *) exit;; esac; exec /bin/sh $0`
	if err := os.WriteFile(script, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	args := append(prefix, "/bin/sh", script)
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Env = []string{"LABEL=zero"}
	in, out := startPiped(t, cmd)
	t.Cleanup(func() { in.Close(); cmd.Wait() })
	lines, first := bufio.NewScanner(out), true
	return int32(cmd.Process.Pid), func() string {
		t.Helper()
		if !first {
			fmt.Fprintln(in)
		}
		first = false
		if !lines.Scan() {
			t.Fatal("the script has ended")
		}
		return lines.Text()
	}
}

// addresses are those that the stat of a process shows of its program.
func addresses(t *testing.T, r *Reader, pid int32) string {
	t.Helper()
	line, err := r.root.ReadAll(procfs.PIDPath(pid, "stat"))
	if err != nil {
		t.Fatal(err)
	}
	fields := strings.Fields(string(line))
	return fmt.Sprint(fields[25:28], fields[44:51])
}

// After execve the environment is read again, also where the new program looks like the
// one before: its process, name, arguments and addresses are the same.
func TestEnvOfAfterExecve(t *testing.T) {
	for what, prefix := range map[string][]string{"random": nil, "fixed": {"setarch", "-R"}} {
		t.Run(what, func(t *testing.T) {
			withAndWithoutForks(t, func(t *testing.T, r *Reader) {
				pid, next := relabelled(t, prefix...)
				var at []string
				for _, want := range []string{"zero", "one", "two", "six"} {
					if got := next(); got != want {
						t.Fatalf("the program says %q, want %q", got, want)
					}
					o := r.mustOwner(t, pid)
					for range 2 {
						if got := r.EnvOf(o, label); got != want {
							t.Errorf("the label is %q, want %q", got, want)
						}
					}
					at = append(at, addresses(t, r, pid))
				}
				if what == "fixed" && at[2] != at[3] {
					t.Errorf("the programs differ in their addresses: the test tests nothing\n%s\n%s", at[2], at[3])
				}
			})
		})
	}
}

// mislead changes what is remembered of the label, so that an answer from memory shows.
func (r *Reader) mislead(t *testing.T, o lockmgr.Owner, value string) {
	t.Helper()
	im := r.imageOf(t, o)
	if _, ok := r.environs.Get(o, im, label); !ok {
		t.Fatal("nothing is remembered")
	}
	r.environs.Put(o, im, label, value)
}

// imageOf is the program that a process runs, which waits for something.
func (r *Reader) imageOf(t *testing.T, o lockmgr.Owner) environs.Image {
	t.Helper()
	if told := r.forks.Image(o.PID); told != 0 {
		return environs.Image{Told: told}
	}
	st, err := r.stat(o.PID)
	if err != nil {
		t.Fatal(err)
	}
	return environs.Image{Faults: st.Faults}
}

// A second question reads no environment, and where the kernel tells of execve it does not
// ask the process at all, so that it is answered also where the process would not.
func TestEnvOfIsRemembered(t *testing.T) {
	withAndWithoutForks(t, func(t *testing.T, r *Reader) {
		pid, next := relabelled(t)
		next()
		o := r.mustOwner(t, pid)
		r.EnvOf(o, label)
		r.mislead(t, o, "remembered")
		if got := r.EnvOf(o, label); got != "remembered" {
			t.Errorf("the label is read again: %q", got)
		}
		if r.forks != nil {
			questions := r.questions
			r.questions = nil // a question would panic
			if got := r.EnvOf(o, label); got != "remembered" {
				t.Errorf("the process is asked again: %q", got)
			}
			r.questions = questions
		}
		if got := r.EnvOf(o, []string{"NONE", "LABEL"}); got != "zero" {
			t.Errorf("another question is answered with %q", got)
		}
		if got := r.EnvOf(o, label); got != "remembered" {
			t.Errorf("after another question the label is read again: %q", got)
		}
		next()
		if got := r.EnvOf(o, label); got != "one" {
			t.Errorf("after execve the label is %q", got)
		}
	})
}

// Another program ends what is remembered, be it that the kernel tells no longer.
func TestEnvOfForgets(t *testing.T) {
	r := following(t)
	c := startChild(t, func(cmd *exec.Cmd) { cmd.Env = append(cmd.Env, "LABEL=mine") })
	o := r.mustOwner(t, c.pid())
	for _, step := range []struct {
		what, want string
		happens    func()
	}{
		{"nothing", "remembered", func() {}},
		{"another program", "mine", func() {
			earlier := r.imageOf(t, o)
			earlier.Told--
			r.environs.Put(o, earlier, label, "remembered")
		}},
		{"the end", "mine", r.UnfollowForks},
	} {
		r.EnvOf(o, label)
		r.mislead(t, o, "remembered")
		step.happens()
		if got := r.EnvOf(o, label); got != step.want {
			t.Errorf("after %s the label is %q, want %q", step.what, got, step.want)
		}
	}
}

// A process that was told apart from the one before by its start only: that one's label
// is not its own.
func TestEnvOfReusedPID(t *testing.T) {
	withAndWithoutForks(t, func(t *testing.T, r *Reader) {
		c := startChild(t, func(cmd *exec.Cmd) { cmd.Env = append(cmd.Env, "LABEL=mine") })
		o := r.mustOwner(t, c.pid())
		r.EnvOf(o, label)
		earlier := o
		earlier.Start--
		r.environs.Put(earlier, r.imageOf(t, o), label, "other")
		if got := r.EnvOf(o, label); got != "mine" {
			t.Errorf("the label is %q", got)
		}
		c.signal(unix.SIGKILL)
		c.await(unix.WEXITED)
		o.Start--
		if got := r.EnvOf(o, label); got != "" {
			t.Errorf("of a process that was not asked before its end the label is %q", got)
		}
	})
}

// What is remembered is of bounded size.
func TestEnvOfIsBounded(t *testing.T) {
	withAndWithoutForks(t, func(t *testing.T, r *Reader) {
		long := strings.Repeat("x", 1000)
		c := startChild(t, func(cmd *exec.Cmd) { cmd.Env = append(cmd.Env, "LONG="+long, "LABEL=mine") })
		o := r.mustOwner(t, c.pid())
		if got := r.EnvOf(o, []string{"LONG"}); got != long {
			t.Errorf("a long value has %d bytes", len(got))
		}
		if _, ok := r.environs.Get(o, r.imageOf(t, o), []string{"LONG"}); ok {
			t.Error("a long value is remembered")
		}
		for i := range 10 {
			if got := r.EnvOf(o, []string{fmt.Sprint("NONE", i), "LABEL"}); got != "mine" {
				t.Errorf("the label is %q", got)
			}
		}
		if _, ok := r.environs.Get(o, r.imageOf(t, o), []string{"NONE0", "LABEL"}); ok {
			t.Error("the first of many questions is remembered")
		}
	})
}

func BenchmarkEnvOf(b *testing.B) {
	for _, follow := range []bool{true, false} {
		b.Run(fmt.Sprintf("told=%v", follow), func(b *testing.B) {
			r := newReader(b)
			if follow {
				r = following(b)
			}
			th, err := r.Thread(uint32(os.Getppid()))
			if err != nil {
				b.Fatal(err)
			}
			for b.Loop() {
				r.EnvOf(th.Owner, []string{"HOME"})
			}
		})
	}
}
