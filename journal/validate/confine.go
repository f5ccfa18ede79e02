package validate

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// What each process of a command may take. Memory is what it can write to: some
// programs reserve far more address space than they use.
const (
	commandMemory    = 1 << 30 // bytes
	commandProcesses = 512     // of its user, whoever started them
)

// confinement is what Serve does to itself before it becomes the command.
type confinement struct {
	Credential Credential
	CPU        uint64 // seconds
	Parent     int    // who dies with us
	Command    []string
}

// confined is the command as another user's, behind limits that it cannot lift.
// The daemon may lack the right to set the limits of another user's process, so
// the process sets its own.
func (o *Options) confined(timeout time.Duration) *exec.Cmd {
	spec, err := json.Marshal(confinement{
		Credential: *o.Credential, CPU: uint64(timeout/time.Second) + 2, Parent: os.Getpid(), Command: o.Command,
	})
	if err != nil {
		panic(fmt.Sprintf("validate: confinement does not encode: %v", err)) // plain data always does
	}
	cmd := exec.Command(o.Helper)
	cmd.Args = []string{HelperName, helperRun, string(spec)}
	return cmd
}

// becomeCommand becomes the command; it returns only if it cannot.
func becomeCommand(spec []byte) error {
	var c confinement
	if err := json.Unmarshal(spec, &c); err != nil {
		return err
	}
	// no_new_privs and the signal belong to the thread that becomes the command.
	runtime.LockOSThread()
	if err := spareNobody(); err != nil {
		return err
	}
	err := setLimits(map[int]uint64{
		unix.RLIMIT_DATA: commandMemory, unix.RLIMIT_CPU: c.CPU, unix.RLIMIT_NPROC: commandProcesses,
		unix.RLIMIT_CORE: 0, // the content is in it
	})
	if err != nil {
		return err
	}
	if err := become(c.Credential); err != nil {
		return err
	}
	err = errors.Join(
		unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0),
		unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0)) // lost with the user
	if err != nil {
		return os.NewSyscallError("prctl", err)
	}
	if os.Getppid() != c.Parent {
		return errors.New("the daemon has ended")
	}
	return cause(syscall.Exec(c.Command[0], c.Command, os.Environ()))
}

// become makes another user of this process, for good.
func become(c Credential) error {
	groups := make([]int, len(c.Groups))
	for i, g := range c.Groups {
		groups[i] = int(g)
	}
	uid, gid := int(c.UID), int(c.GID)
	if err := syscall.Setgroups(groups); err != nil {
		return os.NewSyscallError("setgroups", err)
	}
	if err := syscall.Setresgid(gid, gid, gid); err != nil {
		return os.NewSyscallError("setresgid", err)
	}
	return os.NewSyscallError("setresuid", syscall.Setresuid(uid, uid, uid))
}

func setLimits(limits map[int]uint64) error {
	for resource, most := range limits {
		var now unix.Rlimit
		if err := unix.Getrlimit(resource, &now); err != nil {
			return os.NewSyscallError("getrlimit", err)
		}
		most = min(most, now.Max)
		if err := unix.Setrlimit(resource, &unix.Rlimit{Cur: most, Max: most}); err != nil {
			return os.NewSyscallError("setrlimit", err)
		}
	}
	return nil
}

// spareNobody gives up what protects the daemon when memory is short.
func spareNobody() error {
	const adjust = "/proc/self/oom_score_adj"
	now, err := os.ReadFile(adjust)
	if err != nil {
		return err
	}
	if n, err := strconv.Atoi(string(bytes.TrimSpace(now))); err != nil || n >= 0 {
		return err
	}
	return os.WriteFile(adjust, []byte("0"), 0)
}
