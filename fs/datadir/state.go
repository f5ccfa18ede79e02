package datadir

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/user"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"latchfs/fs/mounts"
	"latchfs/fs/printable"
	"latchfs/journal"
	"latchfs/journal/commit"
	"latchfs/journal/statedir"
)

// OpenState opens the state directory, which must be our own, and keeps other daemons out
// until this process ends. A new one is made where there is none.
func (d *Dir) OpenState() error {
	const name = commit.StateDirName
	dir, err := statedir.Own(d.FD)
	if errors.Is(err, statedir.ErrForeign) {
		return d.refuse(err)
	}
	if err != nil {
		return fmt.Errorf("%s/%s: %w", d.Path, name, err)
	}
	d.State = dir
	fresh, err := d.looksOurs()
	if err != nil {
		return err
	}
	lock, err := statedir.OpenFile(int(dir.Fd()), commit.LockName, unix.O_RDWR|unix.O_CREAT)
	if err != nil {
		return fmt.Errorf("%s/%s/%s: %w", d.Path, name, commit.LockName, err)
	}
	if err := d.lock(lock); err != nil {
		defer unix.Close(lock)
		return d.inUse(lock)
	}
	// The descriptor stays open, and the flock with it, until the process ends.
	// Its content is for people; that it cannot be written is no reason to stop.
	if err := unix.Ftruncate(lock, 0); err == nil {
		_, err = unix.Pwrite(lock, fmt.Appendf(nil, "%d\n", os.Getpid()), 0)
		if err != nil {
			d.warnf("%s/%s/%s: %v", d.Path, name, commit.LockName, err)
		}
	}
	if err := d.judge(fresh); err != nil {
		return err
	}
	if err := d.hideFromGit(); err != nil {
		d.warnf("%s/%s/%s: %v", d.Path, name, commit.IgnoreName, err)
	}
	return nil
}

// inUse says who has the flock on a file, and what to do where no mount shows it.
func (d *Dir) inUse(lock int) error {
	content := make([]byte, 32)
	n, _ := unix.Pread(lock, content, 0)
	pid := strings.TrimSpace(string(content[:max(n, 0)]))
	if mounts.Shows(d.Path) {
		return fmt.Errorf("%w: %s (pid %s)", ErrInUse, d.Path, pid)
	}
	return fmt.Errorf("%w: %s (pid %s). Its mount is not to be seen here: if a container has a copy of it, end the container, or the daemon%s",
		ErrInUse, d.Path, pid, mounts.HowToEnd(pid))
}

// hideFromGit writes the state directory's .gitignore. One that holds something is
// its owner's, and stays.
func (d *Dir) hideFromGit() error {
	fd, err := statedir.OpenFile(int(d.State.Fd()), commit.IgnoreName, unix.O_WRONLY|unix.O_CREAT)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil || st.Size > 0 {
		return err
	}
	_, err = unix.Pwrite(fd, []byte("*\n"), 0)
	return err
}

// lock keeps other daemons out. One whose mount has just been taken away may
// need a moment to end.
func (d *Dir) lock(lock int) error {
	for deadline := time.Now().Add(endingGrace); ; time.Sleep(20 * time.Millisecond) {
		err := unix.Flock(lock, unix.LOCK_EX|unix.LOCK_NB)
		if err == nil || mounts.Shows(d.Path) || time.Now().After(deadline) {
			return err
		}
	}
}

// endingGrace is how long a start waits for an earlier daemon to end.
const endingGrace = 2 * time.Second

// looksOurs refuses a directory of that name that is not our state; fresh says
// that there is nothing in it yet.
func (d *Dir) looksOurs() (fresh bool, err error) {
	var st unix.Stat_t
	if err := unix.Fstat(int(d.State.Fd()), &st); err != nil {
		return false, os.NewSyscallError("fstat", err)
	}
	d.StateDev, d.StateIno = uint64(st.Dev), st.Ino
	list, err := d.State.Readdirnames(-1)
	if err == nil {
		_, err = d.State.Seek(0, io.SeekStart)
	}
	if err != nil {
		return false, fmt.Errorf("%s/%s: %w", d.Path, commit.StateDirName, err)
	}
	if len(list) > 0 && !slices.Contains(list, commit.LockName) {
		return false, fmt.Errorf("%w: %s/%s exists and was not made by latchfs", ErrReservedName, d.Path, commit.StateDirName)
	}
	if st.Mode&0o7777 != 0o700 {
		err = d.State.Chmod(0o700) // by descriptor: the name may lead elsewhere by now
	}
	return len(list) == 0, err
}

// judge refuses a state directory that somebody may have put in the place of the
// last one, if recovery would have to believe it. fresh says that it is empty.
func (d *Dir) judge(fresh bool) error {
	if fresh {
		if statedir.Forgotten(d.FD) {
			d.warnf("%s: its state directory is gone (.latchfs: history, refused bytes, audit trail); a new one is begun", d.Path)
		}
		d.Vouch()
		return nil
	}
	trust, err := statedir.Judge(d.FD, d.State)
	if errors.Is(err, statedir.ErrReplaced) {
		return d.refuse(err)
	}
	if err != nil {
		return fmt.Errorf("%s/%s: %w", d.Path, commit.StateDirName, err)
	}
	if trust == statedir.Proven {
		return nil
	}
	found, err := journal.Check(d.State)
	if err != nil {
		return fmt.Errorf("journal of %s: %w", d.Path, err)
	}
	if n := len(found.Pending); n > 0 {
		return fmt.Errorf("%w: %s/%s holds %d unfinished changes, and nothing proves that it is the state directory that was last used here: %s can put a former one in its place. If you know that nobody has: latchfs fsck --repair --trust-state %s",
			ErrReservedName, d.Path, commit.StateDirName, n, d.ownerName(), printable.Word(d.Path))
	}
	return nil
}

// Vouch notes that the state directory is the last one that was used here. It is called when
// others may be able to rename it from now on: it is in its place still, as far as anybody
// can tell.
func (d *Dir) Vouch() {
	if err := statedir.Vouch(d.FD, d.State); err != nil {
		d.warnf("%s: a state directory put in the place of this one would not be noticed: %v", d.Path, err)
	}
}

// refuse says what to do about a state directory that is not our own.
func (d *Dir) refuse(reason error) error {
	if errors.Is(reason, statedir.ErrReplaced) {
		return fmt.Errorf("%w: %s/%s is %w: %s may have put a former one in its place. To use it all the same: latchfs fsck --repair --trust-state %s; to begin a new one, rename it",
			ErrReservedName, d.Path, commit.StateDirName, reason, d.ownerName(), printable.Word(d.Path))
	}
	return fmt.Errorf("%w: %s/%s is %w; rename it to begin a new one, or mount as the user to whom it belongs",
		ErrReservedName, d.Path, commit.StateDirName, reason)
}

// ownerName names the owner of the data directory.
func (d *Dir) ownerName() string {
	var st unix.Stat_t
	if unix.Fstatat(d.FD, "", &st, unix.AT_EMPTY_PATH) != nil {
		return "its owner"
	}
	id := strconv.Itoa(int(st.Uid))
	if u, err := user.LookupId(id); err == nil {
		return u.Username + ", its owner,"
	}
	return "user " + id + ", its owner,"
}
