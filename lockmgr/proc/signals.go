package proc

import (
	"bytes"
	"strconv"

	"golang.org/x/sys/unix"

	"latchfs/lockmgr/proc/internal/procfs"
)

// Pending says what a thread's pending signals mean for a request of it that
// waits (KERNEL-FACTS, "Locks and interrupts").
type Pending int

const (
	// NoReason is for signals that programs take in passing: the wait goes on.
	NoReason Pending = iota
	// Interrupt is for a signal that ends the wait, or a thread that has gone.
	Interrupt
	// Stop is for a signal that stops the process: the wait ends, but its place
	// in the queue is kept.
	Stop
	// Nothing is pending. Right after an INTERRUPT it counts as Stop, for then
	// the freezer or kernel work of the thread's own was the cause; in a later
	// poll it means that all is quiet, and counts as NoReason.
	Nothing
)

// String returns the lower-case name.
func (p Pending) String() string {
	return [...]string{"no reason", "interrupt", "stop", "nothing"}[p]
}

// sigset is a set of signals as in /proc/PID/status.
type sigset uint64

func sigs(list ...unix.Signal) (s sigset) {
	for _, sig := range list {
		s |= 1 << (sig - 1)
	}
	return s
}

var (
	// benign signals tell a program something, by a handler or by nothing.
	benign = sigs(unix.SIGURG, unix.SIGCHLD, unix.SIGWINCH, unix.SIGCONT)
	// timers are as harmless if there is a handler, and kill if there is none.
	timers = sigs(unix.SIGPROF, unix.SIGVTALRM)
	stops  = sigs(unix.SIGSTOP, unix.SIGTSTP, unix.SIGTTIN, unix.SIGTTOU)
	// unblockable signals are delivered whatever the mask says.
	unblockable = sigs(unix.SIGKILL, unix.SIGSTOP)
)

// Pending looks at the signals that a thread would have to handle if it
// returned from its system call now.
func (r *Reader) Pending(tid uint32) Pending {
	answer := Interrupt
	_ = r.root.WithFile(procfs.PIDPath(tid, "status"), func(b []byte) error {
		answer = parsePending(b)
		return nil
	})
	return answer
}

func parsePending(status []byte) Pending {
	var pending, blocked, caught sigset
	for line := range bytes.Lines(status) {
		name, value, _ := bytes.Cut(line, []byte(":"))
		switch string(name) {
		case "SigPnd", "ShdPnd":
			pending |= parseSigset(value)
		case "SigBlk":
			blocked = parseSigset(value)
		case "SigCgt":
			caught = parseSigset(value)
		}
	}
	pending &^= blocked &^ unblockable
	switch {
	case pending == 0:
		return Nothing
	case pending&^(benign|timers&caught|stops) != 0:
		return Interrupt
	case pending&stops != 0:
		return Stop
	default:
		return NoReason
	}
}

func parseSigset(b []byte) sigset {
	v, _ := strconv.ParseUint(string(bytes.TrimSpace(b)), 16, 64)
	return sigset(v)
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
