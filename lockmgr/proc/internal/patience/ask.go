package patience

import (
	"errors"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// ErrBusy means that the process is inside execve, or holds its memory lock,
// and that the answer cannot be had before it goes on; or that we are short of descriptors
// or memory.
var ErrBusy = errors.New("process cannot be inspected at the moment")

const (
	// Short is when to ask why an answer takes so long. Reading a file of
	// /proc takes microseconds.
	Short = 200 * time.Microsecond
	// Long is when to give up on an answer whatever the reason. Of an answer in
	// parts it is for each part. A process comes out of execve in less than a
	// millisecond, unless it waits for us.
	Long = 50 * time.Millisecond
)

// Question is one that is under way.
type Question struct {
	qs    *Questions    // of which it is one
	pid   atomic.Int32  // which process it is about at the moment
	parts atomic.Uint32 // of the answer, which are there
	stop  chan struct{} // closed when nobody waits for the answer any more

	// Guarded by qs.mu.
	on   *questioned
	user uint32
	hung bool
}

// Ask asks something that may block in the kernel about a process, and gives up with
// ErrBusy: when the process has been in execve for that long, or when the answer, or the
// next part of it, takes longer than Long; or when we are short of something. The error is that
// of ask else.
func Ask[T any](qs *Questions, pid int32, inExec time.Duration, ask func(*Question) (T, error)) (T, error) {
	type answer struct {
		v   T
		err error
	}
	answers := make(chan answer, 1)
	a := &Question{qs: qs, stop: make(chan struct{})}
	a.pid.Store(pid)
	qs.root.Retain()
	go func() {
		defer qs.root.Release()
		var got answer
		if got.err = a.MoveTo(pid); got.err == nil {
			got.v, got.err = ask(a)
		}
		qs.leave(a)
		answers <- got
	}()
	timer := time.NewTimer(Short)
	defer timer.Stop()
	parts := uint32(0)
	for wait := Short; ; wait *= 2 {
		select {
		case got := <-answers:
			return got.v, inspected(got.err)
		case <-timer.C:
			if n := a.parts.Load(); n != parts {
				parts, wait = n, Short/2
				timer.Reset(Short)
				continue
			}
			if wait >= Long || wait >= inExec && qs.inExec(a.pid.Load()) {
				close(a.stop)
				time.AfterFunc(qs.Grace, func() { qs.hang(a) })
				var none T
				return none, ErrBusy
			}
			timer.Reset(wait)
		}
	}
}

// inspected is ErrBusy where we lack what a look takes: that says nothing of the process.
func inspected(err error) error {
	if errors.Is(err, unix.EMFILE) || errors.Is(err, unix.ENFILE) || errors.Is(err, unix.ENOMEM) {
		return ErrBusy
	}
	return err
}

// About is the process that the question is about at the moment.
func (a *Question) About() (pid int32) { return a.pid.Load() }

// Answered says that one more part of the answer is there.
func (a *Question) Answered() { a.parts.Add(1) }

// MoveTo says that the question is about a process from now on, and waits until one more
// may be asked about it. It is ErrBusy if that process does not answer.
func (a *Question) MoveTo(pid int32) error {
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
