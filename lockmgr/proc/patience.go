package proc

import (
	"sync/atomic"
	"time"

	"latchfs/lockmgr/proc/internal/procfs"
)

const (
	// firstLook is when to ask why an answer takes so long. Reading a file of
	// /proc takes microseconds.
	firstLook = 200 * time.Microsecond
	// maxPatience is when to give up on an answer whatever the reason. Of an answer in
	// parts it is for each part.
	maxPatience = 50 * time.Millisecond
)

// asking is a patient question that is under way.
type asking struct {
	r     *Reader
	qs    *questions    // of which it is one
	pid   atomic.Int32  // which process it is about at the moment
	parts atomic.Uint32 // of the answer, which are there
	stop  chan struct{} // closed when nobody waits for the answer any more

	// Guarded by qs.mu.
	on   *questioned
	user uint32
	hung bool
}

// patiently asks something that may block in the kernel, and gives up with
// ErrBusy when it blocks because the process is in execve, or for too long. What
// was asked then goes on by itself, so it must not use what its caller goes on
// to use.
func patiently[T any](r *Reader, pid int32, ask func(*asking) (T, error)) (T, error) {
	return askFor(r, &r.questions, pid, firstLook, ask)
}

// stubbornly does the same, but gives a process time to come out of execve,
// which takes it less than a millisecond unless it waits for us.
func stubbornly[T any](r *Reader, pid int32, ask func(*asking) (T, error)) (T, error) {
	return askFor(r, &r.questions, pid, maxPatience, ask)
}

// patientlyOfFiles does the same for questions about descriptors, which a process in
// execve answers, and one whose memory is locked: those have an account of their own.
func patientlyOfFiles[T any](r *Reader, pid int32, ask func(*asking) (T, error)) (T, error) {
	return askFor(r, &r.fileQuestions, pid, maxPatience, ask)
}

func askFor[T any](r *Reader, qs *questions, pid int32, inExec time.Duration, ask func(*asking) (T, error)) (T, error) {
	type answer struct {
		v   T
		err error
	}
	answers := make(chan answer, 1)
	a := &asking{r: r, qs: qs, stop: make(chan struct{})}
	a.pid.Store(pid)
	r.root.Retain()
	go func() {
		defer r.root.Release()
		var got answer
		if got.err = a.at(pid); got.err == nil {
			got.v, got.err = ask(a)
		}
		qs.leave(a)
		answers <- got
	}()
	timer := time.NewTimer(firstLook)
	defer timer.Stop()
	parts := uint32(0)
	for wait := firstLook; ; wait *= 2 {
		select {
		case got := <-answers:
			return got.v, got.err
		case <-timer.C:
			if n := a.parts.Load(); n != parts {
				parts, wait = n, firstLook/2
				timer.Reset(firstLook)
				continue
			}
			if wait >= maxPatience || wait >= inExec && r.inExec(a.pid.Load()) {
				close(a.stop)
				time.AfterFunc(qs.grace, func() { qs.hang(a) })
				var none T
				return none, ErrBusy
			}
			timer.Reset(wait)
		}
	}
}

// at says that the question is about a process from now on, and waits until one more
// may be asked about it. It is ErrBusy if that process does not answer.
func (a *asking) at(pid int32) error {
	qs := a.qs
	qs.leave(a)
	a.pid.Store(pid)
	for {
		free, err := qs.enter(a, pid)
		if free == nil {
			return err
		}
		select {
		case <-free:
		case <-a.stop:
			return ErrBusy
		}
	}
}

// inExec reports whether a process is inside execve, which is when the kernel closes
// descriptors with the exec lock held. Its statm, which takes no lock, shows that.
func (r *Reader) inExec(pid int32) bool {
	in := false
	_ = r.withPIDFile(pid, keptStatm, "statm", func(b []byte) error {
		in = procfs.InExec(b)
		return nil
	})
	return in
}
