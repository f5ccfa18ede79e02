package main

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
)

// clientCommand as first argument makes this program a client.
const clientCommand = "client"

// The words between the controlling process and a client.
const (
	readyLine = "ready\n"
	goLine    = "go\n"
)

// clientMain runs one work as the spec says: prepare, say "ready", wait for
// "go", measure, answer one result. It returns the exit status.
func clientMain(args []string) int {
	runtime.LockOSThread()
	debug.SetGCPercent(-1)
	debug.SetMemoryLimit(1 << 30) // should a work allocate more than foreseen

	var s spec
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

func runClient(s spec, in io.Reader, out io.Writer) (r result, err error) {
	w, ok := findWork(s.Work)
	if !ok {
		return r, fmt.Errorf("no work is called %q", s.Work)
	}
	j, err := w.New(s)
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
		r.Sample = median(j.samples)
	}
	return r, err
}

func findWork(id string) (work, bool) {
	for _, w := range allWorks() {
		if w.ID == id {
			return w, true
		}
	}
	for _, c := range allCurves() {
		if w := c.work(1); w.ID == id {
			return w, true
		}
	}
	return work{}, false
}

func awaitStart(in io.Reader, out io.Writer) error {
	if _, err := io.WriteString(out, readyLine); err != nil {
		return err
	}
	line, err := bufio.NewReader(in).ReadString('\n')
	if err != nil || line != goLine {
		return fmt.Errorf("not started: %q, %w", line, err)
	}
	return nil
}

// measure repeats the operation and looks at the clock after each batch.
func (j *job) measure(budget time.Duration) (result, error) {
	batch := max(j.batch, 1)
	r := result{Start: monotonic()}
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
