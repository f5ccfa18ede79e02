// Package counting loses updates: unrelated workers increment one JSON counter
// with the tools that people use, read first, written back afterwards, with
// nothing but what the directory gives to keep them apart.
//
// A worker says of every attempt whether its tool reported success. What the
// tools acknowledged and the counter does not show is lost.
package counting

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Plan says how much is counted, and where.
type Plan struct {
	Dir        string // where the counter lies
	Workers    int
	Increments int             // of each worker
	Warmup     int             // increments by one worker alone, before, that do not count
	Retry      bool            // workers try again, from reading on, until their tool succeeds
	Prepare    func(*exec.Cmd) // gives a command its user and environment; may be nil
	Limit      time.Duration   // after which the workers are killed
}

// Result is what came of a plan.
type Result struct {
	Succeeded int           // increments that a tool acknowledged
	Refused   int           // attempts whose tool reported EBUSY, or that another worker was faster
	Failed    int           // attempts whose tool reported something else
	Final     int           // what the counter shows at the end
	Elapsed   time.Duration // from the start signal to the end of the last worker
	Messages  []string      // what the tools said, one of each kind
}

// Lost is how many acknowledged increments the counter does not show. It is
// negative when increments took effect that a tool had reported as refused.
func (r Result) Lost() int { return r.Succeeded - r.Final }

// Rate is acknowledged increments per second.
func (r Result) Rate() float64 { return float64(r.Succeeded) / r.Elapsed.Seconds() }

// String is one line for a person.
func (r Result) String() string {
	return fmt.Sprintf("%d succeeded, %d refused, %d failed, the counter shows %d: %d lost; %.1f/s",
		r.Succeeded, r.Refused, r.Failed, r.Final, r.Lost(), r.Rate())
}

// initial is a counter that has counted nothing.
const initial = `{"n": 0}`

// Run counts with a tool, in a new file of the plan's directory. The error says
// that the counting itself went wrong; refusals and losses are in the result.
func Run(tool Tool, plan Plan) (Result, error) {
	path := filepath.Join(plan.Dir, fmt.Sprintf("%s-%d.json", tool.Name, time.Now().UnixNano()))
	if _, err := plan.output(`printf %s "$2" > "$1"`, path, initial); err != nil {
		return Result{}, fmt.Errorf("make the counter: %w", err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), plan.Limit)
	defer cancel()
	var r, before Result
	if plan.Warmup > 0 {
		alone := plan
		alone.Workers, alone.Increments = 1, plan.Warmup
		if err := alone.work(ctx, tool, path, &before); err != nil {
			return before, fmt.Errorf("warm-up: %w", err)
		}
	}
	if err := plan.work(ctx, tool, path, &r); err != nil {
		return r, err
	}
	text, err := plan.output(`cat "$1"`, path)
	if err != nil {
		return r, fmt.Errorf("read the counter: %w", err)
	}
	var doc struct{ N int }
	if err := json.Unmarshal([]byte(text), &doc); err != nil {
		r.Messages = append(r.Messages, fmt.Sprintf("the counter holds %q at the end", text))
		return r, nil // a torn counter shows nothing
	}
	r.Final = doc.N - before.Succeeded
	return r, nil
}

// output runs a piece of shell as the workers run, and related to nobody who lives on:
// under serialize its read would claim the counter for them.
func (p Plan) output(script string, argv ...string) (string, error) {
	argv = Unrelated(append([]string{"sh", "-c", script, "sh"}, argv...))
	cmd := exec.Command(argv[0], argv[1:]...)
	p.prepare(cmd)
	out, err := cmd.Output()
	return string(out), err
}

func (p Plan) prepare(cmd *exec.Cmd) {
	if p.Prepare != nil {
		p.Prepare(cmd)
	}
}

// work runs the workers and adds up what they say.
func (p Plan) work(ctx context.Context, tool Tool, path string, r *Result) error {
	gate, open, err := os.Pipe()
	if err != nil {
		return err
	}
	defer gate.Close()
	defer open.Close()
	mode := "once"
	if p.Retry {
		mode = "retry"
	}
	workers := make([]*worker, p.Workers)
	for i := range workers {
		argv := Unrelated(append(tool.argv(), path, strconv.Itoa(p.Increments), mode))
		w, err := p.start(ctx, argv, gate)
		if err != nil {
			return err
		}
		defer w.kill()
		workers[i] = w
	}
	for _, w := range workers {
		if err := w.awaitReady(); err != nil {
			return err
		}
	}
	began := time.Now()
	open.Close()
	tally := newTally(r, tool.overtook)
	var wg sync.WaitGroup
	errs := make([]error, len(workers))
	for i, w := range workers {
		wg.Go(func() { errs[i] = w.count(tally) })
	}
	wg.Wait()
	r.Elapsed = time.Since(began)
	if ctx.Err() != nil {
		r.Messages = append(r.Messages, fmt.Sprintf("stopped after %v", p.Limit))
		return nil
	}
	return errors.Join(errs...)
}

// worker is one of those who count.
type worker struct {
	cmd    *exec.Cmd
	out    *bufio.Scanner
	stderr strings.Builder
}

func (p Plan) start(ctx context.Context, argv []string, gate *os.File) (*worker, error) {
	w := &worker{cmd: exec.CommandContext(ctx, argv[0], argv[1:]...)}
	p.prepare(w.cmd)
	if w.cmd.SysProcAttr == nil {
		w.cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	w.cmd.SysProcAttr.Setpgid = true
	w.cmd.Cancel = func() error { return syscall.Kill(-w.cmd.Process.Pid, syscall.SIGKILL) }
	w.cmd.Stdin, w.cmd.Stderr = gate, &w.stderr
	out, err := w.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	w.out = bufio.NewScanner(out)
	return w, w.cmd.Start()
}

func (w *worker) kill() { _ = syscall.Kill(-w.cmd.Process.Pid, syscall.SIGKILL) }

// awaitReady waits until the worker has come as far as its start signal.
func (w *worker) awaitReady() error {
	if w.out.Scan() && w.out.Text() == "ready" {
		return nil
	}
	return fmt.Errorf("a worker did not start: %w %s %s", io.ErrUnexpectedEOF, w.out.Text(), w.stderr.String())
}

// count reads what the worker says to its end.
func (w *worker) count(t *tally) error {
	for w.out.Scan() {
		t.add(w.out.Text())
	}
	if err := w.cmd.Wait(); err != nil {
		return fmt.Errorf("a worker ended: %w %s", err, w.stderr.String())
	}
	return nil
}

// tally adds up what all workers say.
type tally struct {
	mu     sync.Mutex
	r      *Result
	kinds  map[string]bool
	number *regexp.Regexp

	overtook *regexp.Regexp // as the tool has it
}

func newTally(r *Result, overtook *regexp.Regexp) *tally {
	return &tally{r: r, overtook: overtook, kinds: map[string]bool{}, number: regexp.MustCompile(`[0-9]+|sed[A-Za-z0-9]{6}`)}
}

// busy is how tools report EBUSY.
var busy = regexp.MustCompile(`(?i)EBUSY|resource busy|Errno 16\b`)

func (t *tally) add(line string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if line == "ok" {
		t.r.Succeeded++
		return
	}
	if busy.MatchString(line) || t.overtook != nil && t.overtook.MatchString(line) {
		t.r.Refused++
	} else {
		t.r.Failed++
	}
	if kind := t.number.ReplaceAllString(line, "0"); !t.kinds[kind] && len(t.kinds) < 20 {
		t.kinds[kind] = true
		t.r.Messages = append(t.r.Messages, line)
	}
}
