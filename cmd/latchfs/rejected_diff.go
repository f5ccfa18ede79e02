package main

import (
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"latchfs/fs/printable"
)

func newRejectedDiffCommand(sys system) *cobra.Command {
	var f viewFlags
	var base bool
	cmd := &cobra.Command{
		Use:   "diff ID",
		Short: "Show what a refused write would change",
		Long: `Show the difference between the file as it is now and the bytes of a refused write,
as diff -u does. With --base it is the difference from the version that its writer had
read, where the change could not be merged and the history still has that version: what
the writer meant to change. ID may be shortened to a beginning or an end that no other
entry has.

The exit code is 0 if they are the same, and 1 if not; it is 1, too, when that could
not be found out; then standard error says why.`,
		Args:              exactly(1),
		ValidArgsFunction: f.completeIDs(sys),
		RunE: func(cmd *cobra.Command, args []string) error {
			v, err := f.here(sys)
			if err != nil {
				return err
			}
			r, err := v.findRejection(args[0])
			switch {
			case err != nil:
				return err
			case base:
				return v.diffFromBase(cmd, r)
			}
			return v.diffRejection(cmd, r)
		},
	}
	f.register(cmd)
	cmd.Flags().BoolVar(&base, "base", false, "compare with the version that the writer had read")
	return cmd
}

// diffFromBase shows what the refused writer has changed.
func (v *view) diffFromBase(cmd *cobra.Command, r *rejection) error {
	p, err := r.target()
	if err != nil {
		return err
	}
	if r.Merge == nil || r.Merge.Base == 0 {
		return fmt.Errorf("%s: it is not known which version of %s it was made from", printable.Line(r.ID), printable.Line(p))
	}
	states, err := v.history(p)
	if err != nil {
		return err
	}
	s, err := numbered(states, strconv.FormatUint(r.Merge.Base, 10))
	if err != nil {
		return err
	}
	from, err := v.side(s)
	if err != nil {
		return err
	}
	return diffFiles(cmd, from, side{v.rejected(r.ID, "content"), p + " (refused " + r.Time.Local().Format(time.DateTime) + ")"})
}
