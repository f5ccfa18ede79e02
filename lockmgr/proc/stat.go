package proc

import (
	"bytes"
	"errors"

	"golang.org/x/sys/unix"

	"latchfs/lockmgr"
)

// stat is what the package needs of /proc/PID/stat. Numbers in comments are
// the field numbers of proc_pid_stat(5).
type stat struct {
	comm      name   // 2
	state     byte   // 3
	ppid      int32  // 4
	pgrp      int32  // 5
	tty       int64  // 7
	flags     uint64 // 9
	faults    uint64 // 10+12, of all threads, those that have ended too
	cpu       uint64 // 14+15, in user and kernel mode, in ticks
	childCPU  uint64 // 16+17, the same of children that were waited for
	threads   int64  // 20, of the process, also where PID is one thread's
	start     uint64 // 22, clock ticks since boot
	sigIgnore uint64 // 33, the signals below 32
	exitCode  int64  // 52, as wait(2) has it
	shell     bool   // see isPrompt
	launcher  bool   // by its name, 2, one of launchers
}

// pfExiting is PF_EXITING of include/linux/sched.h.
const pfExiting = 0x4

var errStat = errors.New("malformed stat")

// stat reads the stat of a process or thread. It blocks while that is in execve
// (see the package comment).
func (r *Reader) stat(pid int32) (st stat, err error) {
	err = r.withPIDFile(pid, keptStat, "stat", func(b []byte) error {
		st, err = parseStat(b)
		return err
	})
	return st, err
}

// maxComm is more than the kernel gives a process or a thread of its own as a
// name, with what stands before it.
const maxComm = 128

// name is the kernel's name for a process, which has up to 15 bytes, and not as long
// as the names of kernel threads can be. Zero: not known.
type name [16]byte

func nameOf(text []byte) (n name) {
	if len(text) < len(n) {
		copy(n[:], text)
	}
	return n
}

func (n *name) String() string {
	text, _, _ := bytes.Cut(n[:], []byte{0})
	return string(text)
}

// comm returns the name between the parentheses of a stat line. The name may
// hold spaces and parentheses itself, so the last one counts.
func comm(b []byte) (name, rest []byte, ok bool) {
	open, end := bytes.IndexByte(b, '('), bytes.LastIndexByte(b[:min(len(b), maxComm)], ')')
	if open < 0 || end < open {
		return nil, nil, false
	}
	return b[open+1 : end], b[end+1:], true
}

// parseStat reads a line of /proc/PID/stat.
func parseStat(b []byte) (stat, error) {
	var st stat
	text, b, ok := comm(b)
	if !ok || len(b) < 3 || b[0] != ' ' {
		return st, errStat
	}
	st.comm = nameOf(text)
	st.state = b[1]
	b = b[2:]
	field := 4
	next := func(n int) (v uint64) { // field n, which comes after the last one
		for ; ok && field < n; field++ {
			b, ok = skip(b)
		}
		if field++; ok {
			v, b, ok = number(b)
		}
		return v
	}
	st.ppid = int32(next(4))
	st.pgrp = int32(next(5))
	st.tty = int64(next(7))
	st.flags = next(9)
	st.faults = next(10) + next(12)
	st.cpu = next(14) + next(15)
	st.childCPU = next(16) + next(17)
	st.threads = int64(next(20))
	st.start = next(22)
	st.sigIgnore = next(33)
	st.exitCode = int64(next(52))
	if !ok {
		return st, errStat
	}
	st.shell = shells[string(text)] && st.isPrompt()
	st.launcher = launchers[string(text)]
	return st, nil
}

// isPrompt reports of a shell whether somebody types at its prompt: it has a terminal
// and does job control. Shells with job control ignore the terminal's stop signals,
// and no others do: scripts, subshells and `sh -c` have them at their default.
func (st *stat) isPrompt() bool {
	return st.tty != 0 && sigset(st.sigIgnore)&sigs(unix.SIGTSTP, unix.SIGTTOU) != 0
}

// skip leaves out a space and the field after it.
func skip(b []byte) (rest []byte, ok bool) {
	if len(b) < 2 || b[0] != ' ' {
		return nil, false
	}
	i := bytes.IndexByte(b[1:], ' ')
	return b[1+max(i, 0):], i >= 0
}

// number reads a space and a decimal number; a negative one comes as its two's
// complement.
func number(b []byte) (v uint64, rest []byte, ok bool) {
	if len(b) < 2 || b[0] != ' ' {
		return 0, nil, false
	}
	i := 1
	negative := b[i] == '-'
	if negative {
		i++
	}
	digits := i
	for ; i < len(b) && '0' <= b[i] && b[i] <= '9'; i++ {
		v = v*10 + uint64(b[i]-'0')
	}
	if negative {
		v = -v
	}
	return v, b[i:], i > digits
}

// runs reports whether it is of this process, which still runs.
func (st *stat) runs(o lockmgr.Owner) bool { return st.start == o.Start && !st.dead() }

// dead reports whether nothing of the process runs any more. A leader that
// ended before its threads is a zombie while they go on.
func (st *stat) dead() bool {
	switch st.state {
	case 'X', 'x':
		return true
	case 'Z':
		return st.threads <= 1
	}
	return false
}
