package signals

import (
	"fmt"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// status is what /proc/PID/status says.
func status(thread, shared, blocked, ignore, caught Set) []byte {
	return fmt.Appendf(nil, "Name:\tx\nSigQ:\t1/2\nSigPnd:\t%016x\nShdPnd:\t%016x\nSigBlk:\t%016x\nSigIgn:\t%016x\nSigCgt:\t%016x\nCapInh:\t0\n",
		uint64(thread), uint64(shared), uint64(blocked), uint64(ignore), uint64(caught))
}

func TestParse(t *testing.T) {
	tests := []struct {
		name                    string
		thread, shared          Set
		blocked, ignore, caught Set
		want                    Pending
	}{
		{name: "none", want: Nothing},
		{name: "kill", thread: Of(unix.SIGKILL), want: Interrupt},
		{name: "kill cannot be blocked", shared: Of(unix.SIGKILL), blocked: ^Set(0), want: Interrupt},
		{name: "stop cannot be blocked", shared: Of(unix.SIGSTOP), blocked: ^Set(0), want: Stop},
		{name: "profiling timer caught", thread: Of(unix.SIGPROF), caught: Of(unix.SIGPROF), want: NoReason},
		{name: "profiling timer kills", thread: Of(unix.SIGPROF), want: Interrupt},
		{name: "virtual timer kills", shared: Of(unix.SIGVTALRM), want: Interrupt},
		{name: "continue", shared: Of(unix.SIGCONT), caught: Of(unix.SIGCONT), want: NoReason},
		{name: "both sets count", thread: Of(unix.SIGURG), shared: Of(unix.SIGHUP), want: Interrupt},
		{name: "blocked beside benign", thread: Of(unix.SIGURG), shared: Of(unix.SIGHUP), blocked: Of(unix.SIGHUP), want: NoReason},
		{name: "all blocked", thread: Of(unix.SIGHUP), shared: Of(unix.SIGTERM), blocked: Of(unix.SIGHUP, unix.SIGTERM), want: Nothing},
		{name: "ignored", shared: Of(unix.SIGHUP), ignore: Of(unix.SIGHUP), want: Interrupt}, // it would not be pending
		{name: "terminal stop caught", shared: Of(unix.SIGTSTP), caught: Of(unix.SIGTSTP), want: Stop},
		{name: "stop and end", shared: Of(unix.SIGTSTP, unix.SIGTERM), want: Interrupt},
		{name: "stop beside benign", shared: Of(unix.SIGTSTP), thread: Of(unix.SIGCHLD), want: Stop},
		{name: "real time", shared: 1 << (40 - 1), caught: ^Set(0), want: Interrupt},
	}
	for _, tt := range tests {
		if got := Parse(status(tt.thread, tt.shared, tt.blocked, tt.ignore, tt.caught)); got != tt.want {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
}

// Each signal by itself, with and without a handler.
func TestEachSignal(t *testing.T) {
	want := map[unix.Signal][2]Pending{
		unix.SIGURG: {NoReason, NoReason}, unix.SIGCHLD: {NoReason, NoReason}, unix.SIGWINCH: {NoReason, NoReason}, unix.SIGCONT: {NoReason, NoReason},
		unix.SIGPROF: {Interrupt, NoReason}, unix.SIGVTALRM: {Interrupt, NoReason},
		unix.SIGSTOP: {Stop, Stop}, unix.SIGTSTP: {Stop, Stop}, unix.SIGTTIN: {Stop, Stop}, unix.SIGTTOU: {Stop, Stop},
	}
	for sig := unix.Signal(1); sig <= 64; sig++ {
		expect, ok := want[sig]
		if !ok {
			expect = [2]Pending{Interrupt, Interrupt}
		}
		for i, caught := range []Set{0, Of(sig)} {
			if got := Parse(status(Of(sig), 0, 0, 0, caught)); got != expect[i] {
				t.Errorf("%v, with a handler %v: %v, want %v", sig, i == 1, got, expect[i])
			}
		}
	}
}

// What is not there, or not to be read, is nothing.
func TestParseOddities(t *testing.T) {
	for text, want := range map[string]Pending{
		"":                                 Nothing,
		"SigPnd":                           Nothing,
		"SigPnd:\tx\n":                     Nothing,
		"ShdPnd:\t1\n":                     Interrupt,
		"ShdPnd:\t1":                       Interrupt,
		"xSigPnd:\t1\n":                    Nothing,
		"SigPnd:\t4000\nSigBlk:\tffffff\n": Nothing,
	} {
		if got := Parse([]byte(text)); got != want {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{"SigPnd:\t00ff\nShdPnd:\t1\nSigBlk:\t2\nSigCgt:\t3\nUid:\t1\t2\t3\t4\n", "SigPnd:\tx\n", "SigPnd"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if p := Parse(b); p.String() == "" {
			t.Errorf("%d means nothing", p)
		}
	})
}

// Which meanings end a wait.
func TestEnds(t *testing.T) {
	for p, want := range map[Pending]string{
		NoReason: "", Interrupt: "announced later announced-again later-again", Freeze: "announced later announced-again later-again",
		Stop: "announced-again later-again", Nothing: "announced announced-again",
	} {
		var got []string
		for _, again := range []bool{false, true} {
			for _, announced := range []bool{true, false} {
				if p.Ends(announced, again) {
					got = append(got, map[bool]string{true: "announced", false: "later"}[announced]+map[bool]string{true: "-again"}[again])
				}
			}
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%v ends a wait: %q, want %q", p, got, want)
		}
	}
}
