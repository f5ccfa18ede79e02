package main

import (
	"github.com/spf13/cobra"

	"latchfs/fs/control"
)

func newLabelCommand(sys system) *cobra.Command {
	var s selectors
	var holder holderFlag
	cmd := &cobra.Command{
		Use:   "label NAME",
		Short: "Give a running script a label",
		Long: `Give the process that called latchfs a label, as LATCHFS_ACTOR gives one to what is
started with it. From then on what the process does, and what the processes below it
do, is shown under NAME in status, events and history, and 'latchfs undo --actor NAME'
finds it. A process below that was started with a LATCHFS_ACTOR of its own keeps that.

The label is at most 256 bytes long. It ends with the process; a second call replaces
it. The process must be the caller of latchfs or above it, and of the same user; what
programs of other users do below it is shown under the label only if root has given
it.`,
		Example: `  latchfs label agent-7
  latchfs label --for $$ nightly-import`,
		Args: exactly(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			pid, err := holder.holder()
			if err != nil {
				return err
			}
			a, err := s.ask(sys, &control.Request{Op: control.Label, Actor: args[0], Holder: pid}, nil)
			if err != nil {
				return err
			}
			if !a.OK {
				return refused(cmd, a.Refusal, s.asJSON)
			}
			return a.print(cmd, s.asJSON, "")
		},
	}
	s.registerMount(cmd)
	holder.register(cmd, "the process that gets the label, an ancestor of latchfs (default: the one that called latchfs)")
	registerJSON(cmd, &s.asJSON, "print the answer as a JSON object")
	return cmd
}
