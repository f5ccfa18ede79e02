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
// returned from its system call now.
func (r *Reader) Pending(tid uint32) Pending {
	answer := Interrupt
	_ = r.root.WithFile(procfs.PIDPath(tid, "status"), func(b []byte) error {
		answer = signals.Parse(b)
		return nil
	})
	return answer
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
