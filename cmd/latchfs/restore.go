package main

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"syscall"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"latchfs/fs/printable"
)

func newRestoreCommand(sys system) *cobra.Command {
	var f viewFlags
	cmd := &cobra.Command{
		Use:   "restore FILE VERSION",
		Short: "Make an earlier version of a file the current one",
		Long: `Write an earlier version of FILE, which may be gone, along with its mode, as any
other program would: the file is locked, and the close is the commit of a new
version, so that a restore can be taken back like everything else. To restore the
current version changes nothing. Directories that are missing are made as they were when
they were removed, or for their owner alone if that is not known. Where FILE is a symbolic link or a directory now,
nothing is written: remove it or move it away first.`,
		Example: `  latchfs history todo.json
  latchfs diff todo.json 3
  latchfs restore todo.json 3`,
		Args: exactly(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			v, p, err := f.named(sys, args[0])
			if err != nil {
				return err
			}
			states, err := v.history(p)
			if err != nil {
				return err
			}
			s, err := numbered(states, args[1])
			if err != nil {
				return err
			}
			return restoreVersion(cmd, sys, v, s)
		},
	}
	f.register(cmd)
	return cmd
}

func restoreVersion(cmd *cobra.Command, sys system, v *view, s *fileVersion) error {
	p := s.real()
	switch {
	case s.Current:
		warn(cmd, "version %d is the current one of %s", s.Version, printable.Line(p))
		return nil
	case !s.isFile():
		return fmt.Errorf("version %d of %s is no file: it was %s", s.Version, printable.Line(p), s.what())
	}
	name, err := v.content(s, nil)
	if err != nil {
		return err
	}
	sys.callOurselves("latchfs-restore")
	if err := v.restore(cmd, s, name); err != nil {
		return err
	}
	_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s restored to version %d, %s\n", printable.Line(p), s.Version, countBytes(s.Bytes))
	return err
}

// restore writes the file name, which holds the content of a version, to the path of
// the version, with its mode. If that is made anew it gets the owner, too.
func (v *view) restore(cmd *cobra.Command, s *fileVersion, name string) error {
	file, err := os.Open(name)
	if err != nil {
		return err
	}
	defer file.Close()
	st, err := file.Stat()
	if err != nil {
		return err
	}
	c := &content{file: file}
	if mode, ok := modeOf(s, name, file, st, v); ok {
		c.mode = &mode
	}
	if as, ok := st.Sys().(*syscall.Stat_t); ok {
		uid, gid := int(as.Uid), int(as.Gid)
		if _, err := os.Lstat(v.file(s.real())); errors.Is(err, os.ErrNotExist) {
			c.uid, c.gid = &uid, &gid
		}
	}
	err = explained(v, v.put(s.real(), c, replacing))
	c.tellClosed(cmd)
	if c.notOurs {
		warn(cmd, "%s is not ours: it keeps its mode", printable.Line(s.real()))
	}
	return err
}

// modeOf is the mode of a version, whose content is in file; false if it is not known. Of one
// that is kept the history has it. One that has got another name has that file's: the history
// knows with which mode it was made, and that may have been changed since.
func modeOf(s *fileVersion, name string, file *os.File, st os.FileInfo, v *view) (mode uint32, ok bool) {
	if as, is := st.Sys().(*syscall.Stat_t); is && name != v.keptFile(s) {
		mode = as.Mode & 0o7777
		if n, err := unix.Fgetxattr(int(file.Fd()), "system.posix_acl_access", nil); err == nil && n > 0 {
			mode &^= 0o070 // whose bits are the mask of the ACL, which the restored file has not
		}
		return mode, true
	}
	m, err := strconv.ParseUint(s.Mode, 8, 12)
	return uint32(m), err == nil
}

func countBytes(n int64) string {
	if n == 1 {
		return "1 byte"
	}
	return fmt.Sprintf("%d bytes", n)
}
