package proc

import (
	"bytes"
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
	Nothing   = signals.Nothing
)

// Pending looks at the signals that a thread would have to handle if it
// returned from its system call now. Of a process with several threads nothing
// pending means that another one has taken the signal, as it does with the SIGCHLD of a
// thread that starts programs, unless the process is being frozen.
func (r *Reader) Pending(tid uint32) Pending {
	answer, alone := Interrupt, true
	_ = r.root.WithFile(procfs.PIDPath(tid, "status"), func(b []byte) error {
		answer, alone = signals.Parse(b), signals.IsAlone(b)
		return nil
	})
	switch {
	case answer != Nothing || alone:
		return answer
	case r.isBeingFrozen(tid):
		return Stop
	}
	return NoReason
}

// threadsToAsk is how many threads of a process are asked whether they are frozen: all are,
// but for those that are in system calls which cannot be.
const threadsToAsk = 16

// isBeingFrozen reports whether another thread of a process is frozen: for a suspend, or
// by its control group. See /proc/PID/wchan in proc_pid_wchan(5).
func (r *Reader) isBeingFrozen(tid uint32) (frozen bool) {
	threads, _ := r.root.Threads(int32(tid))
	for _, t := range threads[:min(len(threads), threadsToAsk)] {
		_ = r.root.WithFile(procfs.PIDPath(t, "wchan"), func(b []byte) error {
			frozen = frozen || bytes.HasPrefix(b, []byte("__refrigerator")) || bytes.HasPrefix(b, []byte("do_freezer_trap"))
			return nil
		})
	}
	return frozen
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
