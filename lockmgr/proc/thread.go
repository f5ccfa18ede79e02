package proc

import (
	"golang.org/x/sys/unix"

	"latchfs/lockmgr"
	"latchfs/lockmgr/proc/internal/procfs"
)

// Thread is a thread with the process that it belongs to.
type Thread struct {
	TID   int32
	TGID  int32  // the process's pid
	Start uint64 // of the thread, in clock ticks since boot
	Owner lockmgr.Owner
	PPID  int32 // parent of the process, 0 if it cannot be seen from here
	// Comm is the kernel's name for the process (see Program), if the look that this is
	// the answer of has shown it; "" else.
	Comm string
}

// Thread tells which process a thread belongs to, for FUSE names its callers by
// thread. It is for the sender of the request at hand, who cannot go on before
// the answer; about others ask Process.
//
// Thread id 0 is ErrForeign; a thread that has ended is ErrGone. At a FLUSH out
// of execve nothing new can be learnt of the sender's start time: if the process
// was seen lately, the answer is what is known of it, else the error is ErrBusy,
// and only TID, TGID and PPID are set. It is then either a process that is known
// by TGID to hold the file, or a child that inherited the descriptor and gives it
// up unused.
func (r *Reader) Thread(tid uint32) (Thread, error) {
	if tid == 0 {
		return Thread{}, ErrForeign
	}
	id := int32(tid)
	if t, ok := r.believed(id); ok {
		return t, nil
	}
	if r.inExec(id) {
		return r.threadInExec(id)
	}
	return r.read(id)
}

// Opener is Thread for the sender of an OPEN, at half the cost. It must not be one
// that execve(2) sends for the program (FMODE_EXEC): whoever opens anything else is
// inside open(2), and so not inside execve.
func (r *Reader) Opener(tid uint32) (Thread, error) {
	if tid == 0 {
		return Thread{}, ErrForeign
	}
	id := int32(tid)
	if t, ok := r.believed(id); ok {
		return t, nil
	}
	return r.read(id)
}

// Process is Thread for any process or thread, whatever it does at the moment.
// It waits a little for one that is in execve.
func (r *Reader) Process(pid int32) (Thread, error) {
	if pid == 0 {
		return Thread{}, ErrForeign
	}
	if t, ok := r.believed(pid); ok {
		return t, nil
	}
	t, err := stubbornly(r, pid, func(*asking) (Thread, error) { return r.read(pid) })
	if err == ErrBusy {
		return r.threadInExec(pid)
	}
	return t, err
}

// believed is what is known of a thread without a look.
func (r *Reader) believed(tid int32) (Thread, bool) {
	k := r.known.get(tid)
	if k == nil || k.tgid == 0 || !k.fresh() {
		return Thread{}, false
	}
	return k.thread(), true
}

// read looks at a thread. It blocks while that is in execve.
func (r *Reader) read(tid int32) (Thread, error) {
	st, err := r.stat(tid)
	if err != nil {
		return Thread{}, err
	}
	return r.identify(tid, &st)
}

// identify is what a look at a thread tells of it.
func (r *Reader) identify(tid int32, st *procfs.Stat) (Thread, error) {
	k := r.known.note(tid, st)
	if k.looks > looksToKeep && k.tgid == tid {
		r.keep(k.leader())
	}
	if k.tgid == 0 {
		var err error
		if k, err = r.resolve(k); err != nil {
			return Thread{}, err
		}
	}
	t := k.thread()
	if t.TID == t.TGID { // a thread may have a name of its own
		t.Comm = st.Comm.String()
	}
	return t, nil
}

// threadInExec answers for a thread in execve from what is remembered.
func (r *Reader) threadInExec(tid int32) (Thread, error) {
	t, k := Thread{TID: tid}, r.known.get(tid)
	var err error
	if t.TGID, t.PPID, err = r.root.ThreadGroup(tid); err != nil {
		return Thread{}, err
	}
	if k != nil && k.tgid == t.TGID && k.ppid == t.PPID {
		return k.thread(), nil
	}
	return t, ErrBusy
}

// resolve finds the process of a thread.
func (r *Reader) resolve(k *known) (*known, error) {
	if isLeader(k.tid) {
		return r.known.belongs(k, k.tid, k.start), nil
	}
	tgid, _, err := r.root.ThreadGroup(k.tid)
	if err != nil {
		return nil, err
	}
	leader, err := r.stat(tgid)
	if err != nil {
		return nil, err
	}
	return r.known.belongs(k, tgid, leader.Start), nil
}

// isLeader reports whether a thread leads its group, at the cost of one system
// call: tgkill(2) finds the thread only if its process has the same number, and
// with signal 0 sends nothing. It looks before it asks for permission.
func isLeader(tid int32) bool {
	err := unix.Tgkill(int(tid), int(tid), 0)
	return err == nil || err == unix.EPERM
}

// Alive reports whether a process still runs: it exists, is that process and not
// another of the same pid, and is no zombie. One that is exiting is alive until
// its descriptors are closed, and so is one that is in execve.
func (r *Reader) Alive(o lockmgr.Owner) bool {
	if o.PID <= 0 {
		return false
	}
	st, err := r.statOf(o.PID)
	return err == ErrBusy || err == nil && st.Runs(o.Start)
}

// stat reads the stat of a process or thread. It blocks while that is in execve
// (see the package comment).
func (r *Reader) stat(pid int32) (st procfs.Stat, err error) {
	err = r.withPIDFile(pid, keptStat, "stat", func(b []byte) error {
		st, err = procfs.ParseStat(b)
		return err
	})
	return st, err
}

// statOf reads the stat of a process that is not the sender of the request at
// hand. It is ErrBusy while that is in execve.
func (r *Reader) statOf(pid int32) (procfs.Stat, error) {
	return patiently(r, pid, func(*asking) (procfs.Stat, error) { return r.stat(pid) })
}

// Exit tells how a thread's process is ending: exiting if the thread is on its
// way out, and the signal that killed the process, or 0 if none did. It is for
// the sender of a FLUSH: the exit code is set before descriptors are closed
// (KERNEL-FACTS, "Closing"). A thread that has gone already, and one of a
// process that may not be inspected, was not killed as far as one can tell.
func (r *Reader) Exit(tid uint32) (sig int, exiting bool) {
	id := int32(tid)
	if tid == 0 || r.inExec(id) {
		return 0, false
	}
	st, err := r.stat(id)
	if err != nil {
		return 0, err == ErrGone
	}
	r.known.note(id, &st)
	return endOfThread(&st)
}

// ExitOf is Exit for any process, whatever it does at the moment: one that is in execve does
// not end.
func (r *Reader) ExitOf(pid int32) (sig int, exiting bool) {
	st, err := r.statOf(pid)
	if err != nil {
		return 0, err == ErrGone
	}
	return endOfThread(&st)
}

// Closer is Thread and Exit for the sender of a FLUSH, in one look.
func (r *Reader) Closer(tid uint32) (t Thread, sig int, exiting bool, err error) {
	if tid == 0 {
		return Thread{}, 0, false, ErrForeign
	}
	id := int32(tid)
	if r.inExec(id) {
		if t, ok := r.believed(id); ok {
			return t, 0, false, nil
		}
		t, err = r.threadInExec(id)
		return t, 0, false, err
	}
	st, err := r.stat(id)
	if err != nil {
		return Thread{}, 0, false, err
	}
	if t, err = r.identify(id, &st); err != nil {
		return Thread{}, 0, false, err
	}
	sig, exiting = endOfThread(&st)
	return t, sig, exiting, nil
}

// endOfThread is what Exit answers.
func endOfThread(st *procfs.Stat) (sig int, exiting bool) {
	// The exit code of a stopped process is the signal that stopped it.
	if st.State == 'T' || st.State == 't' {
		return 0, false
	}
	// What a dying thread closes before it is on its way out is the core that the kernel has
	// written in its name. That is finished.
	if st.Flags&procfs.DumpingCore != 0 && st.Flags&procfs.Exiting == 0 {
		return 0, false
	}
	return int(st.ExitCode & 0x7f), st.Flags&procfs.Exiting != 0
}
