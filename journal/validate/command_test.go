package validate

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// self is this test binary, which is its own helper; see TestMain.
const self = "/proc/self/exe"

// sh is a command that a shell runs.
func sh(script string) []string { return []string{"/bin/sh", "-c", script} }

func TestCommand(t *testing.T) {
	tests := []struct {
		name    string
		command []string
		want    string
		output  string
	}{
		{"accepts", sh("exit 0"), "", ""},
		{"accepts and talks", sh("echo all well; echo yes >&2"), "", ""},
		{"refuses", sh("echo first; echo; echo second >&2; exit 3"), "command: /bin/sh ended with exit status 3", "first\nsecond"},
		{"dies", sh("kill -SEGV $$"), "command: /bin/sh was killed by SIGSEGV", ""},
		{"is not there", []string{"/no/such/program", "x"}, "command: /no/such/program cannot be run: no such file or directory", ""},
		{"is no program", []string{"/etc/passwd"}, "command: /etc/passwd cannot be run: permission denied", ""},
		{"gets the content", sh(`[ "$(cat)" = "the content" ]`), "", ""},
		{"knows the name", sh(`[ "$LATCHFS_FILE" = "a/b c" ]`), "", ""},
		{"works at the root", sh(`[ "$(pwd)" = / ]`), "", ""},
		{"has our umask for its own", sh(`umask; exit 1`), "command: /bin/sh ended with exit status 1", "0022"},
		{"gets arguments as they are", append(sh(`[ "$#,$1,$2" = '2,a b,$c' ]`), "sh", "a b", "$c"), "", ""},
		{"cannot write the content", sh(`echo x >&0`), "command: /bin/sh ended with exit status 1", "/bin/sh: 1: echo: echo: I/O error"},
		{"talks without end", sh(`yes | head -c 10000000; exit 1`), "command: /bin/sh ended with exit status 1", strings.Repeat("y\n", maxOutputLines-1) + "y"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := content(t, "the content")
			if _, err := f.Seek(4, 0); err != nil {
				t.Fatal(err)
			}
			got, output := "", ""
			var r *Refusal
			if err := Check(t.Context(), f, "a/b c", Options{Command: tt.command}); errors.As(err, &r) {
				got, output = err.Error(), strings.Join(r.Output, "\n")
			} else if err != nil {
				t.Fatal(err)
			}
			if got != tt.want || output != tt.output {
				t.Errorf("%q with output %q, want %q with %q", got, output, tt.want, tt.output)
			}
			if at, err := f.Seek(0, 1); at != 4 || err != nil {
				t.Errorf("the offset is %d, %v", at, err)
			}
		})
	}
}

// Nothing of ours gets through but the three descriptors and three variables.
func TestCommandInheritsNothing(t *testing.T) {
	t.Setenv("SECRET", "x")
	leak, err := unix.Open("/etc/passwd", unix.O_RDONLY, 0) // not close-on-exec
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(leak)
	// ls itself has the directory open.
	r := refusal(t, "", Options{Command: sh("ls /proc/self/fd | tr '\\n' ' '; echo; env | cut -d= -f1 | grep -v -e PWD -e '^_$' | sort | tr '\\n' ' '; exit 1")})
	if got := strings.Join(r.Output, ";"); got != "0 1 2 3;LANG LATCHFS_FILE PATH" {
		t.Errorf("it has %q", got)
	}
}

// A command that hangs is killed with all that it has started, and refuses.
func TestCommandTimeout(t *testing.T) {
	pids := filepath.Join(t.TempDir(), "pids")
	script := "echo $$ > " + pids + "; echo thinking; sleep 1000 & echo $! >> " + pids + "; wait"
	began := time.Now()
	r := refusal(t, "", Options{Command: sh(script), Timeout: 300 * time.Millisecond})
	if r == nil || r.Error() != "command: /bin/sh did not end within 300ms" || strings.Join(r.Output, ";") != "thinking" {
		t.Errorf("%v", r)
	}
	if d := time.Since(began); d > 5*time.Second {
		t.Errorf("it took %v", d)
	}
	wantGone(t, pids)
}

// What a command leaves running does not survive it, and cannot delay it.
func TestCommandLeavesNothing(t *testing.T) {
	pids := filepath.Join(t.TempDir(), "pids")
	began := time.Now()
	if r := refusal(t, "", Options{Command: sh("sleep 1000 & echo $! > " + pids), Timeout: time.Minute}); r != nil {
		t.Errorf("%v", r)
	}
	if d := time.Since(began); d > 10*time.Second {
		t.Errorf("it took %v", d)
	}
	wantGone(t, pids)
}

// wantGone waits until the processes whose pids are in a file are gone.
func wantGone(t *testing.T, file string) {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	deadline := time.Now().Add(10 * time.Second)
	for _, pid := range strings.Fields(string(b)) {
		for {
			stat, err := os.ReadFile("/proc/" + pid + "/stat")
			if err != nil || strings.Contains(string(stat), ") Z ") {
				break
			}
			if time.Now().After(deadline) {
				t.Fatalf("process %s is still there: %s", pid, stat)
			}
			time.Sleep(5 * time.Millisecond)
		}
	}
}

// A command that sleeps in the kernel, and cannot be killed, does not hold its
// caller for long after the timeout.
func TestCommandThatDoesNotDie(t *testing.T) {
	over := make(chan struct{})
	close(over)
	p := &process{result: make(chan error, 1)}
	if err := p.await(over); err != errKilled {
		t.Errorf("%v", err)
	}
	p.result <- nil
	if err := p.await(over); err != nil {
		t.Errorf("one that has ended by then: %v", err)
	}
}

func TestCommandIsCancelled(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	err := Check(ctx, content(t, ""), "f", Options{Command: []string{"/bin/sleep", "1000"}})
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v", err)
	}
}

// As root the command is whoever the writer is, and nobody besides.
func TestCommandCredential(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("becoming another user takes root")
	}
	o := Options{
		Command:    sh("grep -E '^(Uid|Gid|Groups|CapEff):' /proc/self/status; exit 1"),
		Credential: &Credential{UID: 12345, GID: 23456, Groups: []uint32{3, 34567}},
		Helper:     self,
	}
	r := refusal(t, "", o)
	want := "Uid:\t12345\t12345\t12345\t12345;Gid:\t23456\t23456\t23456\t23456;Groups:\t3 34567;CapEff:\t0000000000000000"
	if got := strings.Join(r.Output, ";"); got != want {
		t.Errorf("%q, want %q", got, want)
	}
	o.Credential.Groups = nil
	if r = refusal(t, "", o); len(r.Output) < 3 || r.Output[2] != "Groups:" {
		t.Errorf("without groups: %q", r.Output)
	}
	var st syscall.Stat_t
	if err := syscall.Stat("/proc/self", &st); err != nil || st.Uid != 0 {
		t.Errorf("we are %d, %v", st.Uid, err)
	}
}
