package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"latchfs/fs/control"
)

// releaseFlags are the flags of `latchfs release`.
type releaseFlags struct {
	selectors
	holder holderFlag
	lock   string
	all    bool
}

func newReleaseCommand(sys system) *cobra.Command {
	var f releaseFlags
	cmd := &cobra.Command{
		Use:   "release [FILE...]",
		Short: "Give locks back",
		Long: `Give back the locks on FILEs, --tree directories and --name names that 'latchfs
acquire' took for the calling process, or one lock by its id, or all of them.

What is not held is no failure: a warning says so. A lock of somebody else is not
released, and the exit code is 1.`,
		Example: `  latchfs release todo.json archive.json
  latchfs release --lock "$id"
  trap 'latchfs release --all --for $$ --mount /srv/data' EXIT`,
		RunE: func(cmd *cobra.Command, files []string) error {
			return f.run(cmd, sys, files)
		},
	}
	f.register(cmd)
	cmd.Flags().StringVar(&f.lock, "lock", "", "the lock with this `ID`, which acquire printed")
	cmd.Flags().BoolVar(&f.all, "all", false, "everything that the process holds")
	f.holder.register(cmd, "what belongs to this process (default: the one that called latchfs)")
	registerJSON(cmd, &f.asJSON, "print the answer as a JSON object")
	return cmd
}

// run is `latchfs release`.
func (f *releaseFlags) run(cmd *cobra.Command, sys system, files []string) error {
	ways := 0
	for _, given := range []bool{len(files)+len(f.trees)+len(f.names) > 0, cmd.Flags().Changed("lock"), f.all} {
		if given {
			ways++
		}
	}
	switch {
	case ways != 1:
		return usagef("want FILEs, --tree or --name, or else --lock ID, or else --all")
	case cmd.Flags().Changed("lock") && f.lock == "":
		return usagef("--lock: the id is empty")
	}
	holder, err := f.holder.holder()
	if err != nil {
		return err
	}
	a, err := f.ask(sys, &control.Request{Op: control.Release, Lock: f.lock, All: f.all, Holder: holder}, files)
	if errors.Is(err, os.ErrNotExist) && len(files)+len(f.trees) > 0 {
		return fmt.Errorf("%w. Where a directory was renamed, its locks have the new path: see 'latchfs list --mine'", err)
	}
	if err != nil {
		return err
	}
	if !a.OK {
		return refused(cmd, a.Refusal, f.asJSON)
	}
	return a.print(cmd, f.asJSON, "")
}
