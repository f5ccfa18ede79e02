package proc

import (
	"bytes"
	"sync/atomic"
	"time"
)

const (
	// firstLook is when to ask why an answer takes so long. Reading a file of
	// /proc takes microseconds.
	firstLook = 200 * time.Microsecond
	// maxPatience is when to give up on an answer whatever the reason.
	maxPatience = 50 * time.Millisecond
)

// asking is the process that a patient question is about at the moment.
type asking struct{ pid atomic.Int32 }

// patiently asks something that may block in the kernel, and gives up with
// ErrBusy when it blocks because the process is in execve, or for too long. What
// was asked then goes on by itself, so it must not use what its caller goes on
// to use.
func patiently[T any](r *Reader, pid int32, ask func(*asking) (T, error)) (T, error) {
	return askFor(r, pid, firstLook, ask)
}

// stubbornly does the same, but gives a process time to come out of execve,
// which takes it less than a millisecond unless it waits for us.
func stubbornly[T any](r *Reader, pid int32, ask func(*asking) (T, error)) (T, error) {
	return askFor(r, pid, maxPatience, ask)
}

func askFor[T any](r *Reader, pid int32, inExec time.Duration, ask func(*asking) (T, error)) (T, error) {
	type answer struct {
		v   T
		err error
	}
	answers := make(chan answer, 1)
	a := &asking{}
	a.pid.Store(pid)
	r.refs.Add(1)
	go func() {
		defer r.release()
		v, err := ask(a)
		answers <- answer{v, err}
	}()
	timer := time.NewTimer(firstLook)
	defer timer.Stop()
	for wait := firstLook; ; wait *= 2 {
		select {
		case got := <-answers:
			return got.v, got.err
		case <-timer.C:
			if wait >= maxPatience || wait >= inExec && r.inExec(a.pid.Load()) {
				var none T
				return none, ErrBusy
			}
			timer.Reset(wait)
		}
	}
}

// inExec reports whether a process is inside execve, between giving up its old
// memory and loading the new program, which is when the kernel closes
// descriptors with the exec lock held. Its statm, which takes no lock, shows
// memory then, but no code.
func (r *Reader) inExec(pid int32) bool {
	in := false
	_ = r.withFile(pidPath(pid, "statm"), func(b []byte) error {
		in = parseStatm(b)
		return nil
	})
	return in
}

// parseStatm reads "size resident shared text lib data dt", in pages
// (proc_pid_statm(5)).
func parseStatm(b []byte) (inExec bool) {
	fields := bytes.Fields(b)
	return len(fields) == 7 && string(fields[0]) != "0" && string(fields[3]) == "0"
}
