package procfs

import (
	"bytes"
	"errors"
)

// HZ is how many ticks, the unit of times in /proc (USER_HZ), a second has, on every
// architecture that Go runs on.
const HZ = 100

// Stat is what is needed of /proc/PID/stat or /proc/PID/task/TID/stat. Numbers in comments
// are the field numbers of proc_pid_stat(5).
type Stat struct {
	Comm      Name   // 2
	State     byte   // 3
	PPID      int32  // 4
	PGrp      int32  // 5, the process group
	TTY       int64  // 7, the controlling terminal; 0: none
	Flags     uint64 // 9
	Faults    uint64 // 10+12, of all threads, those that have ended too
	CPU       uint64 // 14+15, in user and kernel mode, in ticks
	ChildCPU  uint64 // 16+17, the same of children that were waited for
	Threads   int64  // 20, of the process, also where PID is one thread's
	Start     uint64 // 22, clock ticks since boot
	SigIgnore uint64 // 33, the signals below 32
	ExitCode  int64  // 52, as wait(2) has it
}

// Exiting is the flag of a thread that is on its way out (PF_EXITING of
// include/linux/sched.h).
const Exiting = 0x4

// DumpingCore is the flag of a thread that dumps core, or has done so (PF_DUMPCORE, in the
// same place).
const DumpingCore = 0x200

var errStat = errors.New("malformed stat")

// maxComm is more than the kernel gives a process or a thread of its own as a
// name, with what stands before it.
const maxComm = 128

// Name is the kernel's name for a process, which has up to 15 bytes, and not as long
// as the names of kernel threads can be. Zero: not known.
type Name [16]byte

func nameOf(text []byte) (n Name) {
	if len(text) < len(n) {
		copy(n[:], text)
	}
	return n
}

// String is the name as text, "" if it is not known.
func (n *Name) String() string { return string(n.Bytes()) }

// Bytes is the same, as a part of n.
func (n *Name) Bytes() []byte {
	text, _, _ := bytes.Cut(n[:], []byte{0})
	return text
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

// ParseStat reads a line of /proc/PID/stat.
func ParseStat(b []byte) (Stat, error) {
	var st Stat
	text, b, ok := comm(b)
	if !ok || len(b) < 3 || b[0] != ' ' {
		return st, errStat
	}
	st.Comm = nameOf(text)
	st.State = b[1]
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
	st.PPID = int32(next(4))
	st.PGrp = int32(next(5))
	st.TTY = int64(next(7))
	st.Flags = next(9)
	st.Faults = next(10) + next(12)
	st.CPU = next(14) + next(15)
	st.ChildCPU = next(16) + next(17)
	st.Threads = int64(next(20))
	st.Start = next(22)
	st.SigIgnore = next(33)
	st.ExitCode = int64(next(52))
	if !ok {
		return st, errStat
	}
	return st, nil
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

// Runs reports whether it is of the process that started then, in clock ticks since boot,
// and whether that still runs.
func (st *Stat) Runs(start uint64) bool { return st.Start == start && !st.Dead() }

// Dead reports whether nothing of the process runs any more. A leader that
// ended before its threads is a zombie while they go on.
func (st *Stat) Dead() bool {
	switch st.State {
	case 'X', 'x':
		return true
	case 'Z':
		return st.Threads <= 1
	}
	return false
}
