package proc

import (
	"time"

	"latchfs/lockmgr/proc/internal/procfs"
)

// Pulse is what one look at a process shows of its life, for the heartbeats of a
// lease. Two looks are compared with Alive.
type Pulse struct {
	Start    uint64        // of the process: with the pid, the owner it belongs to
	CPU      time.Duration // used by its threads
	Children time.Duration // used by the children that it has waited for
	Threads  int
	State    byte // of its leader, as in proc_pid_stat(5): 'R', 'S', 'D', 'T', 'Z', ...
}

// maxPulseThreads is up to how many threads Pulse asks each. The more there are,
// the longer that takes and the less it tells: what many threads do together
// shows in the process's own count, coarse as it is.
const maxPulseThreads = 64

// tick is the unit of times in stat.
const tick = time.Second / procfs.HZ

// Pulse looks for signs of life of a process. It is ErrGone when the process has
// gone (of a zombie there still is a Pulse), and ErrBusy while it is in execve,
// which says nothing either way: the next look is to be compared with the last
// one that was answered.
func (r *Reader) Pulse(pid int32) (Pulse, error) {
	if pid <= 0 {
		return Pulse{}, ErrForeign
	}
	// A lease is looked at again and again. Without this each look at a process
	// that does not come out of execve would leave a thread behind.
	if r.inExec(pid) {
		return Pulse{}, ErrBusy
	}
	return patiently(r, pid, func(*asking) (Pulse, error) { return r.pulse(pid) })
}

// pulse blocks while the process is in execve.
func (r *Reader) pulse(pid int32) (Pulse, error) {
	st, err := r.stat(pid)
	if err != nil {
		return Pulse{}, err
	}
	p := Pulse{
		Start:    st.Start,
		CPU:      time.Duration(st.CPU) * tick,
		Children: time.Duration(st.ChildCPU) * tick,
		Threads:  int(st.Threads),
		State:    st.State,
	}
	if r.sched && st.Threads <= maxPulseThreads {
		p.CPU, err = r.cpuTime(pid)
	}
	return p, err
}

// cpuTime is what the threads of a process have used, to the nanosecond. stat
// counts in hundredths of a second, in which a process can do all that it does
// between two heartbeats. A thread that ends takes its time along, so that the
// sum may fall.
func (r *Reader) cpuTime(pid int32) (time.Duration, error) {
	tids, err := r.root.Threads(pid)
	if err != nil {
		return 0, err
	}
	var sum time.Duration
	for _, tid := range tids {
		err := r.root.WithFile(procfs.TaskPath(pid, tid, "schedstat"), func(b []byte) error {
			sum += procfs.ParseSchedstat(b)
			return nil
		})
		if err != nil && err != ErrGone {
			return 0, err
		}
	}
	return sum, nil
}

// Alive reports whether the process has shown life since an earlier look: it, or
// a child that it has waited for, has used the processor, a thread has come or
// gone, or it does something else than it did. A process that is stopped, a
// zombie, and another process of the same pid show none. Against a zero Pulse,
// which stands for no earlier look, every process that may run is alive.
func (p Pulse) Alive(before Pulse) bool {
	if before != (Pulse{}) && before.Start != p.Start {
		return false
	}
	return p != before && !p.halted()
}

// halted reports whether the process cannot get on by itself.
func (p Pulse) halted() bool {
	st := procfs.Stat{State: p.State, Threads: int64(p.Threads)}
	return p.State == 'T' || p.State == 't' || st.Dead()
}
