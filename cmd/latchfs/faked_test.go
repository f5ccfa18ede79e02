package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"

	"latchfs/fs/control"
)

// fakeDaemon answers on the control file of a directory that poses as a mount.
// It serves conversations over socket pairs, one after the other.
type fakeDaemon struct {
	t    *testing.T
	root string
	// reply answers a request; "" leaves it waiting.
	reply func(control.Request) string
	// asked gets every request, ended every end of a conversation.
	asked chan control.Request
	ended chan struct{}

	mu       sync.Mutex
	requests []control.Request
	end      int // ours of the last conversation
}

func newFakeDaemon(t *testing.T, reply func(control.Request) string) *fakeDaemon {
	t.Helper()
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return &fakeDaemon{t: t, root: root, reply: reply,
		asked: make(chan control.Request, 100), ended: make(chan struct{}, 100)}
}

// system is a machine with the fake mount.
func (d *fakeDaemon) system() system {
	return fakeSystem([]*mountinfo.Info{fakeMountAt(d.root, 1)}, func(name string) (*os.File, error) {
		if name != filepath.Join(d.root, ".locks", "control") {
			return nil, &os.PathError{Op: "open", Path: name, Err: unix.ENOENT}
		}
		return d.connect(), nil
	})
}

func fakeMountAt(dir string, minor int) *mountinfo.Info {
	return &mountinfo.Info{Mountpoint: dir, Root: "/", FSType: fsType, Minor: minor}
}

// fakeSystem is a machine with these mounts, along with a root filesystem.
func fakeSystem(mounts []*mountinfo.Info, open func(string) (*os.File, error)) system {
	mounts = append([]*mountinfo.Info{{Mountpoint: "/", Root: "/", FSType: "ext4", Minor: math.MaxInt16}}, mounts...)
	return system{
		mounts: func(skipped mountinfo.FilterFunc) ([]*mountinfo.Info, error) {
			var list []*mountinfo.Info
			for _, m := range mounts {
				if skip, _ := skipped(m); !skip {
					list = append(list, m)
				}
			}
			return list, nil
		},
		open: open,
	}
}

// connect begins a conversation, and returns the client's end.
func (d *fakeDaemon) connect() *os.File {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		d.t.Fatal(err)
	}
	d.end = fds[1]
	over := make(chan struct{})
	go func() { defer close(over); d.serve(fds[1]) }()
	d.t.Cleanup(func() {
		_ = unix.Shutdown(fds[1], unix.SHUT_RDWR) // there may be nobody
		<-over                                    // or it would meet the number's next bearer
		unix.Close(fds[1])
	})
	return os.NewFile(uintptr(fds[0]), filepath.Join(d.root, ".locks", "control"))
}

// connected tells whether somebody has the other end of the last conversation.
func (d *fakeDaemon) connected() bool {
	_, _, err := unix.Recvfrom(d.end, make([]byte, 1), unix.MSG_PEEK|unix.MSG_DONTWAIT)
	return err == unix.EAGAIN
}

// serve answers until the client has gone or is hung up on. connect closes the
// descriptor, when the test ends.
func (d *fakeDaemon) serve(fd int) {
	defer func() { d.ended <- struct{}{} }()
	defer func() { _ = unix.Shutdown(fd, unix.SHUT_RDWR) }() // there may be nobody
	lines := bufio.NewReader(socket(fd))
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return
		}
		req, err := control.Parse(line)
		if err != nil {
			d.t.Errorf("%s: %v", line, err)
			return
		}
		d.mu.Lock()
		d.requests = append(d.requests, req)
		d.mu.Unlock()
		reply := d.reply(req)
		d.asked <- req
		if reply == hangUp {
			return
		}
		if reply != "" {
			_, _ = unix.Write(fd, []byte(reply+"\n")) // the client may be gone
		}
	}
}

// socket reads from a descriptor.
type socket int

func (s socket) Read(b []byte) (int, error) {
	n, err := unix.Read(int(s), b)
	if err == nil && n == 0 {
		err = io.EOF
	}
	return max(n, 0), err
}

// hangUp ends the conversation in the place of a reply.
const hangUp = "hang up"

// received are the requests so far.
func (d *fakeDaemon) received() []control.Request {
	d.mu.Lock()
	defer d.mu.Unlock()
	return append([]control.Request(nil), d.requests...)
}

// file is the path of a file in the mount.
func (d *fakeDaemon) file(name string) string { return filepath.Join(d.root, name) }

// outcome is what a command did.
type outcome struct {
	code           int
	stdout, stderr string
}

// run runs a command line in this process.
func (d *fakeDaemon) run(args ...string) outcome {
	var stdout, stderr bytes.Buffer
	code := executeOn(d.system(), args, &stdout, &stderr)
	return outcome{code, stdout.String(), stderr.String()}
}

// always gives the same reply to everything.
func always(reply string) func(control.Request) string {
	return func(control.Request) string { return reply }
}

// granting takes and gives back as asked.
func granting(req control.Request) string {
	switch req.Op {
	case control.Acquire:
		return `{"ok":true,"lock":"L1","token":7}`
	case control.Release:
		return `{"ok":true,"released":1}`
	}
	return `{"ok":true}`
}

// fakedRootEnv is the directory that poses as the mount of a latchfs-faked
// process, whose conversation is descriptor 3.
const fakedRootEnv = "LATCHFS_TEST_ROOT"

// mainFaked is the program on a machine with the fake mount.
func mainFaked() {
	const fd = 3
	syscall.CloseOnExec(fd)
	sys := fakeSystem([]*mountinfo.Info{fakeMountAt(os.Getenv(fakedRootEnv), 1)}, func(name string) (*os.File, error) {
		return os.NewFile(fd, name), nil
	})
	os.Exit(executeOn(sys, os.Args[1:], os.Stdout, os.Stderr))
}

// command is a command line for a process of its own.
func (d *fakeDaemon) command(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(name, args...)
	cmd.Env = append(os.Environ(), fakedRootEnv+"="+d.root, "GORACE=atexit_sleep_ms=0")
	end := d.connect()
	d.t.Cleanup(func() { end.Close() })
	cmd.ExtraFiles = []*os.File{end}
	return cmd
}

// start starts it, and closes our copy of its conversation.
func (d *fakeDaemon) start(cmd *exec.Cmd) {
	d.t.Helper()
	if err := cmd.Start(); err != nil {
		d.t.Fatal(err)
	}
	cmd.ExtraFiles[0].Close()
	d.t.Cleanup(func() { _ = cmd.Process.Kill() })
}

// exitCode waits for a process.
func exitCode(t *testing.T, cmd *exec.Cmd) int {
	t.Helper()
	_ = cmd.Wait() // the code says it
	if !cmd.ProcessState.Exited() {
		t.Fatalf("%s: %v", cmd, cmd.ProcessState)
	}
	return cmd.ProcessState.ExitCode()
}

func (o outcome) String() string {
	return fmt.Sprintf("exit code %d\n--- stdout\n%s--- stderr\n%s", o.code, o.stdout, o.stderr)
}
