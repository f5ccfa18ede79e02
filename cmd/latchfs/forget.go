package main

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"latchfs/fs/control"
	"latchfs/fs/printable"
)

// forgetFlags are the flags of `latchfs forget`.
type forgetFlags struct {
	locksDir string
	version  versionFlag
	asJSON   bool
}

func newForgetCommand(sys system) *cobra.Command {
	var f forgetFlags
	cmd := &cobra.Command{
		Use:   "forget FILE",
		Short: "Erase what is kept of a file: earlier versions and refused bytes",
		Long: `Erase what latchfs keeps of FILE for good: the contents of its earlier versions and
the bytes of writes that were refused, or the content of one version. FILE itself stays
as it is, and may be gone already. It is the name that counts, as for rm: of a symbolic
link nothing is erased that is kept of the file that it leads to. That there were
versions, when and by whom, history and audit still tell.

What of it is kept under other names, as of a file with several (hard links), is not
erased: a warning says so, and so it does of files below a directory of that name. Where
nothing was erased then, and where there is no such version, the exit code is 1. What the
file holds now is no earlier version.

What is kept is erased for whoever owns it, which is the user who owned the file at the
time, and for root. A program that is reading a version may read it to its end, and what
the disk itself keeps of removed files is not overwritten.`,
		Example: `  latchfs forget passwords.txt
  latchfs forget --version 3 todo.json`,
		Args: exactly(1),
		RunE: func(cmd *cobra.Command, files []string) error { return f.run(cmd, sys, files[0]) },
	}
	fl := cmd.Flags()
	fl.SortFlags = false
	fl.Var(&f.version, "version", "only the content of version `N`")
	registerLocksDir(cmd, &f.locksDir)
	registerJSON(cmd, &f.asJSON, "print the answer as a JSON object")
	return cmd
}

func (f *forgetFlags) run(cmd *cobra.Command, sys system, file string) error {
	p, err := sys.locateName(file)
	if err != nil {
		return linkExplained(file, err)
	}
	c, err := converse(sys, p.mount, f.locksDir)
	if err != nil {
		return err
	}
	defer c.end()
	a, err := c.ask(&control.Request{Op: control.Forget, Paths: []string{p.path}, Version: uint64(f.version)})
	switch {
	case err != nil:
		return err
	case !a.OK:
		return refused(cmd, a.Refusal, f.asJSON)
	case f.asJSON:
		_, err = cmd.OutOrStdout().Write(printable.JSON(a.line))
		return err
	}
	if a.Warning != "" {
		warn(cmd, "%s: %s", file, a.Warning)
	}
	if a.Versions+a.Rejected == 0 {
		return nil
	}
	_, err = fmt.Fprintf(cmd.OutOrStdout(), "erased of %s: %s and %s, %s\n", printable.Line(p.path),
		amount(int64(a.Versions), "version"), amount(int64(a.Rejected), "refused write"), amount(a.Bytes, "byte"))
	return err
}

// versionFlag is the number of a version; 0: none was given.
type versionFlag uint64

// String shows no default: there is none.
func (v *versionFlag) String() string {
	if *v == 0 {
		return ""
	}
	return strconv.FormatUint(uint64(*v), 10)
}

// Type is the name of the value in the help.
func (v *versionFlag) Type() string { return "N" }

// Set reads the flag's value.
func (v *versionFlag) Set(s string) error {
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil || n == 0 {
		return errors.New("want the number of a version, from 1")
	}
	*v = versionFlag(n)
	return nil
}
