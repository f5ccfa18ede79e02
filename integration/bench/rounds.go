package main

import (
	"context"
	"slices"
	"time"

	"latchfs/integration/bench/internal/figures"
	"latchfs/integration/bench/internal/load"
)

// plan is what to measure and how often.
type plan struct {
	Works  []load.Work
	Rounds int
	Budget time.Duration // of one measurement
	// Deadline is when a client is given up, its preparations included.
	Deadline time.Duration
	// Points: the works are the points of curves, which prepare for longer than they are
	// measured. There is no round that is not recorded, and nothing is said of each.
	Points bool
	Logf   func(format string, args ...any)
}

// cell is one work on one column.
type cell struct {
	Rounds []float64 // nanoseconds an operation; NaN: not measured in this round
	Err    error     // the first failure
	failed int       // number of failures
}

// table holds the cells by work and column.
type table map[string]map[string]*cell

// measured reports whether a work is done on a column at all. Where the others do the
// syncs that some durabilities promise, latchfs is measured with those.
func measured(w load.Work, c *column) bool {
	if c.ReadsOnly {
		return w.Reads
	}
	if len(w.Promises) > 0 {
		return !c.IsLatchfs || slices.Contains(w.Promises, c.Durability)
	}
	return !c.CommitsOnly || w.Commits && c.Durability != load.Lazy
}

// failuresAllowed is how often a cell may fail before it is given up.
const failuresAllowed = 2

// run measures everything, round by round. A first, short round is not
// recorded: it fills caches and wakes the daemons up. The table is valid, if
// incomplete, when ctx ends the run.
func (p plan) run(ctx context.Context, s *site, columns []*column) table {
	t := make(table)
	first := -1
	if p.Points {
		first = 0
	}
	for round := first; round < p.Rounds && ctx.Err() == nil; round++ {
		budget, started := p.Budget, time.Now()
		if round < 0 {
			budget /= 10
		}
		for _, w := range p.Works {
			for i := range columns {
				c := columns[(i+round+1)%len(columns)] // another begins each round
				if ctx.Err() == nil && measured(w, c) {
					p.measure(ctx, s, t.cell(w, c, p.Rounds), w, c, round, budget)
				}
			}
		}
		if !p.Points {
			p.Logf("round %d of %d took %v", round+1, p.Rounds, time.Since(started).Round(time.Millisecond))
		}
	}
	return t
}

// cell of a work and a column, made when it is not there yet.
func (t table) cell(w load.Work, c *column, rounds int) *cell {
	if t[w.ID] == nil {
		t[w.ID] = make(map[string]*cell)
	}
	if t[w.ID][c.ID] == nil {
		x := &cell{Rounds: make([]float64, rounds)}
		for i := range x.Rounds {
			x.Rounds[i] = figures.Missing()
		}
		t[w.ID][c.ID] = x
	}
	return t[w.ID][c.ID]
}

func (p plan) measure(ctx context.Context, s *site, x *cell, w load.Work, c *column, round int, budget time.Duration) {
	if c.failed() != nil || x.failed >= failuresAllowed {
		return
	}
	ns, err := s.measure(ctx, w, c, budget, p.Deadline)
	if err != nil && ctx.Err() == nil {
		x.failed++
		if x.Err == nil {
			x.Err = err
		}
		p.Logf("%s on %s: %v", w.ID, c.ID, err)
	}
	if round >= 0 {
		x.Rounds[round] = ns
	}
}
