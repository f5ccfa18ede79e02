package main

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"latchfs/fs/printable"
)

// Exit codes of every subcommand.
const (
	exitOK          = 0
	exitFailure     = 1
	exitUsage       = 2
	exitNotAcquired = 8
)

// usageError is a mistake in how the program was called, as opposed to a
// failure in what it was asked to do.
type usageError struct{ err error }

func (e *usageError) Error() string { return e.err.Error() }
func (e *usageError) Unwrap() error { return e.err }

// usagef makes a usageError.
func usagef(format string, args ...any) error {
	return &usageError{fmt.Errorf(format, args...)}
}

// exitError carries the exit code of a process that has already said why.
type exitError int

func (e exitError) Error() string { return fmt.Sprintf("exit status %d", int(e)) }

// run is the program: argv is as in main, the result is the exit code.
func run(argv []string, stdout, stderr io.Writer) int {
	if call, ok := asHelper(argv); ok {
		return runHelper(call, stdout, stderr)
	}
	return execute(argv[1:], stdout, stderr)
}

// execute runs one subcommand.
func execute(args []string, stdout, stderr io.Writer) int {
	return executeOn(machine(), args, stdout, stderr)
}

// executeOn is execute on a given system.
func executeOn(sys system, args []string, stdout, stderr io.Writer) int {
	root := newRoot(sys, args)
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)

	// Cobra reports unknown commands, flags and arguments before it runs
	// anything; what comes after is the command's own error.
	started := false
	root.PersistentPreRunE = func(cmd *cobra.Command, args []string) error {
		started = true
		if slices.Contains(ownArgs(cmd, args), "") { // as of an unset variable; for a path it would be "."
			return usagef("an argument is empty")
		}
		return nil
	}

	cmd, err := root.ExecuteC()
	if err == nil {
		return exitOK
	}
	var exit exitError
	if errors.As(err, &exit) {
		return int(exit)
	}
	fmt.Fprintf(stderr, "%s: %s\n", calledAs(cmd), printable.Text(err.Error()))
	if more := sys.explained(err); more != "" {
		fmt.Fprintln(stderr, more)
	}
	var usage *usageError
	if !started || errors.As(err, &usage) {
		fmt.Fprintf(stderr, "Try '%s --help'.\n", calledAs(cmd))
		return exitUsage
	}
	return exitFailure
}

// exactly wants n arguments, those of the command's usage line.
func exactly(n int) cobra.PositionalArgs { return between(n, n) }

// between wants at least and at most so many arguments, those of the command's usage line.
func between(least, most int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		want := strings.TrimPrefix(cmd.Use, cmd.Name()+" ")
		switch n := len(args); {
		case least <= n && n <= most:
			return nil
		case n == 0:
			return usagef("want %s", want)
		case n == 1:
			return usagef("want %s, and there is one argument", want)
		default:
			return usagef("want %s, and there are %d arguments", want, n)
		}
	}
}

// ownArgs are the arguments that are the command's own. Those of a command that
// it runs, and those of the shell's question how a line could go on, may be empty.
func ownArgs(cmd *cobra.Command, args []string) []string {
	if cmd.Name() == cobra.ShellCompRequestCmd {
		return nil
	}
	if _, ok := cmd.Annotations[ownsRest]; ok && cmd.ArgsLenAtDash() >= 0 {
		return args[:cmd.ArgsLenAtDash()]
	}
	return args
}

// newRoot builds the tree of commands for one command line.
func newRoot(sys system, args []string) *cobra.Command {
	root := &cobra.Command{
		Use:   "latchfs",
		Short: "A filesystem on which every program writes safely",
		Long: `latchfs mounts a directory so that every program that works in it writes
safely, without knowing: one writer at a time, readers see the old version or
the new one and never half of it, and the close that ends a write is its commit.`,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return cmd.Help()
		},
	}
	root.AddCommand(
		newMountCommand(args),
		newUmountCommand(),
		newStatusCommand(),
		newListCommand(sys),
		newCheckCommand(sys),
		newAcquireCommand(sys),
		newReleaseCommand(sys),
		newGuardCommand(sys),
		newStealCommand(sys),
		newLabelCommand(sys),
		newFsckCommand(),
		newAuditCommand(sys),
		newHistoryCommand(sys),
		newDiffCommand(sys),
		newRestoreCommand(sys),
		newUndoCommand(sys),
		newRejectedCommand(sys),
		newForgetCommand(sys),
		newPolicyCommand(sys),
		newVersionCommand(),
		newProbeCommand(),
		newEndCommand(),
	)
	root.Version = versionLine()
	root.SetVersionTemplate("{{.Version}}\n")
	root.Flags().Bool("version", false, "print the version") // without a letter of its own
	refuseUnknownTopics(root)
	return root
}

// refuseUnknownTopics makes help on what is no command a mistake: cobra prints the help of
// the program, and calls it a success.
func refuseUnknownTopics(root *cobra.Command) {
	root.InitDefaultHelpCmd()
	for _, c := range root.Commands() {
		help := c.Run
		if c.Name() != "help" || help == nil {
			continue
		}
		c.Run = nil
		c.RunE = func(c *cobra.Command, args []string) error {
			if _, rest, err := c.Root().Find(args); err != nil || len(rest) > 0 {
				return usagef("there is no command %q", strings.Join(args, " "))
			}
			help(c, args)
			return nil
		}
	}
}

// calledAs is the command as the user has called it, which may have been by another name.
func calledAs(cmd *cobra.Command) string {
	if name := cmd.CalledAs(); name != "" && cmd.HasParent() {
		return cmd.Parent().CommandPath() + " " + name
	}
	return cmd.CommandPath()
}
