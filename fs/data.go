package fs

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"latchfs/fs/datadir"
	"latchfs/journal"
	"latchfs/journal/audit"
	"latchfs/journal/commit"
	"latchfs/lockmgr"
)

// openData opens the data directory.
func (f *FS) openData() error {
	o := &f.opts
	d, err := datadir.Open(datadir.Config{Path: o.Dir, Mountpoint: o.Mountpoint, LocksDir: o.LocksDir, Warnf: f.log.Warnf})
	if err != nil {
		return err
	}
	f.dir, f.rootfd, f.dev = d, d.FD, d.Dev
	o.Dir, o.Mountpoint = d.Path, d.Mountpoint
	return nil
}

// openState opens the state directory, keeps other daemons out, and recovers
// what an earlier one left unfinished.
func (f *FS) openState() error {
	if f.opts.ReadOnly {
		f.table = lockmgr.New(lockmgr.Options{FirstToken: 1})
		return nil
	}
	if err := f.dir.OpenState(); err != nil {
		return err
	}
	f.state, f.stateKey = f.dir.State, inoKey{f.dir.StateDev, f.dir.StateIno}
	var err error
	f.journal, err = commit.OpenJournal(f.state, journal.Options{Logf: f.log.Warnf})
	if err != nil {
		return fmt.Errorf("journal of %s: %w", f.opts.Dir, err)
	}
	if f.trail, err = audit.Open(f.state, 0); err != nil {
		return fmt.Errorf("audit trail of %s: %w", f.opts.Dir, err)
	}
	f.store = commit.NewStore(f.rootfd, f.state, f.journal)
	f.store.SetRoom(func(error) bool { return f.versions.GiveRoom() })
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
	f.dir.Vouch()
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

// rootChanged is to be called when somebody has changed the owner or the rights of the data
// root through the mount.
func (f *FS) rootChanged(node uint64) {
	if node == rootID && f.state != nil {
		f.dir.Vouch()
	}
}
