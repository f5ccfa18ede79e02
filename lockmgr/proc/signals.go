package proc

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"latchfs/lockmgr/proc/internal/procfs"
	"latchfs/lockmgr/proc/internal/signals"
)

// Pending says what a thread's pending signals mean for a request of it that
// waits.
type Pending = signals.Pending

// What they mean is said where they are defined.
const (
	NoReason  = signals.NoReason
	Interrupt = signals.Interrupt
	Stop      = signals.Stop
	Freeze    = signals.Freeze
	Nothing   = signals.Nothing
)

// Pending looks at the signals that a thread would have to handle if it
// returned from its system call now. Of a process with several threads nothing
// pending means that another one has taken the signal, as it does with the SIGCHLD of a
// thread that starts programs, unless the process is being stopped, traced or frozen:
// another thread has taken a stop signal as well, and all of them are to follow.
func (r *Reader) Pending(tid uint32) Pending {
	answer, alone, traced := Interrupt, true, false
	_ = r.root.WithFile(procfs.PIDPath(tid, "status"), func(b []byte) error {
		answer, alone, traced = signals.Parse(b), isAlone(b), isTraced(b)
		return nil
	})
	switch {
	case answer != Nothing || alone:
		return answer
	case traced || r.isBeingFrozen(int32(tid)):
		return Freeze
	case r.isBeingStopped(int32(tid)):
		return Stop
	}
	return NoReason
}

// isAlone reports whether the process whose status it is has one thread, so that no other
// can have taken a signal.
func isAlone(status []byte) bool {
	n, found := procfs.Field(status, "Threads")
	return !found || n == "1"
}

// isTraced reports whether somebody traces the process whose status it is: a tracer stops it
// without a signal (PTRACE_INTERRUPT of ptrace(2)).
func isTraced(status []byte) bool {
	pid, found := procfs.Field(status, "TracerPid")
	return found && pid != "0"
}

// threadsToAsk is how many threads of a process are asked whether they have stopped: all do,
// but for those that are in system calls which cannot be.
const threadsToAsk = 16

// isBeingStopped reports whether another thread of a process has stopped.
func (r *Reader) isBeingStopped(tid int32) bool {
	threads, _ := r.root.Threads(tid)
	return slices.ContainsFunc(threads[:min(len(threads), threadsToAsk)], func(t int32) bool {
		st, err := r.stat(t)
		return err == nil && (st.State == 'T' || st.State == 't')
	})
}

// cgroups is where the hierarchies of control groups are mounted, see cgroups(7).
const cgroups = "/sys/fs/cgroup"

// isBeingFrozen reports whether the control group of a process, or one above it, is frozen or
// about to be. That of a suspend nobody can see.
func (r *Reader) isBeingFrozen(tid int32) (frozen bool) {
	_ = r.root.WithFile(procfs.PIDPath(tid, "cgroup"), func(b []byte) error {
		for line := range bytes.Lines(b) {
			_, rest, _ := bytes.Cut(bytes.TrimSpace(line), []byte(":"))
			controllers, path, _ := bytes.Cut(rest, []byte(":"))
			switch {
			case string(controllers) == "freezer":
				frozen = frozen || isFrozenV1(cgroups, string(path))
			case len(controllers) == 0:
				frozen = frozen || isFrozenV2(cgroups, string(path))
			}
		}
		return nil
	})
	return frozen
}

// isFrozenV1 asks a group of version 1, whose state is that of those above, too.
func isFrozenV1(root, group string) bool {
	b, err := os.ReadFile(filepath.Join(root, "freezer", group, "freezer.state"))
	return err == nil && string(bytes.TrimSpace(b)) != "THAWED"
}

// isFrozenV2 asks a group of version 2 and those above it.
func isFrozenV2(root, group string) bool {
	for _, at := range []string{root, root + "/unified"} {
		for g := group; ; g = filepath.Dir(g) {
			b, err := os.ReadFile(filepath.Join(at, g, "cgroup.freeze"))
			if err == nil && string(bytes.TrimSpace(b)) == "1" {
				return true
			}
			if len(g) <= 1 {
				break
			}
		}
	}
	return false
}

// Call is a system call in which a thread waits: its number and six arguments.
type Call struct {
	Nr   int
	Args [6]uint64
}

// Syscall returns the system call in which a thread is waiting (proc(5),
// /proc/PID/syscall). It is not ok if the thread runs, waits outside of a system
// call, is in execve, has gone, or may not be inspected.
func (r *Reader) Syscall(tid uint32) (call Call, ok bool) {
	text, err := patiently(r, int32(tid), func(*asking) ([]byte, error) {
		return r.root.ReadAll(procfs.PIDPath(tid, "syscall"))
	})
	if err != nil {
		return Call{}, false
	}
	fields := bytes.Fields(text)
	if len(fields) < 1+len(call.Args) {
		return Call{}, false // "running"
	}
	if call.Nr, err = strconv.Atoi(string(fields[0])); err != nil || call.Nr < 0 {
		return Call{}, false
	}
	for i := range call.Args {
		if call.Args[i], err = strconv.ParseUint(string(fields[i+1]), 0, 64); err != nil {
			return Call{}, false
		}
	}
	return call, true
}
