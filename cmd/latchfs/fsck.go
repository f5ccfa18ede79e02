package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"latchfs/fs/printable"
	"latchfs/journal"
	"latchfs/journal/commit"
	"latchfs/journal/commit/fsck"
	"latchfs/journal/statedir"
)

// fsckFlags are the flags of `latchfs fsck`.
type fsckFlags struct {
	repair bool
	trust  bool
	asJSON bool
}

func newFsckCommand() *cobra.Command {
	var f fsckFlags
	cmd := &cobra.Command{
		Use:   "fsck DIR",
		Short: "Check what latchfs keeps about a data directory, and repair it",
		Long: `Check what latchfs keeps about the data directory DIR, which must not be mounted:
the journal, the audit trail, refused bytes, and files that a crash has left.
Nothing is changed. What a crash leaves is no problem, for the next mount recovers
from it; problems are what no crash explains.

With --repair everything is done that the next mount would do, and what it would
refuse to do: a damaged journal or damaged lines of the audit trail are renamed,
never deleted, and begun anew; shadows that only the lost records could explain, or
that nothing explains after a clean stop, are kept under .latchfs/rejected/.

Run by root on the directory of a user's own mount, it goes on as that user: what
lies there is that user's word. Where somebody else than root can rename what lies
in DIR, root finishes unfinished changes only if the state directory is known to be
the one that was last used there, or with --trust-state.

The exit code is 0 if nothing is wrong or all was repaired, and 1 if problems remain
or the check could not be done.`,
		Example: `  latchfs fsck /srv/data
  latchfs fsck --json /srv/data | jq 'select(.severity == "problem")'
  latchfs fsck --repair /srv/data && latchfs mount /srv/data`,
		Args: exactly(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.run(cmd, args[0])
		},
	}
	cmd.Flags().BoolVar(&f.repair, "repair", false, "put right what can be put right")
	cmd.Flags().BoolVar(&f.trust, "trust-state", false, "with --repair: believe the journal although another could have put it there")
	registerJSON(cmd, &f.asJSON, "print one JSON object for each finding")
	return cmd
}

// run is `latchfs fsck`.
func (f *fsckFlags) run(cmd *cobra.Command, path string) error {
	data, err := openOffline(path, f.repair)
	if err != nil {
		return err
	}
	if data == nil {
		if whole, _ := dataRoot(path); whole != "" {
			return fmt.Errorf("%s is in the data directory %s, which is checked as a whole: latchfs fsck %s", path, whole, printable.Word(whole))
		}
		return f.print(cmd.OutOrStdout(), path, nil, "no state directory, so nothing to check")
	}
	defer data.close()
	if err := data.become(); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if f.repair && !f.trust {
		if err := data.believable(path); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
	}
	checked, err := fsck.Check(cmd.Context(), int(data.root.Fd()), data.state)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	findings := checked.Findings
	if f.repair && data.lock != nil {
		findings, err = checked.Repair(cmd.Context(), func(string, ...any) {}) // Findings says all of it
		if err == nil {
			err = statedir.Vouch(int(data.root.Fd()), data.state)
		}
	}
	left := 0
	for _, x := range findings {
		if x.Severity == journal.Problem && x.Done == "" {
			left++
		}
	}
	summary := f.summary(path, len(findings), left)
	if err != nil {
		summary = "the repair was not finished"
	}
	err = errors.Join(err, f.print(cmd.OutOrStdout(), path, findings, summary))
	if err == nil && left > 0 {
		return exitError(exitFailure)
	}
	return err
}

func (f *fsckFlags) summary(path string, found, left int) string {
	switch {
	case found == 0:
		return "consistent"
	case left == 0 && f.repair:
		return "consistent now"
	case left == 0:
		return "consistent; what is said above is no problem"
	case f.repair:
		return fmt.Sprintf("problems remain: %d", left)
	}
	return fmt.Sprintf("problems: %d; what can be put right is put right by: latchfs fsck --repair %s", left, printable.Word(path))
}

// print writes the findings, and for people a last line.
func (f *fsckFlags) print(w io.Writer, path string, findings []journal.Finding, summary string) error {
	if f.asJSON {
		for _, x := range findings {
			if err := printJSON(w, x); err != nil {
				return err
			}
		}
		return nil
	}
	var text strings.Builder
	for _, x := range findings {
		fmt.Fprintf(&text, "%s: %s", x.Severity, printable.Line(x.Path))
		if x.Offset >= 0 {
			fmt.Fprintf(&text, ", byte %d", x.Offset)
		}
		fmt.Fprintf(&text, ": %s.\n  Meaning: %s.\n", x.What, x.Means)
		if x.Done != "" {
			fmt.Fprintf(&text, "  Done: %s.\n", x.Done)
		}
	}
	fmt.Fprintf(&text, "%s: %s\n", path, summary)
	_, err := io.WriteString(w, text.String())
	return err
}

// offline is a data directory that no daemon has, and none gets before close.
type offline struct {
	root, state *os.File
	lock        *os.File // nil: there is no such file, so there is no daemon
}

func (d *offline) close() {
	for _, f := range []*os.File{d.lock, d.state, d.root} {
		if f != nil {
			f.Close()
		}
	}
}

// openOffline opens a data directory and keeps daemons out. It returns nil where
// latchfs has never been.
func openOffline(path string, repair bool) (d *offline, err error) {
	real, err := unmounted(path)
	if err != nil {
		return nil, err
	}
	d = &offline{}
	defer func() {
		if err != nil {
			d.close()
			d = nil
		}
	}()
	if d.root, err = openPlain(unix.AT_FDCWD, real, unix.O_RDONLY|unix.O_DIRECTORY); err != nil {
		return d, err
	}
	d.state, err = statedir.Peek(int(d.root.Fd()))
	if errors.Is(err, unix.ENOENT) {
		d.close()
		return nil, nil
	}
	if errors.Is(err, statedir.ErrForeign) {
		err = fmt.Errorf("%s/%s is not a directory, so not latchfs's; it does not mount here", path, commit.StateDirName)
	}
	if err != nil {
		return d, err
	}
	d.lock, err = openPlain(int(d.state.Fd()), commit.LockName, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK)
	if errors.Is(err, unix.ENOENT) {
		return d, nil
	}
	if err == nil {
		err = d.keepOut(path, real, repair)
	}
	return d, err
}

func openPlain(dir int, name string, flags int) (*os.File, error) {
	fd, err := unix.Openat(dir, name, flags|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: name, Err: err}
	}
	return os.NewFile(uintptr(fd), name), nil
}

// keepOut takes the lock that a daemon holds for as long as it lives. One whose
// mount has just been taken away may need a moment to end.
func (d *offline) keepOut(path, real string, repair bool) error {
	how := unix.LOCK_SH // any number may look
	if repair {
		how = unix.LOCK_EX
	}
	for deadline := time.Now().Add(2 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		err := unix.Flock(int(d.lock.Fd()), how|unix.LOCK_NB)
		if !errors.Is(err, unix.EWOULDBLOCK) {
			return os.NewSyscallError("flock", err)
		}
		mountpoint, found := mountedFrom(real)
		if found || time.Now().After(deadline) {
			return inUse(path, real, mountpoint)
		}
	}
}

// mountedFrom tells whether a mount of ours shows the data directory, and where.
func mountedFrom(real string) (mountpoint string, found bool) {
	mounts, err := latchfsMounts()
	for _, m := range mounts {
		if m.Source == real {
			return m.Mountpoint, true
		}
	}
	return "", err != nil
}

// unmounted resolves a path, and refuses one that leads into a mount of ours.
func unmounted(path string) (real string, err error) {
	real, err = filepath.EvalSymlinks(path)
	if err == nil {
		real, err = filepath.Abs(real)
	}
	if m, e := mountAt(path); e == nil && isDead(m) {
		return "", fmt.Errorf("the dead mount on %s is in the way; take it away with: latchfs umount --dead %s", path, printable.Word(path))
	}
	if err != nil {
		return "", err
	}
	m, err := machine().mountOf(real)
	switch {
	case err != nil || m == nil || m.FSType != fsType:
	case real == m.Mountpoint:
		err = inUse(path, m.Source, m.Mountpoint)
	default:
		err = fmt.Errorf("%s is in the mount at %s; a data directory is checked as a whole, and not while it is mounted: latchfs umount %s && latchfs fsck %s",
			path, m.Mountpoint, printable.Word(m.Mountpoint), printable.Word(m.Source))
	}
	return real, err
}

// inUse says who has the data directory, and what to do if it is mounted somewhere.
func inUse(path, real, mountpoint string) error {
	lock := lockOf(real)
	holder := "another process"
	if pid := lockPID(lock); pid != "" { // in some pid namespace
		holder = "pid " + pid
	}
	fds, _ := filepath.Glob("/proc/[0-9]*/fd/*")
	for _, fd := range fds {
		pid := strings.Split(fd, "/")[2]
		if target, err := os.Readlink(fd); err == nil && target == lock && pid != fmt.Sprint(os.Getpid()) {
			holder = "pid " + pid
		}
	}
	if mountpoint == "" {
		return fmt.Errorf("%s is in use by %s, and no mount that can be seen here shows it", path, holder)
	}
	return fmt.Errorf("%s is in use by %s: unmount it first (latchfs umount %s)", path, holder, printable.Word(mountpoint))
}
