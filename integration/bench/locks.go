package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"latchfs/integration/bench/internal/figures"
	"latchfs/integration/bench/internal/load"
)

// Measuring the table of locks: one process holds many through one descriptor of
// .locks/control, another one waits for a tenth of them through another.

// The targets of DESIGN section 12.
const (
	perLockLimit  = 1024        // bytes of the daemon for a held lock, and for a waiter
	lookLimit     = time.Second // to read .locks/status
	lockDeadline  = 5 * time.Minute
	singlesOfEach = 1000 // how many are asked for one by one
)

// lockFigure is one line of the report.
type lockFigure struct {
	Title  string
	Value  string
	Wanted string
	Met    bool
}

// measureLocks measures the table twice: as it runs, and with a garbage collector
// that keeps next to nothing, for what a lock takes by itself. It prints its own report.
func (s *site) measureLocks(ctx context.Context, c *column, n int, logf func(string, ...any)) error {
	ctx, cancel := context.WithTimeout(ctx, lockDeadline)
	defer cancel()
	var lines []lockFigure
	for _, tight := range []bool{false, true} {
		more, err := s.measureTable(ctx, c, n, tight)
		if err != nil {
			return err
		}
		lines = append(lines, more...)
		logf("%d locks, tight %v: done", n, tight)
	}
	w := &printer{out: os.Stdout}
	w.row(fmt.Sprintf("%d locks held, %d requests waiting", n, n/10), "", "target", "verdict")
	w.row("---", "---:", "---", "---")
	for _, f := range lines {
		verdict := ""
		if f.Wanted != "" {
			verdict = map[bool]string{true: "met", false: "not met"}[f.Met]
		}
		w.row(f.Title, f.Value, f.Wanted, verdict)
	}
	return w.err
}

// measureTable mounts, measures and unmounts.
func (s *site) measureTable(ctx context.Context, c *column, n int, tight bool) (lines []lockFigure, err error) {
	data := filepath.Join(s.Dir, c.ID, "data")
	for i := 0; i <= n; i += 1000 {
		if err := os.MkdirAll(filepath.Join(data, load.LockedDir(i)), 0o755); err != nil {
			return nil, err
		}
	}
	if tight {
		if err := os.Setenv("GOGC", "5"); err != nil { // of the daemon, which is the last to be started
			return nil, err
		}
	}
	if err := s.mount(ctx, c, data); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, c.close()); c.daemon = nil }()
	t := &tableRun{ctx: ctx, c: c, n: n}
	defer t.dismiss()
	if tight {
		return t.memory()
	}
	return t.times()
}

// tableRun is one mount with its two clients.
type tableRun struct {
	ctx            context.Context
	c              *column
	n              int
	holder, waiter *lockProcess
	base           int64 // memory before the first lock
}

// start starts the clients and lets them talk to the daemon once, so that what
// comes with the first lock is not counted.
func (t *tableRun) start() (err error) {
	for _, p := range []**lockProcess{&t.holder, &t.waiter} {
		if *p, err = startLockClient(t.ctx, t.c.root); err != nil {
			return err
		}
		if _, err := (*p).do(load.Order{Do: "one by one", N: 1, From: t.n, Wait: "0s"}); err != nil {
			return err
		}
		if _, err := (*p).do(load.Order{Do: "close"}); err != nil {
			return err
		}
	}
	t.base, err = t.resident()
	return err
}

func (t *tableRun) dismiss() {
	for _, p := range []*lockProcess{t.holder, t.waiter} {
		if p != nil {
			crew{p.clientProcess}.dismiss(true)
		}
	}
}

// fill takes the locks and lets the others wait; after each it calls note.
func (t *tableRun) fill(waiters int, note func(what string, took time.Duration, count int) error) error {
	if err := t.start(); err != nil {
		return err
	}
	steps := []struct {
		what string
		p    *lockProcess
		o    load.Order
	}{
		{"acquire", t.holder, load.Order{Do: "one by one", N: singlesOfEach, Step: 1, Wait: "0s"}},
		{"held", t.holder, load.Order{Do: "hold", N: t.n - singlesOfEach, From: singlesOfEach, Step: 1, Wait: "0s"}},
		{"waiting", t.waiter, load.Order{Do: "send", N: waiters, Step: t.n / waiters, Wait: "forever"}},
	}
	for _, s := range steps {
		took, err := s.p.do(s.o)
		if err != nil {
			return fmt.Errorf("%s: %w", s.what, err)
		}
		if err := note(s.what, took.Span(), s.o.N); err != nil {
			return err
		}
	}
	return nil
}

// times measures how long everything takes.
func (t *tableRun) times() (lines []lockFigure, err error) {
	add := func(title string, value string, limit string, met bool) {
		lines = append(lines, lockFigure{title, value, limit, met})
	}
	err = t.fill(t.n/10, func(what string, took time.Duration, count int) error {
		each := figures.Time(float64(took) / float64(count))
		switch what {
		case "acquire":
			add("acquire, one request in one write, its reply in one read", each, "", false)
		case "held":
			add("acquire, requests in writes of 64 KiB", each, "", false)
		case "waiting":
			add("a request that waits, in writes of 64 KiB", each, "", false)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	full, err := t.resident()
	if err != nil {
		return nil, err
	}
	add("resident memory of the daemon, with its garbage", fmt.Sprintf("%d MiB", full>>20), "", false)
	looks := []struct {
		title, do, path string
		limited         bool
	}{
		{"read .locks/status", "read", ".locks/status", true},
		{"read .locks/status.json", "read", ".locks/status.json", true},
		{"ls -R .locks/held", "walk", ".locks/held", false},
	}
	for _, l := range looks {
		a, err := t.waiter.do(load.Order{Do: l.do, Path: l.path})
		if err != nil {
			return nil, fmt.Errorf("%s: %w", l.title, err)
		}
		limit := ""
		if l.limited {
			limit = "< 1 s"
		}
		add(l.title, figures.Time(float64(a.Span())), limit, a.Span() < lookLimit)
	}
	gone, err := t.release()
	if err != nil {
		return nil, err
	}
	add("close of the holder's descriptor until all who waited have their locks", figures.Time(float64(gone)), "", false)
	return lines, nil
}

// release lets the holder close, and returns how long it takes until every
// waiter has its lock.
func (t *tableRun) release() (time.Duration, error) {
	closed, err := t.holder.do(load.Order{Do: "close"})
	if err != nil {
		return 0, err
	}
	granted, err := t.waiter.do(load.Order{Do: "receive", N: t.n / 10})
	return time.Duration(granted.End - closed.Start), err
}

// memory measures what a lock and a waiter take, with as many waiters as locks.
func (t *tableRun) memory() (lines []lockFigure, err error) {
	last := int64(0)
	err = t.fill(t.n, func(what string, _ time.Duration, count int) error {
		now, err := t.resident()
		if err != nil {
			return err
		}
		switch what {
		case "acquire":
			last = t.base
		case "held", "waiting":
			if what == "held" {
				count = t.n
			}
			each := (now - last) / int64(count)
			lines = append(lines, lockFigure{"memory for one that is " + what, fmt.Sprintf("%d bytes", each), "< 1024 bytes", each < perLockLimit})
			last = now
		}
		return nil
	})
	return lines, err
}

// resident is the memory of the daemon.
func (t *tableRun) resident() (int64, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", t.c.daemon.cmd.Process.Pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(b)) {
		var kib int64
		if n, _ := fmt.Sscanf(line, "VmRSS: %d kB", &kib); n == 1 {
			return kib << 10, nil
		}
	}
	return 0, errors.New("no VmRSS in /proc/PID/status")
}

// lockProcess is a client of the control file.
type lockProcess struct{ *clientProcess }

func startLockClient(ctx context.Context, root string) (*lockProcess, error) {
	p, err := startSelf(ctx, load.LockArgs(root))
	return &lockProcess{p}, err
}

func (p *lockProcess) do(o load.Order) (a load.Answer, err error) {
	if err := json.NewEncoder(p.in).Encode(o); err != nil {
		return a, p.lost(err)
	}
	line, err := p.out.ReadBytes('\n')
	if err != nil {
		return a, p.lost(err)
	}
	if err := json.Unmarshal(line, &a); err != nil {
		return a, err
	}
	if a.Err != "" {
		return a, errors.New(a.Err)
	}
	return a, nil
}
