package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/moby/sys/mountinfo"
	"github.com/spf13/cobra"
)

func newStatusCommand() *cobra.Command {
	var asJSON bool
	var locksDir string
	cmd := &cobra.Command{
		Use:   "status [PATH]",
		Short: "Show what is held and who waits",
		Long: `Show the locks of the mount that PATH is in, or of every latchfs mount that you may
enter: what is held, by whom, since when, and who waits for it. The same text is the
file .locks/status in the mount.`,
		Args: between(0, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			mounts, err := statusMounts(args)
			if err != nil {
				return err
			}
			name := "status"
			if asJSON {
				name = "status.json"
			}
			return printStatus(cmd.OutOrStdout(), mounts, filepath.Join(locksDir, name), len(args) == 0)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON document for each mount")
	cmd.Flags().StringVar(&locksDir, "locks-dir", ".locks", "`NAME` of the virtual directory, if mount was given another")
	return cmd
}

// statusMounts are the mounts that `latchfs status` is about.
func statusMounts(args []string) ([]*mountinfo.Info, error) {
	if len(args) == 1 {
		m, err := inTime(args[0], func() (*mountinfo.Info, error) { return mountAround(args[0]) })
		return []*mountinfo.Info{m}, err
	}
	mounts, err := latchfsMounts()
	if err == nil && len(mounts) == 0 {
		err = errNoMount
	}
	return mounts, err
}

// printStatus copies one file of .locks for each mount. A mount that does not
// answer is reported and does not keep us from the others; one that the user may
// not enter is left out if the mounts are all that there are.
func printStatus(w io.Writer, mounts []*mountinfo.Info, file string, all bool) error {
	var failed []error
	barred := 0
	for _, m := range mounts {
		text, err := inTime(m.Mountpoint, func() ([]byte, error) { return os.ReadFile(filepath.Join(m.Mountpoint, file)) })
		if all && isBarred(err) {
			barred++
			continue
		}
		if err != nil {
			failed = append(failed, err)
			continue
		}
		if len(mounts) > 1 && filepath.Ext(file) != ".json" {
			if _, err := fmt.Fprintf(w, "%s:\n", m.Mountpoint); err != nil {
				return err
			}
		}
		if filepath.Ext(file) == ".json" {
			text = ofMount(text, m)
		}
		if _, err := w.Write(text); err != nil {
			return err
		}
	}
	if barred == len(mounts) {
		return errNoMount
	}
	return errors.Join(failed...)
}
