package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"time"

	"latchfs/integration/bench/internal/load"
)

// clientDeadline is long after any sane end of one measurement.
const clientDeadline = 60 * time.Second

// clientProcess is a started client.
type clientProcess struct {
	cmd    *exec.Cmd
	in     io.WriteCloser
	out    *bufio.Reader
	errors bytes.Buffer
}

// startClient starts this program again as a client. Files become descriptors
// 3 and up. The client is killed when ctx ends.
func startClient(ctx context.Context, s load.Spec, files ...*os.File) (*clientProcess, error) {
	args, err := s.Args()
	if err != nil {
		return nil, err
	}
	return startSelf(ctx, args, files...)
}

// startSelf starts this program again with other arguments.
func startSelf(ctx context.Context, args []string, files ...*os.File) (p *clientProcess, err error) {
	p = &clientProcess{}
	p.cmd = exec.CommandContext(ctx, "/proc/self/exe", args...)
	p.cmd.Dir = "/" // never inside a mount
	p.cmd.Stderr = &p.errors
	p.cmd.ExtraFiles = files
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p.out = bufio.NewReader(out)
	return p, p.cmd.Start()
}

// ready waits until the client has prepared its work.
func (p *clientProcess) ready() error {
	line, err := p.out.ReadString('\n')
	if err == nil && line == load.ReadyLine {
		return nil
	}
	var r load.Result
	if json.Unmarshal([]byte(line), &r) == nil && r.Err != "" {
		return errors.New(r.Err)
	}
	return p.lost(err)
}

func (p *clientProcess) start() error {
	_, err := io.WriteString(p.in, load.GoLine)
	return err
}

func (p *clientProcess) result() (r load.Result, err error) {
	line, err := p.out.ReadBytes('\n')
	if err != nil {
		return r, p.lost(err)
	}
	if err := json.Unmarshal(line, &r); err != nil {
		return r, err
	}
	if r.Err != "" {
		return r, errors.New(r.Err)
	}
	return r, nil
}

// lost explains a client that ended without an answer.
func (p *clientProcess) lost(err error) error {
	return fmt.Errorf("the client gave no answer (%w): %s", err, load.Shorten(p.errors.String()))
}

// crew is the clients of one measurement.
type crew []*clientProcess

// startCrew starts what the work needs. On error, what did start is in the crew.
func startCrew(ctx context.Context, w load.Work, s load.Spec) (crew, error) {
	if w.Pair {
		return startPair(ctx, s)
	}
	var all crew
	for i := range max(w.Clients, 1) {
		s.Index = i
		p, err := startClient(ctx, s)
		if err != nil {
			return all, err
		}
		all = append(all, p)
	}
	return all, nil
}

// startPair joins a holder and a waiter with two pipes. The ends are closed
// here, so that each notices when the other is gone.
func startPair(ctx context.Context, s load.Spec) (crew, error) {
	toHolder, fromWaiter, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer toHolder.Close()
	defer fromWaiter.Close()
	toWaiter, fromHolder, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer toWaiter.Close()
	defer fromHolder.Close()

	s.Role = load.Holder
	h, err := startClient(ctx, s, toHolder, fromHolder)
	if err != nil {
		return nil, err
	}
	s.Role = load.Waiter
	w, err := startClient(ctx, s, toWaiter, fromWaiter)
	if err != nil {
		return crew{h}, err
	}
	return crew{h, w}, nil
}

// run starts all together and collects what they measured.
func (c crew) run() ([]load.Result, error) {
	for _, p := range c {
		if err := p.ready(); err != nil {
			return nil, err
		}
	}
	for _, p := range c {
		if err := p.start(); err != nil {
			return nil, err
		}
	}
	results := make([]load.Result, len(c))
	var failed error
	for i, p := range c {
		var err error
		if results[i], err = p.result(); err != nil {
			failed = errors.Join(failed, err)
		}
	}
	return results, failed
}

// dismiss waits for the end of every client, killing those that still run when
// kill is set. It reports false when one could not be ended: it then sleeps in
// the kernel, waiting for a daemon.
func (c crew) dismiss(kill bool) bool {
	ended := true
	for _, p := range c {
		p.in.Close()
		if kill {
			_ = p.cmd.Process.Kill() // it may have ended meanwhile
		}
		done := make(chan struct{})
		go func() {
			_ = p.cmd.Wait() // what it had to say is in its answer
			close(done)
		}()
		select {
		case <-done:
		case <-time.After(5 * time.Second):
			ended = false
		}
	}
	return ended
}
