package fs

import (
	"golang.org/x/sys/unix"

	"latchfs/journal/commit"
	"latchfs/lockmgr/policy"
)

// This file sees to what the durability "auto" promises of what is new (DESIGN §4.3): a
// name that was made, changed or removed, and a record that was appended, are on disk
// within a second, without anybody waiting for that.

// durability is what the session's commit waits for. A program that has called fsync on
// a new file wants that file on disk: there it is, if under another name, and a crash
// brings it back. What goes live is written on.
func (s *session) durability() commit.Durability {
	set := s.settings.Durability
	switch live := s.state == stateGoingLive; {
	case set == policy.AutoDurability && (live || s.asksForDisk || s.synced != (cacheStamp{}) && !s.shadow.Secured()):
		return commit.Full
	case set == policy.Lazy && live:
		return commit.Ordered
	}
	return commit.Durability(set)
}

// isSoonOnDisk reports whether the policy wants what is new under a path on disk within a
// second.
func (f *FS) isSoonOnDisk(path string) bool {
	set := f.settings(path)
	return set.Mode == policy.Atomic && set.Durability == policy.AutoDurability
}

// namesSoonOnDisk is called after something was done to a name in a directory.
func (f *FS) namesSoonOnDisk(dir *inode, name string) { f.nameSoonOnDisk(dir, name, false) }

// nameGone is called after a name was taken away.
func (f *FS) nameGone(dir *inode, name string) { f.nameSoonOnDisk(dir, name, true) }

func (f *FS) nameSoonOnDisk(dir *inode, name string, gone bool) {
	if f.store == nil || !f.isSoonOnDisk(f.path(dir, name)) {
		return
	}
	f.mu.Lock()
	fd, in := dir.fd, commit.Inode{Dev: dir.key.dev, Ino: dir.key.ino}
	f.mu.Unlock()
	err := f.store.Soon(in, func() (int, error) {
		return unix.Openat(fd, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	})
	if err != nil {
		f.log.Debugf("%q: its names are on disk when the filesystem writes them: %v", f.nodePath(dir), err)
	}
	if gone {
		f.store.NameGone(in, name)
	}
}

// recordsSoonOnDisk is called after a record was appended. a.mu is held.
func (a *appender) recordsSoonOnDisk() {
	f := a.f
	if !f.isSoonOnDisk(f.nodePath(a.h.n)) {
		return
	}
	err := f.store.Soon(commit.Inode{Dev: a.key.dev, Ino: a.key.ino}, func() (int, error) {
		return unix.FcntlInt(uintptr(a.fd), unix.F_DUPFD_CLOEXEC, 0)
	})
	if err != nil {
		f.log.Debugf("%q: its records are on disk when the filesystem writes them: %v", f.nodePath(a.h.n), err)
	}
	f.mu.Lock()
	fresh := a.h.n.fresh
	f.mu.Unlock()
	if dir, name := f.nameOf(a.h.n); fresh && dir != nil {
		f.namesSoonOnDisk(dir, name)
	}
}
