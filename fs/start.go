package fs

import (
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"latchfs/fs/asuser"
	"latchfs/fs/locksdir"
	"latchfs/fs/mounts"
	"latchfs/fs/printable"
	"latchfs/fs/privileges"
	"latchfs/journal"
	"latchfs/journal/audit"
	"latchfs/lockmgr/proc"
)

// The life of the filesystem: Open, Attach, Begin; Drain, Stop, Abandon and Close.

// Open opens the data directory, and settles what a crash has left of changes. Nobody is
// served yet. Whatever it refuses, nothing is left behind.
func Open(o Options) (_ *FS, err error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	f := newFS(o)
	defer func() {
		if err != nil {
			f.Close()
		}
	}()
	if err := f.openData(); err != nil {
		return nil, err
	}
	err = f.openState()
	if errors.Is(err, journal.ErrCorrupt) {
		err = fmt.Errorf("%w; what can be put right is put right by: latchfs fsck --repair %s", err, printable.Word(f.disk.opts.Dir))
	}
	if err != nil {
		return nil, err
	}
	f.raiseLimits()
	processes, err := proc.New("/proc")
	if err != nil {
		return nil, err
	}
	f.openCallers(processes)
	f.openUpdates()
	f.openChanges()
	f.openReadClaims()
	f.openAdvisory()
	f.openControlRoom()
	if err := f.callers.proc.FollowForks(); err != nil {
		f.disk.log.Infof("a script may be told of what its own orphaned background jobs have changed: %v", err)
	}
	if f.disk.procfd, err = unix.Open("/proc/self/fd", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0); err != nil {
		return nil, fmt.Errorf("open /proc/self/fd: %w", err)
	}
	if f.disk.opts.DropPrivileges {
		// What needs more is done; nobody has made a request yet.
		if err := privileges.Drop(); err != nil {
			f.disk.log.Infof("the daemon keeps capabilities that it does not need: %v", err)
		}
	}
	f.view.virt = newVirtual(f, locksdir.New(f.view.source))
	if err := f.kernel.plantRoot(); err != nil {
		return nil, err
	}
	if err := f.claimFiles.clerk.Restore(f.disk.rootfd); err != nil {
		return nil, err
	}
	f.disk.submounts.Note(f.disk.rootfd, f.disk.privileged)
	if err := f.judging.findCommandUsers(); err != nil {
		return nil, err
	}
	return f, nil
}

// Options are those with which the filesystem was opened, with what was left to defaults.
func (f *FS) Options() Options { return f.disk.opts }

// Below is what statfs(2) says of the filesystem on which the data directory lies.
func (f *FS) Below() (st unix.Statfs_t, err error) {
	err = unix.Fstatfs(f.disk.rootfd, &st)
	return st, err
}

// Attach says by which kernel the filesystem is mounted, and whether it has offered to read
// and write backing files by itself. Requests may come from now on.
func (f *FS) Attach(k Kernel, passthrough bool) {
	f.kernel.srv = k
	if !passthrough {
		return
	}
	// In another goroutine: the first thread would lose PR_SET_PDEATHSIG.
	dropped := make(chan error)
	go func() { dropped <- asuser.Nobody.Less(func() error { return nil }) }()
	err := <-dropped
	if f.disk.passthrough = err == nil; err != nil {
		f.disk.log.Warnf("no passthrough: %v", err)
	}
}

// Begin starts what runs beside the requests, and looks whether the kernel does what the
// promises rely on. Requests are served by now.
func (f *FS) Begin() error {
	go f.astray.walks.Sweep(f.life.done)
	go f.nodes.trim.Run()
	go f.view.virt.files.Trim(f.life.done)
	if f.disk.store != nil {
		go f.recorder.pruneRejected()
		go f.losses.remembers.Keep(f.life.done, f.losses.sweepKnowledge)
	}
	if err := f.identify(); err != nil {
		return err
	}
	if err := f.testKernel(); err != nil {
		return err
	}
	if f.disk.journal != nil && !f.disk.journal.Clean() {
		go f.recovery.sweepOrphans()
	}
	f.reports.event(audit.Event{Time: time.Now(), Event: "mount", Detail: map[string]any{"mountpoint": f.disk.opts.Mountpoint, "version": f.disk.opts.Version}})
	f.life.begun.Store(true)
	return nil
}

// IsMounted reports whether the mount is where it was made, as this process sees it. Somebody
// may have taken it away while another mount namespace has a copy.
func (f *FS) IsMounted() bool {
	i, err := mounts.Find(f.disk.opts.Mountpoint)
	if err != nil {
		f.disk.log.Warnf("the mount table cannot be read: %v", err)
		return true
	}
	return i != nil && i.ID == f.disk.mountID && unix.Mkdev(uint32(i.Major), uint32(i.Minor)) == f.disk.mountDev
}

// identify finds out how /proc shows the mount to other processes.
func (f *FS) identify() error {
	i, err := mounts.Find(f.disk.opts.Mountpoint)
	if err != nil {
		return err
	}
	if i == nil || i.FSType != mounts.FSType {
		return fmt.Errorf("%s vanished from the mount table", f.disk.opts.Mountpoint)
	}
	f.disk.mountID = i.ID
	f.disk.mountDev = unix.Mkdev(uint32(i.Major), uint32(i.Minor))
	f.disk.mounts, err = mounts.NewWatch(f.disk.opts.Mountpoint, f.disk.mountDev)
	return err
}
