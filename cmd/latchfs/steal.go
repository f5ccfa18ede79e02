package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"latchfs/fs/control"
	"latchfs/fs/printable"
)

// breakAlias is another name of `latchfs steal --force` (SEED W9).
const breakAlias = "break"

// stealFlags are the flags of `latchfs steal`.
type stealFlags struct {
	selectors
	force bool
}

func newStealCommand(sys system) *cobra.Command {
	var f stealFlags
	cmd := &cobra.Command{
		Use:     "steal [FILE...]",
		Aliases: []string{breakAlias},
		Short:   "End locks whose lease has expired",
		Long: `End the locks on FILEs, --tree directories and --name names whose holders have
shown no sign of life for longer than their lease. What such a holder writes later
is refused and kept aside.

Without --force nothing is ended: the message says who would lose what, and the
exit code is 8. An active lock is not stolen: the exit code is 8, too. The owner of
all FILEs, and root, can end the active locks of other users on them, though, and
the requests of other users that wait for them.

'latchfs break' is the same as 'latchfs steal --force'.`,
		Example: `  latchfs steal todo.json           # who is it?
  latchfs steal --force todo.json`,
		RunE: func(cmd *cobra.Command, files []string) error {
			if f.force || cmd.CalledAs() == breakAlias {
				return f.steal(cmd, sys, files)
			}
			return f.rehearse(cmd, sys, files)
		},
	}
	f.register(cmd)
	cmd.Flags().BoolVar(&f.force, "force", false, "do it")
	registerJSON(cmd, &f.asJSON, "print the answer as a JSON object, without --force one for each lock in the way")
	return cmd
}

// steal is `latchfs steal --force`.
func (f *stealFlags) steal(cmd *cobra.Command, sys system, files []string) error {
	a, err := f.ask(sys, &control.Request{Op: control.Steal, Force: true}, files)
	switch {
	case err != nil:
		return err
	case !a.OK:
		err := refused(cmd, a.Refusal, f.asJSON)
		if h := a.HeldBy; h != nil {
			fmt.Fprintf(cmd.ErrOrStderr(), "Held since %s; %s\n", localTime(h.CreatedAt), leaseEnd(h, a.TTLSeconds))
		}
		return err
	case a.Stolen == 0 && a.Warning == "":
		warn(cmd, "nothing was locked")
	}
	text := ""
	switch a.Stolen {
	case 0:
	case 1:
		text = "1 lock ended\n"
	default:
		text = fmt.Sprintf("%d locks ended\n", a.Stolen)
	}
	return a.print(cmd, f.asJSON, text)
}

// rehearse is `latchfs steal` without --force: it asks, and changes nothing
// (SEED T7, T8).
func (f *stealFlags) rehearse(cmd *cobra.Command, sys system, files []string) error {
	a, records, err := f.check(sys, files)
	if err != nil {
		return err
	}
	if !a.OK {
		return refused(cmd, a.Refusal, f.asJSON)
	}
	code := exitOK
	for i, name := range f.labels(files) {
		if !*records[i].Locked {
			warn(cmd, "%s: not locked", name)
			continue
		}
		code = exitNotAcquired
		r := records[i].refusal(name, time.Now())
		fmt.Fprintln(cmd.ErrOrStderr(), printable.Text(said(r)))
		if f.asJSON {
			if err := printJSON(cmd.OutOrStdout(), r); err != nil {
				return err
			}
		}
	}
	if code == exitOK {
		return nil
	}
	return exitError(code)
}
