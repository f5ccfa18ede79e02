package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"latchfs/fs/printable"
	"latchfs/journal"
	"latchfs/journal/commit"
	"latchfs/journal/statedir"
)

// become goes on as the user to whom the state directory belongs, for good: what root
// reads there another has written.
func (d *offline) become() error {
	var st unix.Stat_t
	if err := unix.Fstat(int(d.state.Fd()), &st); err != nil {
		return os.NewSyscallError("fstat", err)
	}
	uid, gid := int(st.Uid), int(st.Gid)
	switch {
	case uid == os.Geteuid():
		return nil
	case os.Geteuid() != 0:
		return fmt.Errorf("%s belongs to user %d: run this as that user, or as root", commit.StateDirName, uid)
	}
	// Descriptors that are open stay so; the rest is reached from them.
	err := syscall.Setgroups(nil) // of every thread
	if err == nil {
		err = syscall.Setresgid(gid, gid, gid)
	}
	if err == nil {
		err = syscall.Setresuid(uid, uid, uid)
	}
	if err != nil {
		return fmt.Errorf("go on as user %d, to whom %s belongs: %w", uid, commit.StateDirName, err)
	}
	return nil
}

// believable refuses a journal with unfinished changes that another could have put in
// the place of the last one; path is what the data directory was called.
func (d *offline) believable(path string) error {
	trust, err := statedir.Judge(int(d.root.Fd()), d.state)
	how := "; if you know that nobody has put it there: latchfs fsck --repair --trust-state " + printable.Word(path)
	if errors.Is(err, statedir.ErrReplaced) {
		return fmt.Errorf("%s is %w%s", commit.StateDirName, err, how)
	}
	if err != nil || trust == statedir.Proven {
		return err
	}
	found, err := journal.Check(d.state)
	if err != nil || len(found.Pending) == 0 {
		return err
	}
	return fmt.Errorf("%s holds %d unfinished changes, and nothing proves that it is the state directory that was last used here%s",
		commit.StateDirName, len(found.Pending), how)
}

// lockPID reads what a daemon has written into its lock, whatever else may lie there.
func lockPID(path string) string {
	lock, err := openPlain(unix.AT_FDCWD, path, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK)
	if err != nil {
		return ""
	}
	defer lock.Close()
	pid := make([]byte, 32)
	n, err := lock.ReadAt(pid, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return ""
	}
	return strings.TrimSpace(string(pid[:n]))
}
