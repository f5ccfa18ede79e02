package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"latchfs/integration/bench/internal/load"
)

func main() {
	if status, ok := load.Main(os.Args[1:]); ok {
		os.Exit(status)
	}
	// Daemons and clients are told when the thread that started them ends.
	runtime.LockOSThread()
	o, err := parseOptions(os.Args[1:])
	if errors.Is(err, flag.ErrHelp) {
		os.Exit(0)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(2)
	}
	if status, ok := runInside(); ok {
		os.Exit(status)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	if err := run(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// options of the command line.
type options struct {
	Rounds  int
	Budget  time.Duration
	Dir     string
	FS      string
	Latchfs string
	Old     string // another binary of latchfs, to compare with; empty: none
	Columns []string
	Works   []load.Work
	Keep    bool
	Locks   int    // instead of the works, so many held locks
	Curves  string // instead of the works, the directory for the drawings of the curves
	only    *regexp.Regexp
}

func parseOptions(args []string) (options, error) {
	var o options
	var quick bool
	var only, columns string
	f := flag.NewFlagSet("bench", flag.ContinueOnError)
	f.IntVar(&o.Rounds, "rounds", 7, "recorded rounds, after a short one that is not")
	f.DurationVar(&o.Budget, "budget", 150*time.Millisecond, "time of one measurement")
	f.BoolVar(&quick, "quick", false, "3 rounds of 30 ms: to see that everything works")
	f.StringVar(&o.Dir, "dir", "/var/tmp", "directory on the filesystem to measure on")
	f.StringVar(&o.FS, "fs", fsAuto, "filesystem: dir (as it is), ext4, xfs or btrfs (in an image), or auto")
	f.StringVar(&o.Latchfs, "latchfs", "", "binary to measure (default: built from ./cmd/latchfs)")
	f.StringVar(&o.Old, "old", "", "binary of latchfs to compare with, in a column of its own")
	f.StringVar(&only, "only", "", "regular expression: measure only the works whose name matches")
	f.StringVar(&columns, "columns", strings.Join(columnIDs(), ","), "columns to measure")
	f.IntVar(&o.Locks, "locks", 0, "hold so many locks, with a tenth as many requests waiting, and measure the table; 0: measure the works")
	f.StringVar(&o.Curves, "curves", "", "measure how the costs grow, and draw that into this `directory`; -only chooses curves")
	f.BoolVar(&o.Keep, "keep", false, "leave the files (not the mounts) behind")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	if quick {
		o.Rounds, o.Budget = 3, 30*time.Millisecond
	}
	if o.Rounds < 1 || f.NArg() > 0 {
		return o, fmt.Errorf("want at least one round and no arguments")
	}
	for id := range strings.SplitSeq(columns, ",") {
		if !slices.Contains(columnIDs(), id) {
			return o, fmt.Errorf("no column is called %q; there are %s", id, strings.Join(columnIDs(), ", "))
		}
		o.Columns = append(o.Columns, id)
	}
	if o.Old != "" {
		o.Columns = append(o.Columns, oldColumn)
	}
	pattern, err := regexp.Compile(only)
	if err != nil {
		return o, err
	}
	o.only = pattern
	for _, w := range load.Works() {
		if pattern.MatchString(w.ID) {
			o.Works = append(o.Works, w)
		}
	}
	if len(o.Works) == 0 && o.Curves == "" {
		return o, fmt.Errorf("no work matches %q", only)
	}
	return o, nil
}

// run prepares, measures, takes the mounts away whatever happened, and prints
// what was measured.
func run(ctx context.Context, o options) (err error) {
	logf := func(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }
	s, err := newSite(ctx, o)
	if err != nil {
		return err
	}
	var columns []*column
	defer func() {
		err = errors.Join(err, s.leave(columns, o.Keep))
	}()
	if o.Locks > 0 {
		columns = []*column{newColumn(latchfsColumn)}
		return s.measureLocks(ctx, columns[0], o.Locks, logf)
	}
	if o.Curves != "" {
		o.Columns = slices.DeleteFunc(o.Columns, func(id string) bool { return colours[id] == "" })
	}
	columns, err = s.openColumns(ctx, o.Columns, logf)
	if err != nil {
		return err
	}
	if o.Curves != "" {
		return s.drawCurves(ctx, o, columns, logf)
	}
	started, before := time.Now(), loadAverage()
	facts := machineFacts(s.Dir)
	t := plan{Works: o.Works, Rounds: o.Rounds, Budget: o.Budget, Deadline: clientDeadline, Logf: logf}.run(ctx, s, columns)
	facts = append(facts,
		fact{"run", fmt.Sprintf("%d rounds, %v for a measurement, %v in all, on %s", o.Rounds, o.Budget,
			time.Since(started).Round(time.Second), started.Format(time.DateOnly))},
		fact{"load average", before + " before, " + loadAverage() + " after"})
	err = report{Facts: facts, Works: o.Works, Columns: columns, Table: t}.write(os.Stdout)
	if ctx.Err() != nil {
		err = errors.Join(err, errors.New("interrupted: the report is incomplete"))
	}
	return err
}
