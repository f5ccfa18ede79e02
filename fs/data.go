package fs

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"

	"latchfs/journal"
	"latchfs/journal/audit"
	"latchfs/journal/commit"
	"latchfs/journal/statedir"
	"latchfs/lockmgr"
)

// openData opens the data directory and refuses what cannot be mounted.
func (f *FS) openData() error {
	o := &f.opts
	dir, err := canonical(o.Dir)
	if err != nil {
		return err
	}
	mnt, err := canonical(o.Mountpoint)
	if err != nil {
		return err
	}
	o.Dir, o.Mountpoint = dir, mnt
	switch {
	case mnt != dir && inside(mnt, dir):
		return fmt.Errorf("%w: mountpoint %s lies inside the data directory %s", ErrBadOption, mnt, dir)
	case mnt != dir && inside(dir, mnt):
		return fmt.Errorf("%w: data directory %s lies inside the mountpoint %s", ErrBadOption, dir, mnt)
	}
	for _, p := range []string{mnt, dir} {
		if err := clearMount(p); err != nil {
			return err
		}
	}
	if f.rootfd, err = openResolved(dir); err != nil {
		if err == unix.ENOTDIR {
			err = ErrNotDirectory
		}
		return fmt.Errorf("%s: %w", dir, err)
	}
	var st unix.Stat_t
	if err := unix.Fstat(f.rootfd, &st); err != nil {
		return fmt.Errorf("%s: %w", dir, err)
	}
	f.dev = uint64(st.Dev)
	if unix.Fstatat(f.rootfd, o.LocksDir, &st, unix.AT_SYMLINK_NOFOLLOW) == nil {
		return fmt.Errorf("%w: %s already has an entry %q; choose another name with --locks-dir", ErrReservedName, dir, o.LocksDir)
	}
	f.warnNetwork()
	return nil
}

// canonical resolves path and removes a dead mount of ours that is in the way.
func canonical(path string) (string, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	real, err := followLinks(abs)
	if isDead(err) {
		if i, e := findMount(abs); e == nil && i != nil && i.FSType == fsType {
			if err := Detach(abs); err != nil {
				return "", fmt.Errorf("%s: a dead mount is in the way: %w", abs, err)
			}
			return canonical(path)
		}
	}
	if err != nil {
		return "", err
	}
	st, err := os.Stat(real)
	if isDead(err) {
		if i, e := findMount(real); e == nil && i != nil && i.FSType == fsType {
			if err := Detach(real); err != nil {
				return "", fmt.Errorf("%s: a dead mount is in the way: %w", real, err)
			}
			return canonical(path)
		}
	}
	if err != nil {
		return "", err
	}
	if !st.IsDir() {
		return "", fmt.Errorf("%s: %w", path, ErrNotDirectory)
	}
	return real, nil
}

// isDead tells the errors of a mount without a daemon: ENOTCONN, and for a
// request that was under way when the connection died ECONNABORTED.
func isDead(err error) bool {
	return errors.Is(err, unix.ENOTCONN) || errors.Is(err, unix.ECONNABORTED)
}

// clearMount refuses a path on which a mount of ours lives, and removes a dead
// one. For a while after a daemon's death the kernel still answers stat(2) from
// its cache; statfs(2) it never caches.
func clearMount(path string) error {
	i, err := findMount(path)
	if err != nil || i == nil || i.FSType != fsType {
		return err
	}
	var st unix.Statfs_t
	if err := unix.Statfs(path, &st); !isDead(err) {
		return fmt.Errorf("%w: %s", ErrAlreadyMounted, path)
	}
	if err := Detach(path); err != nil {
		return fmt.Errorf("%s: a dead mount is in the way: %w", path, err)
	}
	return clearMount(path)
}

func inside(path, dir string) bool {
	return dir == "/" || strings.HasPrefix(path, dir+"/")
}

// Detach takes a mount away although it may be in use (umount -l).
func Detach(mountpoint string) error {
	err := unix.Unmount(mountpoint, unix.MNT_DETACH)
	if err != unix.EPERM {
		return err
	}
	out, err := exec.Command("fusermount3", "-u", "-z", "--", mountpoint).CombinedOutput()
	if err != nil {
		return fmt.Errorf("fusermount3: %w: %s", err, strings.TrimSpace(string(out)))
	}
	return nil
}

func (f *FS) warnNetwork() {
	var st unix.Statfs_t
	if unix.Fstatfs(f.rootfd, &st) != nil {
		return
	}
	if name, ok := networkTypes[int64(uint32(st.Type))]; ok {
		f.log.Warnf("%s is on %s: programs on other machines are not kept out, only those on this one", f.opts.Dir, name)
	}
}

// openState opens the state directory, keeps other daemons out, and recovers
// what an earlier one left unfinished.
func (f *FS) openState() error {
	if f.opts.ReadOnly {
		f.table = lockmgr.New(lockmgr.Options{FirstToken: 1})
		return nil
	}
	if err := f.openStateDir(); err != nil {
		return err
	}
	var err error
	f.journal, err = commit.OpenJournal(f.state, journal.Options{Logf: f.log.Warnf})
	if err != nil {
		return fmt.Errorf("journal of %s: %w", f.opts.Dir, err)
	}
	if f.trail, err = audit.Open(f.state, 0); err != nil {
		return fmt.Errorf("audit trail of %s: %w", f.opts.Dir, err)
	}
	f.store = commit.NewStore(f.rootfd, f.state, f.journal)
	f.store.SetRoom(f.giveRoom)
	f.store.SetFault(f.fault)
	f.store.SetLost(f.noteLost)
	if f.privileged {
		f.store.SetOwners(asOwner)
	}
	report, err := f.store.Recover()
	if err != nil {
		return fmt.Errorf("recovery of %s: %w", f.opts.Dir, err)
	}
	f.reportRecovery(report)
	f.vouchForState()
	if err := f.openHistory(); err != nil {
		return err
	}
	f.openKnowledge()
	f.openPrograms()
	first, err := f.journal.ReserveTokens(tokenBlock)
	if err != nil {
		return fmt.Errorf("journal of %s: %w", f.opts.Dir, err)
	}
	f.tokenLimit.Store(first + tokenBlock)
	f.table = lockmgr.New(lockmgr.Options{FirstToken: first})
	return nil
}

// openStateDir opens the state directory, which must be our own, and keeps other
// daemons out.
func (f *FS) openStateDir() error {
	const name = commit.StateDirName
	dir, err := statedir.Own(f.rootfd)
	if errors.Is(err, statedir.ErrForeign) {
		return f.refuseState(err)
	}
	if err != nil {
		return fmt.Errorf("%s/%s: %w", f.opts.Dir, name, err)
	}
	f.state = dir
	fresh, err := f.checkStateDir()
	if err != nil {
		return err
	}
	lock, err := statedir.OpenFile(int(dir.Fd()), commit.LockName, unix.O_RDWR|unix.O_CREAT)
	if err != nil {
		return fmt.Errorf("%s/%s/%s: %w", f.opts.Dir, name, commit.LockName, err)
	}
	if err := f.lockData(lock); err != nil {
		pid := make([]byte, 32)
		n, _ := unix.Pread(lock, pid, 0)
		unix.Close(lock)
		return fmt.Errorf("%w: %s (pid %s)", ErrDataInUse, f.opts.Dir, strings.TrimSpace(string(pid[:max(n, 0)])))
	}
	// The descriptor stays open, and the flock with it, until the process ends.
	// Its content is for people; that it cannot be written is no reason to stop.
	if err := unix.Ftruncate(lock, 0); err == nil {
		_, err = unix.Pwrite(lock, fmt.Appendf(nil, "%d\n", os.Getpid()), 0)
		if err != nil {
			f.log.Warnf("%s/%s/%s: %v", f.opts.Dir, name, commit.LockName, err)
		}
	}
	if err := f.judgeState(fresh); err != nil {
		return err
	}
	if err := f.hideFromGit(); err != nil {
		f.log.Warnf("%s/%s/%s: %v", f.opts.Dir, name, commit.IgnoreName, err)
	}
	return nil
}

// hideFromGit writes the state directory's .gitignore. One that holds something is
// its owner's, and stays.
func (f *FS) hideFromGit() error {
	fd, err := statedir.OpenFile(int(f.state.Fd()), commit.IgnoreName, unix.O_WRONLY|unix.O_CREAT)
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

// lockData keeps other daemons out. One whose mount has just been taken away may
// need a moment to end.
func (f *FS) lockData(lock int) error {
	for deadline := time.Now().Add(endingGrace); ; time.Sleep(20 * time.Millisecond) {
		err := unix.Flock(lock, unix.LOCK_EX|unix.LOCK_NB)
		if err == nil || f.isMounted() || time.Now().After(deadline) {
			return err
		}
	}
}

// endingGrace is how long a start waits for an earlier daemon to end.
const endingGrace = 2 * time.Second

// isMounted reports whether a mount of ours shows the data directory.
func (f *FS) isMounted() bool {
	list, err := mountinfo.GetMounts(func(i *mountinfo.Info) (skip, stop bool) {
		return i.FSType != fsType || i.Source != f.opts.Dir, false
	})
	return err == nil && len(list) > 0
}

// checkStateDir refuses a directory of that name that is not our state; fresh says
// that there is nothing in it yet.
func (f *FS) checkStateDir() (fresh bool, err error) {
	var st unix.Stat_t
	if err := unix.Fstat(int(f.state.Fd()), &st); err != nil {
		return false, os.NewSyscallError("fstat", err)
	}
	f.stateKey = inoKey{uint64(st.Dev), st.Ino}
	list, err := readEntries(int(f.state.Fd()), func(name string) bool { return name != "." && name != ".." })
	if err != nil {
		return false, fmt.Errorf("%s/%s: %w", f.opts.Dir, commit.StateDirName, err)
	}
	ours := len(list) == 0
	for _, e := range list {
		ours = ours || e.name == commit.LockName
	}
	if !ours {
		return false, fmt.Errorf("%w: %s/%s exists and was not made by latchfs", ErrReservedName, f.opts.Dir, commit.StateDirName)
	}
	if st.Mode&0o7777 != 0o700 {
		err = f.state.Chmod(0o700) // by descriptor: the name may lead elsewhere by now
	}
	return len(list) == 0, err
}

// raiseLimits allows as many descriptors as the system gives: each file that
// the kernel remembers costs one.
func (f *FS) raiseLimits() {
	var l unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &l) != nil {
		l.Cur = 1024
	}
	want := l
	want.Cur = want.Max
	if b, err := os.ReadFile("/proc/sys/fs/nr_open"); err == nil && os.Geteuid() == 0 {
		var n uint64
		if _, err := fmt.Sscan(string(b), &n); err == nil && n > want.Max {
			want.Cur, want.Max = n, n
		}
	}
	if unix.Setrlimit(unix.RLIMIT_NOFILE, &want) == nil {
		l = want
	}
	// A quarter is left for handles, shadows and journals.
	f.maxInodes = int(l.Cur / 4 * 3)
	f.trim.Measure()
	f.raiseFileSize()
}

// raiseFileSize ends the limit that whoever mounts has set for the files that he writes
// (ulimit -f): the writers on the mount have their own.
func (f *FS) raiseFileSize() {
	var l unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_FSIZE, &l) != nil || l.Cur == unix.RLIM_INFINITY {
		return
	}
	none := unix.Rlimit{Cur: unix.RLIM_INFINITY, Max: unix.RLIM_INFINITY}
	for _, want := range []unix.Rlimit{none, {Cur: l.Max, Max: l.Max}} { // the first takes CAP_SYS_RESOURCE
		if unix.Setrlimit(unix.RLIMIT_FSIZE, &want) == nil {
			l = want
			break
		}
	}
	if l.Cur != unix.RLIM_INFINITY {
		f.log.Warnf("nobody can write a file of more than %d bytes here: that is the limit of the user who mounts (ulimit -f)", l.Cur)
	}
}

func (f *FS) plantRoot() error {
	fd, err := unix.Openat(f.rootfd, ".", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		unix.Close(fd)
		return err
	}
	key := inoKey{uint64(st.Dev), st.Ino}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.plantRootLocked(f.newInodeLocked(fd, key, unix.S_IFDIR))
	return nil
}
