package proc

import (
	"os"
	"os/exec"
	"testing"

	"golang.org/x/sys/unix"
)

// Closer tells in one look what Thread, Program and Exit tell.
func TestCloser(t *testing.T) {
	r := newReader(t)
	c := startChild(t)
	c.do("name", "mallory) R 1 1")
	second := c.number("thread")
	for _, tid := range []uint32{c.tid(), uint32(second)} {
		r.forget()
		want := mustThread(t, r, tid)
		r.forget()
		got, sig, exiting, err := r.Closer(tid)
		name := got.Comm
		if got.Comm = ""; got != want || sig != 0 || exiting || err != nil {
			t.Errorf("Closer(%d) = %+v, signal %d, exiting %v, %v; want %+v", tid, got, sig, exiting, err, want)
		}
		if want := r.Program(got.TGID); tid == c.tid() && name != want {
			t.Errorf("the name is %q, want %q", name, want)
		}
	}
	if _, _, _, err := r.Closer(0); err != ErrForeign {
		t.Errorf("thread 0: %v", err)
	}
	c.signal(unix.SIGKILL)
	c.await(unix.WEXITED | unix.WNOWAIT)
	if got, sig, exiting, err := r.Closer(c.tid()); err != nil || sig != 9 || !exiting || got.Owner.PID != c.pid() {
		t.Errorf("killed: %+v, signal %d, exiting %v, %v", got, sig, exiting, err)
	}
}

// The number of threads comes from the count of links: with a second thread the children
// of each are asked for.
func TestDescendantsOfThreads(t *testing.T) {
	r := newReader(t)
	if !r.isSingle(1) {
		t.Log("the first process has threads here")
	}
	c := startChild(t)
	if r.isSingle(c.pid()) {
		t.Error("a Go program is taken for one of a single thread")
	}
	cat := startProgram(t, "/bin/cat")
	if !r.isSingle(cat) {
		t.Error("cat is not taken for a program of a single thread")
	}
	if r.isSingle(1 << 30) {
		t.Error("nobody has a single thread")
	}
}

// The names of what is anonymous may be given to files, of which a link shows the path.
func TestAnonymousLinks(t *testing.T) {
	r := newReader(t)
	t.Chdir(t.TempDir())
	for _, name := range []string{"pipe:[1]", "anon_inode:[eventpoll]"} {
		f, err := os.Create(name)
		if err != nil {
			t.Fatal(err)
		}
		if r.isAnonymous("self/", int32(f.Fd())) {
			t.Errorf("a file named %q is taken for none", name)
		}
		f.Close()
	}
}

// startProgram starts a program that waits for the end of its input.
func startProgram(t *testing.T, name string) int32 {
	t.Helper()
	cmd := exec.Command(name)
	in, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close()
		_ = cmd.Wait()
	})
	return int32(cmd.Process.Pid)
}
