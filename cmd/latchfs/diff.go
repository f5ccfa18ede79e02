package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"latchfs/fs/printable"
)

func newDiffCommand(sys system) *cobra.Command {
	var f viewFlags
	cmd := &cobra.Command{
		Use:   "diff FILE [VERSION [VERSION]]",
		Short: "Show what has changed between versions of a file",
		Long: `Show the difference between two versions of FILE as diff -u does: between VERSION
and the file as it is now, or two of them. Without any, between the latest earlier
version that is kept and the file as it is now.

The exit code is 0 if they are the same, and 1 if not; it is 1, too, when that could
not be found out; then standard error says why.`,
		Args: between(1, 3),
		RunE: func(cmd *cobra.Command, args []string) error {
			v, p, err := f.about(cmd, sys, args[0])
			if err != nil {
				return err
			}
			states, err := v.history(p)
			if err != nil {
				return err
			}
			from, to, err := v.sides(states, args[1:])
			if err != nil {
				return err
			}
			return diffFiles(cmd, from, to)
		},
	}
	f.register(cmd)
	return cmd
}

// sides are the two files that versions of a file, none, one or two, are compared
// in.
func (v *view) sides(states []*fileVersion, numbers []string) (from, to side, err error) {
	p := states[0].real()
	to = side{v.file(p), p}
	if len(numbers) == 0 {
		for i := len(states) - 1; i >= 0; i-- {
			if states[i].isKept() {
				from, err = v.side(states[i])
				return from, to, err
			}
		}
		return from, to, fmt.Errorf("no earlier version of %s is kept", printable.Line(p))
	}
	for i, end := range []*side{&from, &to}[:len(numbers)] {
		s, err := numbered(states, numbers[i])
		if err != nil {
			return from, to, err
		}
		if *end, err = v.side(s); err != nil {
			return from, to, err
		}
	}
	return from, to, nil
}

func (v *view) side(s *fileVersion) (side, error) {
	name, err := v.content(s, nil)
	return side{name, fmt.Sprintf("%s (version %d, %s)", s.real(), s.Version, s.when())}, err
}

// side is one of the two files of a comparison, and how it is called.
type side struct{ file, label string }

// diffFiles prints what diff(1) says of two files, which every system has. A file
// that is not there is an empty one. That they differ is the exit code 1. What is no file
// is not compared: diff would look behind a link, and into a directory.
func diffFiles(cmd *cobra.Command, from, to side) error {
	args := []string{"-u"}
	for _, s := range []*side{&from, &to} {
		var st unix.Stat_t
		switch err := unix.Lstat(s.file, &st); {
		case err == unix.ENOENT:
			s.file, s.label = os.DevNull, os.DevNull
		case err == nil && st.Mode&unix.S_IFMT != unix.S_IFREG && s.file != os.DevNull:
			return fmt.Errorf("%s is %s now, which is not compared", printable.Line(s.label), kindOf(st.Mode))
		}
		args = append(args, "-L", printable.Line(s.label))
	}
	diff := exec.Command("diff", append(args, "--", from.file, to.file)...)
	diff.Stdout, diff.Stderr = cmd.OutOrStdout(), cmd.ErrOrStderr()
	var shown *visible
	if isTerminal(cmd.OutOrStdout()) {
		shown = &visible{to: cmd.OutOrStdout()}
		diff.Stdout = shown
	}
	err := diff.Run()
	if shown != nil {
		err = errors.Join(err, shown.flush())
	}
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit) && exit.ExitCode() == 1:
		return exitError(exitFailure)
	case err != nil:
		return fmt.Errorf("diff: %w", err)
	}
	return nil
}
