package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"latchfs/integration/bench/internal/figures"
	"latchfs/integration/bench/internal/load"
)

// measure does one work once on one column and answers the time of one
// operation in nanoseconds.
func (s *site) measure(ctx context.Context, w load.Work, c *column, budget, deadline time.Duration) (float64, error) {
	if err := c.failed(); err != nil {
		return figures.Missing(), err
	}
	if err := s.settle(); err != nil {
		return figures.Missing(), err
	}
	limited, cancel := context.WithTimeout(ctx, deadline)
	defer cancel()
	clients, err := startCrew(limited, w, load.Spec{
		Work: w.ID, Root: c.root, Data: c.data, Size: w.Size, Archive: s.archive(), CloseCommits: c.IsLatchfs, CloseSyncs: c.Durability == load.Full || c.Durability == load.Ordered, BudgetNS: int64(budget),
	})
	var results []load.Result
	if err == nil {
		results, err = runUntil(limited, clients)
	}
	if !clients.dismiss(err != nil) && c.daemon != nil {
		c.broken = errors.New("a client could not be killed; the connection was aborted")
		err = errors.Join(err, c.broken, c.daemon.abort())
		clients.dismiss(true)
	}
	if err != nil {
		if errors.Is(limited.Err(), context.DeadlineExceeded) {
			err = fmt.Errorf("not done within %v", deadline)
		}
		return figures.Missing(), err
	}
	return perOperation(results), nil
}

// runUntil stops to wait for answers when ctx ends: a client that sleeps in the
// kernel keeps its pipe open even when it has been killed.
func runUntil(ctx context.Context, clients crew) ([]load.Result, error) {
	type outcome struct {
		results []load.Result
		err     error
	}
	done := make(chan outcome, 1)
	go func() {
		results, err := clients.run()
		done <- outcome{results, err}
	}()
	select {
	case o := <-done:
		return o.results, o.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// perOperation is the elapsed time from the first start to the last end over
// all operations; or the median that a client measured by itself.
func perOperation(results []load.Result) float64 {
	start, end, ops := results[0].Start, results[0].End, 0
	for _, r := range results {
		if r.Sample > 0 {
			return r.Sample
		}
		start, end, ops = min(start, r.Start), max(end, r.End), ops+r.Ops
	}
	return float64(end-start) / float64(ops)
}

// settle writes out what earlier measurements left dirty, so that no column
// pays for another's pages. It touches the plain filesystem only.
func (s *site) settle() error {
	fd, err := unix.Open(s.Dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return load.At("open", s.Dir, err)
	}
	defer unix.Close(fd)
	return load.At("syncfs", s.Dir, unix.Syncfs(fd))
}
