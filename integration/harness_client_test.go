package integration

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"latchfs/integration/internal/wire"
)

// Client is a process of its own that does what the test tells it, one system
// call at a time on its main thread.
type Client struct {
	PID int

	t      testing.TB
	m      *Mount
	cmd    *exec.Cmd
	in     io.WriteCloser
	out    *bufio.Reader
	stderr lockedBuffer
	reaped chan struct{} // closed when the process has been waited for
}

// Client starts a client as the mount's user. It is killed when the test ends.
func (m *Mount) Client(t testing.TB) *Client { return m.ClientAs(t, m.UID) }

// ClientAs starts a client as another user; only root can.
func (m *Mount) ClientAs(t testing.TB, uid int) *Client {
	t.Helper()
	return m.startClient(t, uid, exec.Command(bench.client))
}

// newControl starts the harness's own client, which has to outlive the test's
// cleanups and is ended by Mount.cleanup.
func (m *Mount) newControl() *Client {
	m.t.Helper()
	if m.control != nil {
		m.control.Kill()
	}
	return m.spawnClient(m.t, m.UID, exec.Command(bench.client))
}

// ClientThrough starts a client by way of another command, such as unshare.
func (m *Mount) ClientThrough(t testing.TB, argv ...string) *Client {
	t.Helper()
	argv = append(argv, bench.client)
	return m.startClient(t, m.UID, exec.Command(argv[0], argv[1:]...))
}

func (m *Mount) startClient(t testing.TB, uid int, cmd *exec.Cmd) *Client {
	t.Helper()
	c := m.spawnClient(t, uid, cmd)
	t.Cleanup(c.Kill)
	return c
}

func (m *Mount) spawnClient(t testing.TB, uid int, cmd *exec.Cmd) *Client {
	t.Helper()
	c := &Client{t: t, m: m, cmd: cmd, reaped: make(chan struct{})}
	m.as(cmd, uid)
	cmd.Dir = "/" // a client never keeps the mount busy unless told to
	cmd.Stderr = &c.stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	c.in, c.out = in, bufio.NewReaderSize(out, 1<<16)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	c.PID = cmd.Process.Pid
	return c
}

// Quit lets the client exit as a program that has finished does, without
// closing its descriptors first.
func (c *Client) Quit() {
	c.t.Helper()
	c.in.Close()
	c.await(patience)
}

// Kill ends the client with SIGKILL and reaps it.
func (c *Client) Kill() { c.Signal(syscall.SIGKILL); c.await(patience) }

// Signal sends a signal; a client has no handlers but the runtime's.
func (c *Client) Signal(s syscall.Signal) { c.cmd.Process.Signal(s) }

// await reaps the process. It does not use cmd.Wait for the pipes' sake: a
// pending read of the answer must end with EOF, not with a closed file.
func (c *Client) await(limit time.Duration) {
	select {
	case <-c.reaped:
		return
	default:
	}
	go func() {
		c.cmd.Process.Wait()
		close(c.reaped)
	}()
	select {
	case <-c.reaped:
	case <-time.After(limit):
		c.t.Errorf("client %d does not end: %s", c.PID, describe(c.PID))
	}
}

// Call is one operation under way.
type Call struct {
	Req wire.Request

	c    *Client
	done chan struct{}
	res  wire.Result
	err  error // transport: the client died
}

// Go starts an operation and returns at once. One at a time.
func (c *Client) Go(req wire.Request) *Call {
	c.t.Helper()
	call := &Call{Req: req, c: c, done: make(chan struct{})}
	line, err := json.Marshal(req)
	if err != nil {
		c.t.Fatal(err)
	}
	if _, err := c.in.Write(append(line, '\n')); err != nil {
		c.t.Fatalf("client %d: %v %s", c.PID, err, c.stderr.String())
	}
	go func() {
		defer close(call.done)
		line, err := c.out.ReadBytes('\n')
		if err != nil {
			call.err = fmt.Errorf("client %d ended during %s: %w %s", c.PID, req.Op, err, c.stderr.String())
			return
		}
		call.err = json.Unmarshal(line, &call.res)
	}()
	return call
}

// Done tells whether the operation has returned.
func (call *Call) Done() bool {
	select {
	case <-call.done:
		return true
	default:
		return false
	}
}

// Result waits for the operation and returns what it answered; the error is a
// syscall.Errno. A client that dies meanwhile fails the test.
func (call *Call) Result() (wire.Result, error) {
	call.c.t.Helper()
	select {
	case <-call.done:
	case <-time.After(patience + 15*time.Second):
		call.c.t.Fatalf("%s %s does not return: %s", call.Req.Op, call.Req.Path, describe(call.c.PID))
	}
	if call.err != nil {
		call.c.t.Fatal(call.err)
	}
	if call.res.Errno != 0 {
		return call.res, syscall.Errno(call.res.Errno)
	}
	return call.res, nil
}

// Err waits for the operation and returns its error.
func (call *Call) Err() error {
	call.c.t.Helper()
	_, err := call.Result()
	return err
}

// OK waits for the operation, which must succeed.
func (call *Call) OK() wire.Result {
	call.c.t.Helper()
	res, err := call.Result()
	if err != nil {
		call.c.t.Fatalf("%s %s %s: %v", call.Req.Op, call.Req.Path, call.Req.To, err)
	}
	return res
}

// Ended waits for the client to die during the operation.
func (call *Call) Ended() bool {
	select {
	case <-call.done:
		return call.err != nil
	case <-time.After(patience):
		return false
	}
}

// Do carries out one operation.
func (c *Client) Do(req wire.Request) (wire.Result, error) {
	c.t.Helper()
	return c.Go(req).Result()
}

// OK carries out one operation, which must succeed.
func (c *Client) OK(req wire.Request) wire.Result {
	c.t.Helper()
	return c.Go(req).OK()
}

// openReq is the request of an open below the mount.
func (c *Client) openReq(name string, flags int) wire.Request {
	return wire.Request{Op: "open", Path: c.m.Path(name), Flags: flags | unix.O_CLOEXEC, Mode: 0o644}
}

// Open opens a file below the mount, and fails the test when that fails.
func (c *Client) Open(name string, flags int) int {
	c.t.Helper()
	return int(c.OK(c.openReq(name, flags)).N)
}

// TryOpen opens a file below the mount and returns the error.
func (c *Client) TryOpen(name string, flags int) (int, error) {
	c.t.Helper()
	res, err := c.Do(c.openReq(name, flags))
	return int(res.N), err
}

// GoOpen starts an open below the mount.
func (c *Client) GoOpen(name string, flags int) *Call {
	c.t.Helper()
	return c.Go(c.openReq(name, flags))
}

// Write writes to a descriptor, all of it.
func (c *Client) Write(fd int, data string) {
	c.t.Helper()
	if res := c.OK(wire.Request{Op: "write", FD: fd, Data: []byte(data)}); res.N != int64(len(data)) {
		c.t.Fatalf("short write: %d of %d", res.N, len(data))
	}
}

// Close closes a descriptor and returns the error.
func (c *Client) Close(fd int) error {
	c.t.Helper()
	_, err := c.Do(wire.Request{Op: "close", FD: fd})
	return err
}

// MustClose closes a descriptor, which must succeed.
func (c *Client) MustClose(fd int) {
	c.t.Helper()
	if err := c.Close(fd); err != nil {
		c.t.Fatalf("close: %v", err)
	}
}

// ReadAt reads up to n bytes at an offset.
func (c *Client) ReadAt(fd int, n, off int64) string {
	c.t.Helper()
	return string(c.OK(wire.Request{Op: "pread", FD: fd, Len: n, Off: off}).Data)
}

// Fstat is fstat.
func (c *Client) Fstat(fd int) wire.Stat {
	c.t.Helper()
	return *c.OK(wire.Request{Op: "fstat", FD: fd}).Stat
}

// Stat is stat below the mount.
func (c *Client) Stat(name string) (wire.Stat, error) {
	c.t.Helper()
	res, err := c.Do(wire.Request{Op: "stat", Path: c.m.Path(name)})
	if res.Stat == nil {
		return wire.Stat{}, err
	}
	return *res.Stat, err
}

// ReadFile reads a whole file below the mount, and fails the test when that fails.
func (c *Client) ReadFile(name string) string {
	c.t.Helper()
	return string(c.OK(wire.Request{Op: "readall", Path: c.m.Path(name)}).Data)
}

// Save opens with O_TRUNC, writes and closes.
func (c *Client) Save(name, content string) error {
	c.t.Helper()
	_, err := c.Do(wire.Request{Op: "writeall", Path: c.m.Path(name), Mode: 0o644, Data: []byte(content)})
	return err
}

// List lists a directory below the mount, without .locks.
func (c *Client) List(name string) []string {
	c.t.Helper()
	var names []string
	for _, n := range c.OK(wire.Request{Op: "list", Path: c.m.Path(name)}).Names {
		if n != ".locks" {
			names = append(names, n)
		}
	}
	return names
}

// path2 is the request of an operation on two names below the mount.
func (c *Client) path2(op, from, to string) wire.Request {
	return wire.Request{Op: op, Path: c.m.Path(from), To: c.m.Path(to)}
}

// ReadFile, WriteFile and List are the same through the harness's own client.
func (m *Mount) ReadFile(name string) string { m.t.Helper(); return m.control.ReadFile(name) }

// WriteFile saves a file through the mount.
func (m *Mount) WriteFile(name, content string) {
	m.t.Helper()
	if err := m.control.Save(name, content); err != nil {
		m.t.Fatalf("saving %s: %v", name, err)
	}
}

// List lists a directory through the mount.
func (m *Mount) List(name string) []string { m.t.Helper(); return m.control.List(name) }

// Mkdir makes a directory through the mount.
func (m *Mount) Mkdir(name string) {
	m.t.Helper()
	m.control.OK(wire.Request{Op: "mkdir", Path: m.Path(name), Mode: 0o755})
}

// describe says what a process is doing, for messages.
func describe(pid int) string {
	return fmt.Sprintf("pid %d stat %q syscall %q wchan %q", pid,
		readProc(pid, "stat"), readProc(pid, "syscall"), readProc(pid, "wchan"))
}

// readProc reads a file of /proc/PID, "" when the process is gone.
func readProc(pid int, name string) string {
	text, _ := os.ReadFile(filepath.Join("/proc", fmt.Sprint(pid), name))
	return strings.TrimSpace(string(text))
}

// flockReq is the request of flock(2).
func flockReq(fd, how int) wire.Request { return wire.Request{Op: "flock", FD: fd, Kind: how} }
