package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"latchfs/fs/printable"
)

// opAppend is the operation of bytes that were meant for the end of a file.
const opAppend = "append"

type rejectedRestoreFlags struct {
	viewFlags
	to    string
	force bool
}

func newRejectedRestoreCommand(sys system) *cobra.Command {
	var f rejectedRestoreFlags
	cmd := &cobra.Command{
		Use:   "restore ID",
		Short: "Write the bytes of a refused write to their file after all",
		Long: `Write the bytes of a refused write to the file that they were meant for, or to
--to FILE, as any other program would: the file is locked, and the close is the
commit, which may be refused again. Bytes that were meant for the end of a file are
appended. The entry stays. Missing directories are made as they were when they were
removed, or for their owner alone.

Where the file is no longer as the refused writer found it, somebody else's change
would be lost: nothing is written without --force, nor where bytes are missing of what
was kept. Nor is a FILE of --to replaced.
latchfs rejected show --diff ID says what would change.`,
		Args:              exactly(1),
		ValidArgsFunction: f.completeIDs(sys),
		RunE: func(cmd *cobra.Command, args []string) error {
			if cmd.Flags().Changed("to") && f.to == "" {
				return usagef("--to: the name of the file is empty")
			}
			v, err := f.here(sys)
			if err != nil {
				return err
			}
			r, err := v.findRejection(args[0])
			if err != nil {
				return err
			}
			return f.restore(cmd, sys, v, r)
		},
	}
	f.register(cmd)
	cmd.Flags().StringVar(&f.to, "to", "", "write to `FILE` instead, which may be anywhere")
	cmd.Flags().BoolVar(&f.force, "force", false, "replace what has changed since, or the FILE of --to")
	_ = cmd.MarkFlagFilename("to") // fails for a flag that is not there
	return cmd
}

func (f *rejectedRestoreFlags) restore(cmd *cobra.Command, sys system, v *view, r *rejection) error {
	file, err := os.Open(v.rejected(r.ID, "content"))
	if err != nil {
		return err
	}
	defer file.Close()
	if r.isCut() && !f.force {
		return fmt.Errorf("%s is damaged: %s; --force writes them", r.ID, r.cut())
	}
	sys.callOurselves("latchfs-restore")
	name := f.to
	if f.to != "" {
		err = f.copyTo(file)
	} else if name, err = r.target(); err != nil {
		return fmt.Errorf("%w: say where to with --to FILE", err)
	} else {
		err = f.putBack(cmd, v, r, name, file)
	}
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s restored from %s, %s\n", printable.Line(name), r.ID, countBytes(r.size))
	return err
}

// copyTo writes to another file, through the name as it was given.
func (f *rejectedRestoreFlags) copyTo(file *os.File) error {
	c := content{file: file}
	if err := c.readable(); err != nil {
		return err
	}
	how := os.O_TRUNC
	if !f.force {
		how = os.O_EXCL
	}
	out, err := os.OpenFile(f.to, os.O_WRONLY|os.O_CREATE|how, 0o666)
	if errors.Is(err, os.ErrExist) {
		return fmt.Errorf("%w: --force replaces it", err)
	}
	if err != nil {
		return err
	}
	return c.writeTo(out)
}

// putBack writes to the path p that the bytes were meant for.
func (f *rejectedRestoreFlags) putBack(cmd *cobra.Command, v *view, r *rejection, p string, file *os.File) error {
	c := &content{file: file, since: r.Time}
	defer c.tellClosed(cmd)
	if r.Operation == opAppend {
		return explained(v, v.put(p, c, appending))
	}
	now, err := os.Lstat(v.file(p))
	switch {
	case errors.Is(err, os.ErrNotExist):
		now = nil
		r.giveTo(c)
	case err != nil:
		return err
	}
	if !f.force {
		if why := r.changed(now); why != "" {
			return fmt.Errorf("%s %s: it would be lost\nlatchfs rejected show --diff %s says what would change, and --force does it",
				printable.Line(p), why, r.ID)
		}
	}
	return explained(v, v.put(p, c, replacing))
}

// giveTo gives a file that is made anew the mode and owner that it was to have.
func (r *rejection) giveTo(c *content) {
	mode, err := strconv.ParseUint(r.File.Mode, 8, 12)
	if err != nil {
		return // kept without meta.json
	}
	m := uint32(mode) & 0o777
	if r.ACL {
		m &^= 0o070 // the restored file has no ACL, and what that gave the group is not known
	}
	c.mode, c.uid, c.gid = &m, &r.File.UID, &r.File.GID
}

// changed says what has become of the file since the refused writer opened it; ""
// if nothing.
func (r *rejection) changed(now os.FileInfo) string {
	var base *struct {
		Size  int64     `json:"size"`
		Mtime time.Time `json:"mtime"`
	}
	known := r.Base != nil && json.Unmarshal(r.Base, &base) == nil
	switch {
	case now == nil && base == nil:
		return ""
	case now == nil:
		return "was removed"
	case known && base == nil:
		return "was made by somebody else"
	case known && (base.Size != now.Size() || !base.Mtime.Equal(now.ModTime())):
		return "has changed since the refused writer opened it"
	case !known && now.ModTime().After(r.Time):
		return "has changed since"
	}
	return ""
}

// explained says where more is to be found about a refused write.
func explained(v *view, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w\nif latchfs has refused it, %s/why says why", err, v.locks)
}
