package proc

import (
	"bytes"
	"errors"
)

// stat is what the package needs of /proc/PID/stat. Numbers in comments are
// the field numbers of proc_pid_stat(5).
type stat struct {
	state     byte   // 3
	ppid      int32  // 4
	tty       int64  // 7
	flags     uint64 // 9
	threads   int64  // 20, of the process, also where PID is one thread's
	start     uint64 // 22, clock ticks since boot
	sigIgnore uint64 // 33, the signals below 32
	exitCode  int64  // 52, as wait(2) has it
}

// pfExiting is PF_EXITING of include/linux/sched.h.
const pfExiting = 0x4

var errStat = errors.New("malformed stat")

// stat reads the stat of a process or thread. It blocks while that is in execve
// (see the package comment).
func (r *Reader) stat(pid int32) (st stat, err error) {
	err = r.withFile(pidPath(pid, "stat"), func(b []byte) error {
		st, err = parseStat(b)
		return err
	})
	return st, err
}

// comm returns the name between the parentheses of a stat line. The name may
// hold spaces and parentheses itself, so the last one counts.
func comm(b []byte) (name, rest []byte, ok bool) {
	open, end := bytes.IndexByte(b, '('), bytes.LastIndexByte(b, ')')
	if open < 0 || end < open {
		return nil, nil, false
	}
	return b[open+1 : end], b[end+1:], true
}

// parseStat reads a line of /proc/PID/stat.
func parseStat(b []byte) (stat, error) {
	var st stat
	_, b, ok := comm(b)
	if !ok || len(b) < 3 || b[0] != ' ' {
		return st, errStat
	}
	st.state = b[1]
	b = b[2:]
	for n := 4; n <= 52; n++ {
		var v uint64
		if v, b, ok = number(b); !ok {
			return st, errStat
		}
		switch n {
		case 4:
			st.ppid = int32(v)
		case 7:
			st.tty = int64(v)
		case 9:
			st.flags = v
		case 20:
			st.threads = int64(v)
		case 22:
			st.start = v
		case 33:
			st.sigIgnore = v
		case 52:
			st.exitCode = int64(v)
		}
	}
	return st, nil
}

// number reads a space and a decimal number; a negative one comes as its two's
// complement.
func number(b []byte) (v uint64, rest []byte, ok bool) {
	if len(b) < 2 || b[0] != ' ' {
		return 0, nil, false
	}
	b = b[1:]
	negative := b[0] == '-'
	if negative {
		b = b[1:]
	}
	i := 0
	for ; i < len(b) && '0' <= b[i] && b[i] <= '9'; i++ {
		v = v*10 + uint64(b[i]-'0')
	}
	if negative {
		v = -v
	}
	return v, b[i:], i > 0
}

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
