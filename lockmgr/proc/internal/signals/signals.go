// Package signals tells what the signals that a thread has pending mean for a system call
// of it that waits. It is pure: it reads what /proc/PID/status says of them.
//
// A signal counts when it will be delivered: it is pending for the thread or its process,
// and not blocked, or cannot be blocked. Of those that count the gravest decides:
//
//	SIGURG SIGCHLD SIGWINCH SIGCONT        NoReason    programs take them in passing
//	SIGPROF SIGVTALRM with a handler       NoReason    without one they kill
//	SIGSTOP SIGTSTP SIGTTIN SIGTTOU        Stop
//	all others                             Interrupt
package signals

import (
	"bytes"
	"strconv"

	"golang.org/x/sys/unix"
)

// Pending says what a thread's pending signals mean for a request of it that
// waits (KERNEL-FACTS, "Locks and interrupts").
type Pending int

const (
	// NoReason is for signals that programs take in passing: the wait goes on.
	NoReason Pending = iota
	// Interrupt is for a signal that ends the wait, or a thread that has gone.
	Interrupt
	// Stop is for a signal that stops the process: it ends the wait of a program that tries
	// again afterwards, as bash, Go and Python open again, and its place in the queue is kept.
	Stop
	// Freeze is for a process that is to leave its system calls, for it is frozen or traced.
	// It ends the wait, and the place is kept.
	Freeze
	// Nothing is pending. Right after an INTERRUPT of a process with one thread it counts as
	// Freeze, for then the freezer or kernel work of the thread's own was the cause; in a later
	// poll it means that all is quiet, and counts as NoReason. Of several threads another one
	// may have taken the signal: see proc.Reader.Pending.
	Nothing
)

// String returns the lower-case name.
func (p Pending) String() string {
	return [...]string{"no reason", "interrupt", "stop", "freeze", "nothing"}[p]
}

// Ends reports whether it ends a wait: right after the kernel has announced a signal, or in a
// later poll. again says that the program tries again what a stop has interrupted.
func (p Pending) Ends(announced, again bool) bool {
	switch p {
	case Interrupt, Freeze:
		return true
	case Stop:
		return again
	case Nothing:
		return announced
	case NoReason:
	}
	return false
}

// Set is a set of signals as in /proc/PID/status.
type Set uint64

// Of is the set of some signals.
func Of(list ...unix.Signal) (s Set) {
	for _, sig := range list {
		s |= 1 << (sig - 1)
	}
	return s
}

var (
	// benign signals tell a program something, by a handler or by nothing.
	benign = Of(unix.SIGURG, unix.SIGCHLD, unix.SIGWINCH, unix.SIGCONT)
	// timers are as harmless if there is a handler, and kill if there is none.
	timers = Of(unix.SIGPROF, unix.SIGVTALRM)
	stops  = Of(unix.SIGSTOP, unix.SIGTSTP, unix.SIGTTIN, unix.SIGTTOU)
	// unblockable signals are delivered whatever the mask says.
	unblockable = Of(unix.SIGKILL, unix.SIGSTOP)
)

// Parse reads it of a thread's status. Lines that are missing, or not to be read, are
// empty sets.
func Parse(status []byte) Pending {
	var pending, blocked, caught Set
	for line := range bytes.Lines(status) {
		name, value, _ := bytes.Cut(line, []byte(":"))
		switch string(name) {
		case "SigPnd", "ShdPnd":
			pending |= parseSet(value)
		case "SigBlk":
			blocked = parseSet(value)
		case "SigCgt":
			caught = parseSet(value)
		}
	}
	pending &^= blocked &^ unblockable
	switch {
	case pending == 0:
		return Nothing
	case pending&^(benign|timers&caught|stops) != 0:
		return Interrupt
	case pending&stops != 0:
		return Stop
	default:
		return NoReason
	}
}

func parseSet(b []byte) Set {
	v, _ := strconv.ParseUint(string(bytes.TrimSpace(b)), 16, 64)
	return Set(v)
}
