package fs

import (
	"encoding/json"
	"os"
	"path"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"latchfs/fs/filed"
	"latchfs/journal/commit"
	"latchfs/lockmgr"
	"latchfs/lockmgr/policy/lockfile"
)

// This file brings claims over a restart, and removes the files of stale ones.

// claimsFile is the file of the state directory with the processes that may have claims.
// What is claimed stands in the claim files themselves.
const claimsFile = "claims.json"

// savedClaims is what the file holds.
type savedClaims struct {
	Boot   string                    `json:"boot"` // in which the process ids mean something
	Claims map[string][]filed.Member `json:"claims"`
}

// claimState writes the file, one after the other.
type claimState struct {
	mu sync.Mutex // held while it is written
}

// openFiled makes the room of the claims that are made by files. Processes and the room of
// locks by hand are known.
func (f *FS) openFiled() {
	host, _ := os.Hostname()
	f.filed = filed.New(filed.Config{
		Engine: claimEngine{f}, Locks: claimLocks{f.ctl.Claims, f.ctl}, Procs: f.proc, Host: host, Boot: bootTime(), Done: f.done,
	})
}

// bootTime is when the machine was started.
func bootTime() time.Time {
	var up unix.Timespec
	if unix.ClockGettime(unix.CLOCK_BOOTTIME, &up) != nil {
		return time.Time{}
	}
	return time.Now().Add(-time.Duration(up.Nano()))
}

// Changed implements filed.Engine. When the program that has claimed something goes on, a
// restart knows of it.
func (e claimEngine) Changed() {
	f := e.f
	if f.journal == nil || f.isOver() { // the state directory may be another daemon's by now
		return
	}
	f.claimState.mu.Lock()
	defer f.claimState.mu.Unlock()
	saved := savedClaims{Boot: bootID(), Claims: map[string][]filed.Member{}}
	for p, chain := range f.filed.Holders() {
		saved.Claims[e.Path(p)] = chain
	}
	data, err := json.Marshal(saved)
	if err == nil {
		err = f.writeState(claimsFile, data)
	}
	if err != nil {
		f.log.Warnf("after a restart it will not be known which processes have claims: %v", err)
	}
}

// restoreClaims enters the claim files that are there when the mount starts. It looks
// through the whole tree, and only if the policy knows claim files.
func (f *FS) restoreClaims() error {
	if !f.policy.HasClaimFiles() {
		return nil
	}
	var saved savedClaims
	if data, err := f.readState(claimsFile); err == nil {
		if json.Unmarshal(data, &saved) != nil || saved.Boot != bootID() {
			saved = savedClaims{}
		}
	}
	fd, err := unix.Openat(f.rootfd, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	f.restoreBelow(fd, f.names.Root(), "", saved.Claims)
	return nil
}

// restoreBelow is restoreClaims for a directory, which has the dentry up.
func (f *FS) restoreBelow(dirfd int, up *dentry, dir string, chains map[string][]filed.Member) {
	list, err := readEntries(dirfd, func(name string) bool { return name != "." && name != ".." && !commit.Reserved(name) })
	if err != nil {
		f.log.Warnf("%q may have claim files, but cannot be listed: %v", dir, err)
		return
	}
	for i := range list {
		name := list[i].name
		at := path.Join(dir, name)
		f.mu.Lock()
		d := f.names.Get(up, name)
		f.mu.Unlock()
		if rule := f.claimRule(at); rule != nil {
			f.restoreClaim(dirfd, d, at, rule, chains[at])
		} else if list[i].kind == unix.S_IFDIR {
			f.restoreDir(dirfd, d, at, chains)
		}
		f.putName(d)
	}
}

func (f *FS) restoreDir(up int, d *dentry, at string, chains map[string][]filed.Member) {
	fd, err := unix.Openat2(up, path.Base(at), &unix.OpenHow{
		Flags:   unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_XDEV, // the mount is not over others
	})
	if err != nil {
		return
	}
	defer unix.Close(fd)
	f.restoreBelow(fd, d, at, chains)
}

// restoreClaim enters one claim file. The claim is its owner's.
func (f *FS) restoreClaim(dirfd int, d *dentry, at string, rule *lockfile.Convention, chain []filed.Member) {
	var st unix.Stat_t
	if unix.Fstatat(dirfd, d.Name(), &st, unix.AT_SYMLINK_NOFOLLOW) != nil {
		return
	}
	by := &caller{f: f, uid: st.Uid, gid: st.Gid, owner: lockmgr.Owner{Start: f.serial.Add(1)}}
	by.haveGroups([]uint32{st.Gid}, false)
	fl := &filed.Filing{Rule: rule, By: by, Chain: chain, Restored: true}
	var err error
	if fl.Target, err = claimTarget(rule, at); err == nil {
		fl.Content, fl.Made, err = readClaimFile(dirfd, d.Name(), rule)
	}
	if err == nil {
		f.mu.Lock()
		fl.At = f.names.Ref(d)
		f.mu.Unlock()
		err = f.filed.File(fl)
	}
	if err != nil {
		f.log.Warnf("%q claims nothing: %v", at, err)
	}
}

// isDaemon reports whether the caller is latchfs itself.
func (c *caller) isDaemon() bool { return int(c.owner.PID) == os.Getpid() }

// mayTidy refuses to the daemon itself to remove anything but the file of a stale claim.
// The caller's lock on the name is held.
func (f *FS) mayTidy(c *caller, dir *inode, name string) unix.Errno {
	if !c.isDaemon() || !f.policy.HasClaimFiles() {
		return 0
	}
	at, of, _, ok := f.claimPlace(dir, name)
	if !ok || f.filed.MayRemove(f.claimAt(at, of)) != nil {
		return unix.EBUSY
	}
	return 0
}

// Remove implements filed.Engine. It goes through the mount, as a program would: so the
// kernel forgets the name, and the history has the file.
func (e claimEngine) Remove(p filed.Place) error {
	f := e.f
	if f.isOver() || f.isClosing() {
		return nil
	}
	mount, err := unix.Open(f.opts.Mountpoint, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(mount)
	var st unix.Stat_t
	if err := unix.Fstat(mount, &st); err != nil || uint64(st.Dev) != f.mountDev {
		return err // it was unmounted, or something else is mounted there
	}
	file := e.Path(p)
	parent, err := unix.Openat2(mount, filepath.Dir(file), &unix.OpenHow{
		Flags:   unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_XDEV,
	})
	if err != nil {
		return err
	}
	defer unix.Close(parent)
	name := filepath.Base(file)
	err = unix.Unlinkat(parent, name, 0)
	if err == unix.EISDIR {
		err = removeClaimDir(parent, name)
	}
	if err == unix.ENOENT {
		return nil // somebody was faster
	}
	return err
}

// removeClaimDir removes a directory that is a claim, with the files in it, its owner last:
// until then nobody else takes it for free.
func removeClaimDir(parent int, name string) error {
	fd, err := unix.Openat(parent, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	list, err := readEntries(fd, func(name string) bool { return name != "." && name != ".." && name != claimOwner })
	if err != nil {
		return err
	}
	for i := range list {
		if list[i].kind == unix.S_IFDIR {
			return unix.ENOTEMPTY
		}
	}
	for i := range list {
		if err := unix.Unlinkat(fd, list[i].name, 0); err != nil && err != unix.ENOENT {
			return err
		}
	}
	if err := unix.Unlinkat(fd, claimOwner, 0); err != nil && err != unix.ENOENT {
		return err
	}
	return unix.Unlinkat(parent, name, unix.AT_REMOVEDIR)
}
