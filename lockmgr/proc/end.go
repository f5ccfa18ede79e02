package proc

import (
	"latchfs/lockmgr"
	"latchfs/lockmgr/proc/internal/ends"
)

// End is how a process ended.
type End struct {
	// Known: it could be seen. That fails for another user's process without
	// CAP_SYS_PTRACE, and for one that was waited for at once on a kernel before
	// 6.15.
	Known bool
	// Status is as wait(2) has it: the lower seven bits are the signal that killed
	// the process, the second byte is its exit code.
	Status int
}

// Failed reports whether the process was killed, or did not exit with 0.
func (e End) Failed() bool { return e.Known && e.Status != 0 }

// Watch returns a channel that is closed when the process has died (with all its
// threads, and whether or not it has been waited for), at once if it has died
// already. The function ends the watch and may be called more than once; the
// channel then never closes unless it has. The error is ErrForeign for a process
// that cannot be seen, or that of pidfd_open(2) when there are no descriptors
// left.
func (r *Reader) Watch(o lockmgr.Owner) (<-chan struct{}, func(), error) {
	dead, _, stop, err := r.WatchEnd(o)
	return dead, stop, err
}

// WatchEnd is Watch, with a function that tells how the process ended once the
// channel is closed.
func (r *Reader) WatchEnd(o lockmgr.Owner) (<-chan struct{}, func() End, func(), error) {
	if o.PID <= 0 {
		return nil, nil, nil, ErrForeign
	}
	dead, status, stop, err := r.watches.Watch(ends.Process{PID: o.PID, Start: o.Start})
	if err != nil {
		return nil, nil, nil, err
	}
	return dead, func() (e End) {
		e.Status, e.Known = status()
		return e
	}, stop, nil
}
