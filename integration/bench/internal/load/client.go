package load

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"time"

	"golang.org/x/sys/unix"

	"latchfs/integration/bench/internal/figures"
)

// The first arguments that make the program a client.
const (
	clientCommand     = "client"
	lockClientCommand = "lock-client" // of the control file
)

// Args are the arguments with which the program has to be started to be a client that
// does what s says.
func (s Spec) Args() ([]string, error) {
	arg, err := json.Marshal(s)
	return []string{clientCommand, string(arg)}, err
}

// LockArgs are those of a client of the control file of the mount at root, which does one
// Order after the other.
func LockArgs(root string) []string { return []string{lockClientCommand, root} }

// Main does what a client has to do, if the arguments of the program make it one, and
// returns its exit status then.
func Main(args []string) (status int, isClient bool) {
	switch {
	case len(args) > 0 && args[0] == clientCommand:
		return clientMain(args[1:]), true
	case len(args) > 0 && args[0] == lockClientCommand:
		return lockClientMain(args[1:]), true
	}
	return 0, false
}

// The words between the controlling process and a client.
const (
	ReadyLine = "ready\n" // of the client: the work is prepared
	GoLine    = "go\n"    // to the client: the clock may start
)

// clientMain runs one work as the spec says: prepare, say "ready", wait for
// "go", measure, answer one result. It returns the exit status.
func clientMain(args []string) int {
	runtime.LockOSThread()
	debug.SetGCPercent(-1)
	debug.SetMemoryLimit(1 << 30) // should a work allocate more than foreseen

	var s Spec
	if len(args) != 1 || json.Unmarshal([]byte(args[0]), &s) != nil {
		fmt.Fprintln(os.Stderr, "bench: the client command is internal")
		return 2
	}
	r, err := runClient(s, os.Stdin, os.Stdout)
	if err != nil {
		r.Err = err.Error()
	}
	if err := json.NewEncoder(os.Stdout).Encode(r); err != nil {
		return 1
	}
	return 0
}

func runClient(s Spec, in io.Reader, out io.Writer) (r Result, err error) {
	w, ok := findWork(s.Work)
	if !ok {
		return r, fmt.Errorf("no work is called %q", s.Work)
	}
	j, err := w.prepare(s)
	if err != nil {
		return r, fmt.Errorf("prepare: %w", err)
	}
	if j.clean != nil {
		defer func() {
			if e := j.clean(); e != nil {
				err = errors.Join(err, fmt.Errorf("clean up: %w", e))
			}
		}()
	}
	for i := range j.warm {
		if err := j.op(i); err != nil {
			return r, fmt.Errorf("warm up: %w", err)
		}
	}
	if err := awaitStart(in, out); err != nil {
		return r, err
	}
	r, err = j.measure(time.Duration(s.BudgetNS))
	if len(j.samples) > 0 {
		r.Sample = figures.Median(j.samples)
	}
	return r, err
}

func findWork(id string) (Work, bool) {
	for _, w := range Works() {
		if w.ID == id {
			return w, true
		}
	}
	for _, c := range Curves() {
		if w := c.Work(1); w.ID == id {
			return w, true
		}
	}
	return Work{}, false
}

func awaitStart(in io.Reader, out io.Writer) error {
	if _, err := io.WriteString(out, ReadyLine); err != nil {
		return err
	}
	line, err := bufio.NewReader(in).ReadString('\n')
	if err != nil || line != GoLine {
		return fmt.Errorf("not started: %q, %w", line, err)
	}
	return nil
}

// measure repeats the operation and looks at the clock after each batch.
func (j *job) measure(budget time.Duration) (Result, error) {
	batch := max(j.batch, 1)
	r := Result{Start: monotonic()}
	for {
		for range batch {
			if err := j.op(j.warm + r.Ops); err != nil {
				return r, fmt.Errorf("operation %d: %w", r.Ops, err)
			}
			r.Ops++
		}
		r.End = monotonic()
		if j.fixed > 0 && r.Ops >= j.fixed || j.fixed == 0 && r.End-r.Start >= int64(budget) {
			return r, nil
		}
	}
}

// monotonic is CLOCK_MONOTONIC in nanoseconds: one clock for all processes.
func monotonic() int64 {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		panic("bench: CLOCK_MONOTONIC: " + err.Error())
	}
	return ts.Nano()
}
