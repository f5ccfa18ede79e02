package proc

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"latchfs/lockmgr"
)

// The tests look at real processes: this test binary itself, started again with
// childEnv set, which then does what it is told on its standard input, a line
// at a time, and answers each line with a line.
const childEnv = "LATCHFS_PROC_CHILD"

func init() {
	if os.Getenv(childEnv) != "" {
		runtime.LockOSThread() // so that "exit-leader" ends the right thread
	}
}

func TestMain(m *testing.M) {
	if os.Getenv(childEnv) != "" {
		leader := make(chan func())
		go func() {
			serve(os.Stdin, os.Stdout, leader)
			os.Exit(0)
		}()
		for f := range leader {
			f()
		}
	}
	os.Exit(m.Run())
}

// serve is the life of a child.
func serve(in io.Reader, out io.Writer, leader chan<- func()) {
	maps := map[string][]byte{}
	for lines := bufio.NewScanner(in); lines.Scan(); {
		args := strings.Fields(lines.Text())
		answer, err := "ok", error(nil)
		switch args[0] {
		case "open": // FLAGS PATH
			flags, _ := strconv.Atoi(args[1])
			var fd int
			fd, err = unix.Open(args[2], flags|unix.O_CLOEXEC, 0o600)
			answer = strconv.Itoa(fd)
		case "dup", "close":
			fd, _ := strconv.Atoi(args[1])
			if args[0] == "close" {
				err = unix.Close(fd)
			} else {
				fd, err = unix.Dup(fd)
				answer = strconv.Itoa(fd)
			}
		case "mmap": // FD PROT FLAGS NAME
			fd, _ := strconv.Atoi(args[1])
			prot, _ := strconv.Atoi(args[2])
			flags, _ := strconv.Atoi(args[3])
			maps[args[4]], err = unix.Mmap(fd, 0, 4096, prot, flags)
		case "poll": // NAME: writes an event to what is mapped
			err = startPoll(maps[args[1]])
		case "lock": // FD N: ranges of one byte
			fd, _ := strconv.Atoi(args[1])
			for n, _ := strconv.Atoi(args[2]); n > 0 && err == nil; n-- {
				err = unix.FcntlFlock(uintptr(fd), unix.F_SETLK, &unix.Flock_t{Type: unix.F_WRLCK, Start: int64(2 * n), Len: 1})
			}
		case "store": // NAME
			maps[args[1]][0]++
		case "overmap": // NAME: puts something else in its place
			m := maps[args[1]]
			_, err = unix.MmapPtr(-1, 0, unsafe.Pointer(&m[0]), uintptr(len(m)),
				unix.PROT_READ, unix.MAP_FIXED|unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
		case "munmap": // NAME
			err = unix.Munmap(maps[args[1]])
		case "name":
			err = os.WriteFile("/proc/self/comm", []byte(strings.Join(args[1:], " ")), 0)
		case "thread": // [blocked SIGNAL]
			answer, err = startThread(args[1:])
		case "fork": // a child of our own that lives as long as we do
			answer, err = fork()
		case "fork-leader": // the leader's child
			done := make(chan struct{})
			leader <- func() {
				answer, err = fork()
				close(done)
			}
			<-done
		case "fork-brief": // that of a thread which ends
			done := make(chan struct{})
			go func() {
				runtime.LockOSThread()
				answer, err = fork()
				close(done)
			}()
			<-done
		case "spin": // a thread of our own that never rests
			go func() {
				for n := 0; ; n++ {
				}
			}()
		case "job": // a child that works for a while and is waited for
			err = exec.Command("/bin/sh", "-c", "i=0; while [ $i -lt 5000 ]; do i=$((i+1)); done").Run()
		case "limit": // BYTES
			n, _ := strconv.ParseUint(args[1], 10, 64)
			err = unix.Setrlimit(unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: n, Max: 2 * n})
		case "exec":
			err = syscall.Exec(args[1], args[1:], nil)
		case "exit-leader":
			// Not a raw system call, which would take the processor along.
			leader <- func() { unix.Syscall(unix.SYS_EXIT, 0, 0, 0) }
		case "exit":
			code, _ := strconv.Atoi(args[1])
			os.Exit(code)
		}
		if err != nil {
			answer = "error " + err.Error()
		}
		fmt.Fprintln(out, answer)
	}
}

func fork() (pid string, err error) {
	cmd := exec.Command("/bin/cat")
	if _, err := cmd.StdinPipe(); err != nil {
		return "", err
	}
	if err := cmd.Start(); err != nil {
		return "", err
	}
	return strconv.Itoa(cmd.Process.Pid), nil
}

// startPoll has a thread ask an epoll(7) instance for an event that there is.
func startPoll(events []byte) error {
	ep, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return err
	}
	ready, err := unix.Eventfd(1, unix.EFD_CLOEXEC)
	if err == nil {
		err = unix.EpollCtl(ep, unix.EPOLL_CTL_ADD, ready, &unix.EpollEvent{Events: unix.EPOLLIN})
	}
	if err == nil {
		go unix.Syscall6(unix.SYS_EPOLL_PWAIT, uintptr(ep), uintptr(unsafe.Pointer(&events[0])), 1, 0, 0, 0)
	}
	return err
}

// startThread starts a thread that stays, perhaps with a signal blocked.
func startThread(args []string) (string, error) {
	ready := make(chan error)
	var tid int
	go func() {
		runtime.LockOSThread()
		tid = unix.Gettid()
		var err error
		if len(args) == 2 {
			sig, _ := strconv.Atoi(args[1])
			set := unix.Sigset_t{Val: [16]uint64{1 << (sig - 1)}}
			err = unix.PthreadSigmask(unix.SIG_BLOCK, &set, nil)
		}
		ready <- err
		select {}
	}()
	err := <-ready
	return strconv.Itoa(tid), err
}

// child is a process that does what the test says.
type child struct {
	t    *testing.T
	cmd  *exec.Cmd
	in   io.WriteCloser
	out  *bufio.Reader
	done bool
}

// startChild starts a child; prepare may change how.
func startChild(t *testing.T, prepare ...func(*exec.Cmd)) *child {
	t.Helper()
	cmd := exec.Command("/proc/self/exe", "-test.run=^$")
	cmd.Env = append(os.Environ(), childEnv+"=1", "GORACE=atexit_sleep_ms=0")
	cmd.Stderr = os.Stderr
	for _, f := range prepare {
		f(cmd)
	}
	in, out := startPiped(t, cmd)
	c := &child{t: t, cmd: cmd, in: in, out: bufio.NewReader(out)}
	t.Cleanup(c.reap)
	c.do("hello")
	return c
}

// do sends a command and returns the answer, which must not be an error.
func (c *child) do(command ...any) string {
	c.t.Helper()
	fmt.Fprintln(c.in, command...)
	answer, err := c.out.ReadString('\n')
	if err != nil || strings.HasPrefix(answer, "error") {
		c.t.Fatalf("child: %v: %s%v", command, answer, err)
	}
	return strings.TrimSpace(answer)
}

// number is do where the answer is a number.
func (c *child) number(command ...any) int32 {
	c.t.Helper()
	n, err := strconv.Atoi(c.do(command...))
	if err != nil {
		c.t.Fatal(err)
	}
	return int32(n)
}

// tell sends a command that has no answer.
func (c *child) tell(command ...any) { fmt.Fprintln(c.in, command...) }

func (c *child) pid() int32  { return int32(c.cmd.Process.Pid) }
func (c *child) tid() uint32 { return uint32(c.cmd.Process.Pid) }

func (c *child) signal(sig unix.Signal) {
	c.t.Helper()
	if err := unix.Kill(c.cmd.Process.Pid, sig); err != nil {
		c.t.Fatal(err)
	}
}

// await waits until the child is in a state, and leaves it in it: WEXITED is a
// zombie, WSTOPPED a stopped process.
func (c *child) await(state int) {
	c.t.Helper()
	var err error
	for {
		if err = unix.Waitid(unix.P_PID, c.cmd.Process.Pid, nil, state|unix.WNOWAIT, nil); err != unix.EINTR {
			break
		}
	}
	if err != nil {
		c.t.Fatal(err)
	}
}

// reap kills and collects the child.
func (c *child) reap() {
	if !c.done {
		c.done = true
		c.cmd.Process.Kill()
		c.cmd.Wait()
	}
}

func newReader(t testing.TB) *Reader {
	t.Helper()
	r, err := New("")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	return r
}

// forget makes the reader look again.
func (r *Reader) forget() {
	for i := range r.known.sets {
		for j := range r.known.sets[i] {
			r.known.sets[i][j].Store(nil)
		}
	}
}

// age makes what the reader knows too old to be believed without a look.
func (r *Reader) age() {
	for i := range r.known.sets {
		for j := range r.known.sets[i] {
			if k := r.known.sets[i][j].Load(); k != nil {
				old := *k
				old.seen -= trustFor
				r.known.sets[i][j].Store(&old)
			}
		}
	}
}

func mustThread(t *testing.T, r *Reader, tid uint32) Thread {
	t.Helper()
	th, err := r.Thread(tid)
	for end := time.Now().Add(10 * time.Second); err == ErrBusy && time.Now().Before(end); {
		th, err = r.Thread(tid) // it has just been started, or the machine is busy
	}
	if err != nil {
		t.Fatalf("Thread(%d): %v", tid, err)
	}
	th.Comm = "" // which not every answer tells
	return th
}

// ownerOf is the identity of a child.
func ownerOf(t *testing.T, r *Reader, c *child) lockmgr.Owner {
	t.Helper()
	return mustThread(t, r, c.tid()).Owner
}

// startPiped starts a program whose input the test writes and whose output it reads.
func startPiped(t testing.TB, cmd *exec.Cmd) (in io.WriteCloser, out io.ReadCloser) {
	t.Helper()
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if out, err = cmd.StdoutPipe(); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return in, out
}
