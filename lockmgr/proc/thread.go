package proc

import (
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"latchfs/lockmgr"
)

// Thread is a thread with the process that it belongs to.
type Thread struct {
	TID   int32
	TGID  int32  // the process's pid
	Start uint64 // of the thread, clock ticks since boot
	Owner lockmgr.Owner
	PPID  int32 // parent of the process, 0 if it is not to be seen from here
}

type threadEntry struct {
	Thread
	seen time.Duration
}

// Thread tells which process a thread belongs to, as FUSE names its callers by
// thread. Thread id 0 is ErrForeign; a thread that has ended is ErrGone.
func (r *Reader) Thread(tid uint32) (Thread, error) {
	if tid == 0 {
		return Thread{}, ErrForeign
	}
	id := int32(tid)
	known := r.threads.get(id)
	if known != nil && known.TID != id {
		known = nil
	}
	if known != nil && now()-known.seen < trustFor {
		return known.Thread, nil
	}
	st, err := r.stat(id)
	if err != nil {
		return Thread{}, err
	}
	t := Thread{TID: id, Start: st.start, PPID: st.ppid}
	if known != nil && known.Start == st.start {
		t.TGID, t.Owner = known.TGID, known.Owner
	} else if err := r.resolve(&t); err != nil {
		return Thread{}, err
	}
	r.threads.put(id, &threadEntry{t, now()})
	return t, nil
}

// resolve finds the process of a thread whose own stat is known.
func (r *Reader) resolve(t *Thread) error {
	if isLeader(t.TID) {
		t.TGID, t.Owner = t.TID, lockmgr.Owner{PID: t.TID, Start: t.Start}
		return nil
	}
	err := r.withFile(pidPath(t.TID, "status"), func(b []byte) error {
		v, _ := field(b, "Tgid")
		pid, err := strconv.ParseInt(v, 10, 32)
		t.TGID = int32(pid)
		return err
	})
	if err != nil {
		return err
	}
	leader, err := r.stat(t.TGID)
	if err != nil {
		return err
	}
	t.Owner = lockmgr.Owner{PID: t.TGID, Start: leader.start}
	return nil
}

// isLeader reports whether a thread leads its group, at the cost of one system
// call: tgkill(2) finds the thread only if its process has the same number, and
// with signal 0 sends nothing. It looks before it asks for permission.
func isLeader(tid int32) bool {
	err := unix.Tgkill(int(tid), int(tid), 0)
	return err == nil || err == unix.EPERM
}

// Alive reports whether the process still runs: it exists, is that process and
// not another of the same pid, and is no zombie. One that is exiting is alive
// until its descriptors are closed.
func (r *Reader) Alive(o lockmgr.Owner) bool {
	if o.PID <= 0 {
		return false
	}
	st, err := r.stat(o.PID)
	return err == nil && st.start == o.Start && !st.dead()
}

// Exit tells how a thread's process is ending: exiting if the thread is on its
// way out, and the signal that killed the process, or 0 if none did. It is for
// the moment of a FLUSH: the exit code is set before descriptors are closed
// (KERNEL-FACTS, "Closing"). A thread that has gone already, and one of a
// process that may not be inspected, was not killed as far as one can tell.
func (r *Reader) Exit(tid uint32) (sig int, exiting bool) {
	st, err := r.stat(int32(tid))
	if err != nil {
		return 0, err == ErrGone
	}
	// The exit code of a stopped process is the signal that stopped it.
	if st.state == 'T' || st.state == 't' {
		return 0, false
	}
	return int(st.exitCode & 0x7f), st.flags&pfExiting != 0
}
