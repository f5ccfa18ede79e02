package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"

	"github.com/spf13/cobra"

	"latchfs/fs/locksdir"
)

// side is one of the two files of a comparison, and how it is called.
type side struct{ file, label string }

// diffFiles prints what diff(1) says of two files, which every system has. A file
// that is not there is an empty one. That they differ is the exit code 1.
func diffFiles(cmd *cobra.Command, from, to side) error {
	args := []string{"-u"}
	for _, s := range []*side{&from, &to} {
		if _, err := os.Lstat(s.file); errors.Is(err, os.ErrNotExist) {
			s.file, s.label = os.DevNull, os.DevNull
		}
		args = append(args, "-L", locksdir.Display(s.label))
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
