package main

import (
	"github.com/spf13/cobra"
)

func newAcquireCommand(sys system) *cobra.Command {
	var f lockFlags
	var holder holderFlag
	cmd := &cobra.Command{
		Use:   "acquire [FILE...]",
		Short: "Take locks for the calling process",
		Long: `Take locks on FILEs, on --tree directories and on --name names: all of them or
none. The files need not exist. Prints the id of the lock.

The lock belongs to the process that called latchfs, and to what that process
starts from then on. It ends with 'latchfs release', or with that process. In a
command substitution or a pipeline the caller is a subshell that is soon gone:
use --for $$ there.

If the lock is not acquired in time, the exit code is 8, and the message says who
holds it. With --json the answer is one JSON object.`,
		Example: `  latchfs acquire todo.json archive.json
  latchfs acquire --wait 5s --operation nightly-import --tree memory
  id=$(latchfs acquire --for $$ --name deploy-prod) || exit`,
		RunE: func(cmd *cobra.Command, files []string) error {
			req, err := f.request(cmd)
			if err != nil {
				return err
			}
			if req.Holder, err = holder.holder(); err != nil {
				return err
			}
			c, err := f.begin(sys, req, files)
			if err != nil {
				return err
			}
			defer c.end()
			a, err := c.ask(req)
			if err != nil {
				return err
			}
			if !a.OK {
				return refused(cmd, a.Refusal, f.asJSON)
			}
			err = a.print(cmd, f.asJSON, a.Lock+"\n")
			if err != nil { // the caller takes the exit code for "not acquired"
				c.giveBack(cmd, a.Lock, req.Holder)
			}
			return err
		},
	}
	f.register(cmd)
	holder.register(cmd, "the lock belongs to this process, an ancestor of latchfs (default: the one that called latchfs)")
	registerJSON(cmd, &f.asJSON, "print the answer as a JSON object")
	return cmd
}
