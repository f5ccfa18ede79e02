package fs

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"latchfs/fs/datadir"
	"latchfs/journal"
	"latchfs/journal/audit"
	"latchfs/journal/commit"
	"latchfs/journal/history"
)

// openData opens the data directory.
func (f *FS) openData() error {
	o := &f.disk.opts
	d, err := datadir.Open(datadir.Config{Path: o.Dir, Mountpoint: o.Mountpoint, LocksDir: o.LocksDir, Warnf: f.disk.log.Warnf})
	if err != nil {
		return err
	}
	f.disk.dir, f.disk.rootfd, f.disk.dev = d, d.FD, d.Dev
	o.Dir, o.Mountpoint = d.Path, d.Mountpoint
	return nil
}

// openState opens the state directory, keeps other daemons out, and recovers
// what an earlier one left unfinished.
func (f *FS) openState() error {
	if f.disk.opts.ReadOnly {
		f.rules.table = f.disk.opts.Authority(1)
		return nil
	}
	if err := f.disk.dir.OpenState(); err != nil {
		return err
	}
	f.disk.state, f.disk.stateKey = f.disk.dir.State, inoKey{f.disk.dir.StateDev, f.disk.dir.StateIno}
	// Before the journal, whose recovery changes things: a mount that refuses changes nothing.
	err := history.Verify(f.disk.state)
	if err != nil {
		return fmt.Errorf("history of %s: %w", f.disk.opts.Dir, err)
	}
	f.disk.journal, err = commit.OpenJournal(f.disk.state, journal.Options{Logf: f.disk.log.Warnf})
	if err != nil {
		return fmt.Errorf("journal of %s: %w", f.disk.opts.Dir, err)
	}
	if f.reports.trail, err = audit.Open(f.disk.state, 0); err != nil {
		return fmt.Errorf("audit trail of %s: %w", f.disk.opts.Dir, err)
	}
	f.disk.store = commit.NewStore(f.disk.rootfd, f.disk.state, f.disk.journal)
	f.disk.store.SetRoom(func(error) bool { return f.disk.versions.GiveRoom() })
	f.disk.store.SetFault(f.disk.fault)
	f.disk.store.SetLost(f.names.noteLost)
	if f.disk.privileged {
		f.disk.store.SetOwners(asOwner)
	}
	report, err := f.disk.store.Recover()
	if err != nil {
		return fmt.Errorf("recovery of %s: %w", f.disk.opts.Dir, err)
	}
	f.recovery.reportRecovery(report)
	f.disk.dir.Vouch()
	if err := f.openHistory(); err != nil {
		return err
	}
	f.openKnowledge()
	f.openPrograms()
	first, err := f.disk.journal.ReserveTokens(tokenBlock)
	if err != nil {
		return fmt.Errorf("journal of %s: %w", f.disk.opts.Dir, err)
	}
	f.disk.tokenLimit.Store(first + tokenBlock)
	f.rules.table = f.disk.opts.Authority(first)
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
	f.nodes.maxInodes = int(l.Cur / 4 * 3)
	f.nodes.trim.Measure()
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
		f.disk.log.Warnf("nobody can write a file of more than %d bytes here: that is the limit of the user who mounts (ulimit -f)", l.Cur)
	}
}
