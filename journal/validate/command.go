package validate

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// What is kept of a command's output.
const (
	maxOutput      = 2 << 10 // bytes
	maxOutputLines = 8
)

// commandPath is where a command looks for others.
const commandPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// reapGrace is how long a command that was killed may take to be gone, and one
// that has ended to let go of its output.
const reapGrace = 500 * time.Millisecond

// runCommand asks the external command.
func runCommand(ctx context.Context, f *os.File, size int64, name string, o *Options) error {
	if c := o.Credential; c != nil && c.UID == o.Writer {
		return &Refusal{Validator: Command, Reason: fmt.Sprintf(
			"%s would run as uid %d, who wrote the content and could tell it what to answer: set command-user to a user who does not write here",
			o.Command[0], c.UID)}
	}
	leave, err := running.take(ctx, o.Writer)
	if err != nil {
		return err
	}
	in, fill, err := contentFor(f, size, o.Credential)
	if err != nil {
		leave()
		return err
	}
	timeout := o.Timeout
	if timeout == 0 {
		timeout = DefaultTimeout
	}
	limit, cancel := context.WithTimeout(ctx, timeout)
	p := &process{name: o.Command[0], kill: limit.Done(), result: make(chan error, 1)}
	if o.Credential == nil {
		p.cmd = exec.Command(o.Command[0], o.Command[1:]...)
	} else {
		p.cmd = o.confined(timeout)
	}
	p.cmd.Stdin, p.cmd.Stdout, p.cmd.Stderr = in, &p.out, &p.out
	p.cmd.Env = []string{"PATH=" + commandPath, "LANG=C.UTF-8", "LATCHFS_FILE=" + name}
	go fill()
	go func() {
		defer leave()
		defer cancel()
		p.run()
	}()
	err = p.await(limit.Done())
	if err == errKilled && ctx.Err() != nil {
		return ctx.Err()
	}
	return p.judge(err, timeout)
}

// errKilled is the end of a command that took too long.
var errKilled = errors.New("killed")

// process is a command under way.
type process struct {
	name   string // for people
	cmd    *exec.Cmd
	out    output
	kill   <-chan struct{}
	result chan error
}

// await waits for the command's end, and little longer than its time: what sleeps
// in the kernel dies only when it wakes up, and may be waiting for our caller.
func (p *process) await(over <-chan struct{}) error {
	select {
	case err := <-p.result:
		return err
	case <-over:
	}
	select {
	case err := <-p.result:
		return err
	case <-time.After(reapGrace):
		return errKilled
	}
}

// run runs the command to its end, and closes its input. It takes a thread for itself, and that thread
// with it: the umask is the thread's own, and the kernel kills the command when
// the thread that started it ends.
func (p *process) run() {
	runtime.LockOSThread()
	pid, err := p.start()
	if err != nil {
		p.result <- &startError{err}
		return
	}
	over := make(chan struct{})
	killed := make(chan bool, 1)
	go func() {
		select {
		case <-p.kill:
			_ = unix.Kill(-pid, unix.SIGKILL) // it is not reaped yet, so the group is ours
			<-over
			killed <- true
		case <-over:
			killed <- false
		}
	}()
	awaitExit(pid)
	_ = unix.Kill(-pid, unix.SIGKILL) // what it has left running
	close(over)
	late := <-killed
	err = p.cmd.Wait()
	switch {
	case late:
		err = errKilled
	case err != nil && p.cmd.ProcessState.ExitCode() == notRun:
		err = &startError{errors.New(strings.Join(p.out.lines(), "; "))}
	}
	p.result <- err
}

// start starts the command. What it makes of the thread, the command inherits.
func (p *process) start() (pid int, err error) {
	if in, ok := p.cmd.Stdin.(*os.File); ok {
		defer in.Close()
	}
	if err := unix.Unshare(unix.CLONE_FS); err == nil {
		unix.Umask(0o022)
	}
	// Whatever we were started with, or a library has left open.
	_ = unix.CloseRange(3, math.MaxInt32, unix.CLOSE_RANGE_CLOEXEC)
	p.cmd.Dir, p.cmd.WaitDelay = "/", reapGrace
	if p.cmd.SysProcAttr == nil {
		p.cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	p.cmd.SysProcAttr.Setsid, p.cmd.SysProcAttr.Pdeathsig = true, syscall.SIGKILL
	if err := p.cmd.Start(); err != nil {
		return 0, err
	}
	return p.cmd.Process.Pid, nil
}

// awaitExit waits until a child has ended, and leaves it to be reaped: as long
// as it is not, nobody else gets its number.
func awaitExit(pid int) {
	for unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil) == unix.EINTR {
	}
}

// startError is a command that could not be run.
type startError struct{ err error }

func (e *startError) Error() string { return e.err.Error() }

// judge turns the command's end into an answer.
func (p *process) judge(err error, timeout time.Duration) error {
	r := &Refusal{Validator: Command, Output: p.out.lines()}
	name := p.name
	var start *startError
	var exit *exec.ExitError
	switch {
	case err == nil, errors.Is(err, exec.ErrWaitDelay):
		return nil
	case err == errKilled:
		r.Reason = fmt.Sprintf("%s did not end within %v", name, timeout)
	case errors.As(err, &start):
		r.Reason = fmt.Sprintf("%s cannot be run: %v", name, cause(start.err))
	case errors.As(err, &exit):
		r.Reason = name + " " + ended(exit)
	default:
		r.Reason = fmt.Sprintf("%s: %v", name, err)
	}
	return r
}

// cause is the system's error behind those that repeat what was to be done.
func cause(err error) error {
	var e syscall.Errno
	if errors.As(err, &e) {
		return e
	}
	return err
}

func ended(e *exec.ExitError) string {
	if ws, ok := e.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		return "was killed by " + unix.SignalName(ws.Signal())
	}
	return "ended with exit status " + strconv.Itoa(e.ExitCode())
}

// output keeps the beginning of what a command says.
type output struct {
	most int // bytes; 0: maxOutput
	mu   sync.Mutex
	buf  bytes.Buffer
}

// Write implements io.Writer and never fails: a command is not to be stopped by
// its own talking.
func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if room := cmp.Or(o.most, maxOutput) - o.buf.Len(); room > 0 {
		o.buf.Write(b[:min(room, len(b))])
	}
	return len(b), nil
}

// lines are the first lines that are not blank.
func (o *output) lines() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	var out []string
	for line := range strings.Lines(o.buf.String()) {
		if line = strings.TrimRight(line, " \t\r\n"); line != "" && len(out) < maxOutputLines {
			out = append(out, line)
		}
	}
	return out
}
