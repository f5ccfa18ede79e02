package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"latchfs/integration/bench/internal/figures"
	"latchfs/integration/bench/internal/load"
)

// curveDeadline bounds the preparation of a point and its measurement.
const curveDeadline = 5 * time.Minute

// drawn is a curve that was measured.
type drawn struct {
	load.Curve
	Columns []*column
	Median  map[string][]float64 // by column, in the order of the points; NaN: not measured
}

// drawCurves measures every curve, and writes a drawing of each and a page with the
// figures into a directory.
func (s *site) drawCurves(ctx context.Context, o options, columns []*column, logf func(string, ...any)) error {
	if err := os.MkdirAll(o.Curves, 0o755); err != nil {
		return err
	}
	facts := machineFacts(s.Dir)
	before, started := loadAverage(), time.Now()
	var all []drawn
	for _, c := range load.Curves() {
		if ctx.Err() != nil || !o.only.MatchString(c.ID) {
			continue
		}
		d, err := s.drawCurve(ctx, c, o, columns, logf)
		if err != nil {
			return err
		}
		logf("%s: done after %v", c.ID, time.Since(started).Round(time.Second))
		if err := os.WriteFile(filepath.Join(o.Curves, c.ID+".svg"), d.svg(), 0o644); err != nil {
			return err
		}
		all = append(all, d)
	}
	facts = append(facts,
		fact{"run", fmt.Sprintf("median of %d rounds, %v for a measurement, %v in all, on %s", o.Rounds, o.Budget,
			time.Since(started).Round(time.Second), started.Format(time.DateOnly))},
		fact{"load average", before + " before, " + loadAverage() + " after"})
	page, err := os.Create(filepath.Join(o.Curves, "README.md"))
	if err != nil {
		return err
	}
	err = errors.Join(writeCurves(page, facts, columns, all), page.Close())
	if ctx.Err() != nil {
		err = errors.Join(err, errors.New("interrupted: the curves are incomplete"))
	}
	return err
}

// drawCurve measures point by point, and at each point round by round.
func (s *site) drawCurve(ctx context.Context, c load.Curve, o options, columns []*column, logf func(string, ...any)) (d drawn, err error) {
	d = drawn{Curve: c, Columns: columns, Median: map[string][]float64{}}
	if c.Alone {
		own := newColumn(latchfsColumn)
		own.data = filepath.Join(s.Dir, "curve-"+c.ID, "data")
		if err := load.MakeFixtures(own.data); err != nil {
			return d, err
		}
		defer func() { err = errors.Join(err, own.close()) }()
		d.Columns = []*column{own}
	}
	for _, x := range c.Points {
		if c.Config != nil {
			if err := s.remount(ctx, d.Columns[0], c, x); err != nil {
				return d, err
			}
		}
		w := c.Work(x)
		t := plan{Works: []load.Work{w}, Rounds: o.Rounds, Budget: o.Budget, Deadline: curveDeadline, Points: true, Logf: logf}.run(ctx, s, d.Columns)
		for _, col := range d.Columns {
			d.Median[col.ID] = append(d.Median[col.ID], figures.Median(t.cell(w, col, o.Rounds).Rounds))
		}
	}
	return d, nil
}

// remount mounts a column with the policy of a point.
func (s *site) remount(ctx context.Context, own *column, c load.Curve, x int64) error {
	if err := own.close(); err != nil {
		return err
	}
	base := filepath.Dir(own.data)
	config, mountpoint := filepath.Join(base, "policy.toml"), filepath.Join(base, "mnt")
	if err := errors.Join(os.WriteFile(config, []byte(c.Config(x)), 0o644), os.MkdirAll(mountpoint, 0o755)); err != nil {
		return err
	}
	binary, err := s.buildLatchfs(ctx)
	if err != nil {
		return err
	}
	own.root = mountpoint
	own.daemon, err = startDaemon(ctx, []string{binary, "mount", "--foreground", "--config", config, own.data, mountpoint}, mountpoint, filepath.Join(base, "log"))
	return err
}
