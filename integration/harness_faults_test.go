package integration

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// faults stands between latchfs and its disk: it is asked before each system
// call of the daemon that changes or syncs something (internal/trap), and lets it
// happen, has it fail, or kills the daemon first. The binary is the one that all
// tests run, and what is added to it later is asked about as well.
type faults struct {
	socket *os.File // from which the daemon's next listener comes
	ended  sync.WaitGroup

	mu     sync.Mutex // guards what follows
	pid    int
	plan   faultPlan
	armed  bool
	hit    bool
	steps  []string
	noSync bool
}

// faultPlan says what happens at which step after the arming. The zero plan
// counts.
type faultPlan struct {
	at    int           // the step, from 1
	errno syscall.Errno // what it fails with; 0: the daemon is killed before it
	rest  bool          // so does every step after it
}

func (p faultPlan) String() string {
	what := "killed before"
	if p.errno != 0 {
		what = p.errno.Error() + " at"
	}
	if p.rest {
		return fmt.Sprintf("%s step %d and all after it", what, p.at)
	}
	return fmt.Sprintf("%s step %d", what, p.at)
}

// withFaults starts latchfs under f.
func withFaults(f *faults) mountOption { return func(o *mountOptions) { o.faults = f } }

var trapBinary = sync.OnceValues(func() (string, error) {
	path := filepath.Join(bench.root, "trap")
	return path, build(path, "./integration/internal/trap")
})

// newFaults skips the test where the kernel cannot ask, or asks only about
// programs that may not become root, as fusermount3 has to.
func newFaults(t *testing.T) *faults {
	t.Helper()
	needsLatchfs(t)
	needsRoot(t)
	trap, err := trapBinary()
	if err != nil {
		t.Fatal(err)
	}
	f := &faults{}
	t.Cleanup(f.ended.Wait)
	cmd := exec.Command(trap, "0", "/bin/true")
	if err := f.offer(cmd); err != nil {
		t.Fatal(err)
	}
	defer f.socket.Close()
	defer cmd.ExtraFiles[0].Close()
	if out, err := cmd.CombinedOutput(); cmd.ProcessState.ExitCode() == 77 {
		t.Skipf("the kernel does not tell of system calls: %s", out)
	} else if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return f
}

// start starts cmd by way of trap, as the user that it was to run as.
func (f *faults) start(cmd *exec.Cmd) error {
	trap, err := trapBinary()
	if err != nil {
		return err
	}
	uid := os.Geteuid()
	if c := cmd.SysProcAttr.Credential; c != nil {
		uid, cmd.SysProcAttr.Credential = int(c.Uid), nil
	}
	cmd.Args = append([]string{trap, fmt.Sprint(uid), cmd.Path}, cmd.Args[1:]...)
	cmd.Path = trap
	if err := f.offer(cmd); err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	return f.serve(cmd)
}

// offer gives cmd its end of a new socket.
func (f *faults) offer(cmd *exec.Cmd) error {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	f.socket = os.NewFile(uintptr(pair[0]), "trap")
	cmd.ExtraFiles = []*os.File{os.NewFile(uintptr(pair[1]), "trap")}
	return nil
}

// serve answers the questions about the process that was started as cmd, until it
// ends.
func (f *faults) serve(cmd *exec.Cmd) error {
	cmd.ExtraFiles[0].Close()
	defer f.socket.Close()
	control := make([]byte, unix.CmsgSpace(4))
	_, n, _, _, err := unix.Recvmsg(int(f.socket.Fd()), make([]byte, 1), control, unix.MSG_CMSG_CLOEXEC)
	if err != nil {
		return err
	}
	messages, err := unix.ParseSocketControlMessage(control[:n])
	if err != nil || len(messages) == 0 {
		return errors.New("trap: no listener came")
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	if err != nil {
		return err
	}
	f.mu.Lock()
	f.pid, f.armed = cmd.Process.Pid, false
	f.mu.Unlock()
	f.ended.Go(func() {
		defer unix.Close(fds[0])
		f.answer(fds[0], cmd.Process.Pid)
	})
	return nil
}

// notification is struct seccomp_notif, verdict struct seccomp_notif_resp.
type notification struct {
	id         uint64
	tid, flags uint32
	nr         int32
	arch       uint32
	ip         uint64
	args       [6]uint64
}

type verdict struct {
	id           uint64
	val          int64
	error, flags int32
}

// answer runs until no process is left that could ask, or the daemon is killed.
func (f *faults) answer(listener, pid int) {
	for {
		ready := []unix.PollFd{{Fd: int32(listener), Events: unix.POLLIN}}
		if _, err := unix.Poll(ready, -1); err == unix.EINTR {
			continue
		}
		if ready[0].Revents&unix.POLLIN == 0 {
			return
		}
		var q notification
		if err := notifyIoctl(listener, unix.SECCOMP_IOCTL_NOTIF_RECV, unsafe.Pointer(&q)); err != nil {
			continue // whoever asked is dead
		}
		v, killed := f.judge(&q, pid)
		if killed {
			return // and that thread stays where it is
		}
		_ = notifyIoctl(listener, unix.SECCOMP_IOCTL_NOTIF_SEND, unsafe.Pointer(&v))
	}
}

func notifyIoctl(fd int, request uint, arg unsafe.Pointer) error {
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), uintptr(request), uintptr(arg))
	runtime.KeepAlive(arg)
	if errno != 0 {
		return errno
	}
	return nil
}

// judge decides about one system call.
func (f *faults) judge(q *notification, pid int) (v verdict, killed bool) {
	v = verdict{id: q.id, flags: 1 /* SECCOMP_USER_NOTIF_FLAG_CONTINUE */}
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.armed && !f.noSync || !ofProcess(pid, q) || !onDisk(pid, q) {
		return v, false
	}
	name := faultCalls[int(q.nr)]
	if f.noSync && strings.Contains(name, "sync") {
		v.flags = 0
		return v, false // 0, as if it were done
	}
	if !f.armed {
		return v, false
	}
	f.steps = append(f.steps, name)
	if n := len(f.steps); n != f.plan.at && !(f.plan.rest && n > f.plan.at) || f.plan.at == 0 {
		return v, false
	}
	f.hit = true
	if f.plan.errno == 0 {
		syscall.Kill(pid, syscall.SIGKILL)
		return v, true
	}
	v.flags, v.error = 0, -int32(f.plan.errno)
	return v, false
}

// ofProcess tells whether a thread of the daemon asks, rather than a helper of its.
func ofProcess(pid int, q *notification) bool {
	_, err := os.Stat(fmt.Sprintf("/proc/%d/task/%d", pid, q.tid))
	return err == nil
}

// onDisk tells whether the call concerns a file, rather than the mount's device,
// the log or a pipe. Calls with paths alone and on descriptors of directories
// do.
func onDisk(pid int, q *notification) bool {
	fd := int32(q.args[0])
	if byPath[int(q.nr)] || fd == unix.AT_FDCWD {
		return true
	}
	if fd <= 2 {
		return false
	}
	to, err := os.Readlink(fmt.Sprintf("/proc/%d/fd/%d", pid, fd))
	return err == nil && strings.HasPrefix(to, "/") && !strings.HasPrefix(to, "/dev/") && !strings.HasPrefix(to, "/proc/")
}

// arm counts steps from now on and does what the plan says.
func (f *faults) arm(p faultPlan) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.plan, f.armed, f.hit, f.steps = p, true, false, nil
}

// disarm lets everything happen again. It returns what was counted, and whether
// the plan's step was reached.
func (f *faults) disarm() (steps []string, hit bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.armed = false
	return f.steps, f.hit
}

// dropSyncs makes every sync return at once with nothing done.
func (f *faults) dropSyncs() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.noSync = true
}
