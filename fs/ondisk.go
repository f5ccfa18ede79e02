package fs

import (
	"time"

	"golang.org/x/sys/unix"

	"latchfs/fs/content"
	"latchfs/fs/sessionstate"
	"latchfs/journal/audit"
	"latchfs/journal/commit"
	"latchfs/lockmgr/policy"
)

// This file sees to what the durability "auto" promises of what is new (docs/policy.md, durability): a
// name that was made, changed or removed, and a record that was appended, are on disk
// within a second, without anybody waiting for that.

// durability is what the session's commit waits for. A program that has called fsync on
// a new file wants that file on disk: there it is, if under another name, and a crash
// brings it back. What goes live is written on.
func (s *session) durability() commit.Durability {
	set := s.settings.Durability
	switch live := s.state.Is(sessionstate.GoingLive); {
	case set == policy.AutoDurability && (live || s.saved.WantsDisk(s.shadow.Secured())):
		return commit.Full
	case set == policy.Lazy && live:
		return commit.Ordered
	}
	return commit.Durability(set)
}

// isSoonOnDisk reports whether the policy wants what is new under a path on disk within a
// second.
func (nm *names) isSoonOnDisk(path string) bool {
	set := nm.rules.settings(path)
	return set.Mode == policy.Atomic && set.Durability == policy.AutoDurability
}

// namesSoonOnDisk is called after something was done to a name in a directory.
func (nm *names) namesSoonOnDisk(dir *inode, name string) {
	if nm.disk.store == nil || !nm.isSoonOnDisk(nm.nodes.path(dir, name)) {
		return
	}
	fd, path := nm.nodes.fdOf(dir), nm.nodes.nodePath(dir)
	err := nm.disk.store.NamesSoon(dir.onDisk(), path, func() (int, error) {
		return unix.Openat(fd, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	})
	if err != nil {
		nm.disk.log.Debugf("%q: its names are on disk when the filesystem writes them: %v", path, err)
	}
}

// nameGone is called after a name was taken away from a file. made says that the file was
// made a moment ago, and the disk did not know it yet: a crash need not leave it.
func (nm *names) nameGone(dir *inode, name string, made bool) {
	nm.namesSoonOnDisk(dir, name)
	if !made && nm.disk.store != nil && nm.isSoonOnDisk(nm.nodes.path(dir, name)) {
		nm.disk.store.NameGone(dir.onDisk(), name)
	}
}

// isMade reports whether a file was made a moment ago, and the disk may not know it yet.
func (nm *names) isMade(st *unix.Stat_t) bool {
	return nm.disk.store != nil && st != nil && nm.disk.store.IsMade(st)
}

// onDisk is how the store knows n.
func (n *inode) onDisk() commit.Inode { return commit.Inode{Dev: n.key.dev, Ino: n.key.ino} }

// lostSince is EIO, once, if the disk has failed to take what the file or the directory
// holds, and nobody has asked since: as of fsync(2), which tells of an earlier failure.
func (nm *names) lostSince(n *inode) unix.Errno {
	if nm.disk.store == nil || nm.disk.store.Lost(n.onDisk()) == nil {
		return 0
	}
	return unix.EIO
}

// noteLost tells of what was acknowledged and cannot be put on the disk.
func (nm *names) noteLost(path string, err error) {
	nm.disk.log.Errorf("%q: %v: %v", path, commit.ErrNotDurable, err)
	nm.reports.event(audit.Event{Time: time.Now(), Event: "not_durable", Path: path, Detail: map[string]any{"reason": err.Error()}})
}

// waitsForDisk reports whether the rename of a file over another is to be on disk before
// it is answered. A program that has synced the file saves by itself, and syncs the
// directory if it wants to know. Whatever a crash leaves, both versions are whole.
func (r *renaming) waitsForDisk() bool {
	set := r.rules.settings(r.nodes.path(r.to.dir, r.to.name))
	switch {
	case !r.replacesFile(), set.Mode != policy.Atomic:
		return false
	case set.Durability == policy.AutoDurability:
		return !r.isSynced()
	}
	return set.Durability == policy.Full
}

// isSynced reports whether the file that is renamed is as its program has synced it.
func (r *renaming) isSynced() bool {
	if r.from.inode == nil || r.fromSt == nil || r.merging != nil {
		return false
	}
	r.nodes.mu.Lock()
	defer r.nodes.mu.Unlock()
	return r.from.inode.synced == content.StampOf(r.fromSt)
}

// makeDurable syncs the directory after a file was renamed over another: that
// is a commit like a close.
func (r *renaming) makeDurable() unix.Errno {
	r.names.nameGone(r.from.dir, r.from.name, r.anew)
	if !r.waitsForDisk() {
		r.names.namesSoonOnDisk(r.to.dir, r.to.name)
		return 0
	}
	fd, err := unix.Openat(r.nodes.fdOf(r.to.dir), ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return 0 // not readable: the rename itself is done
	}
	defer unix.Close(fd)
	if err := r.disk.store.SyncNames(fd, func() error { return unix.Fsync(fd) }); err != nil {
		// As at a close: the new version is there, but the program asked for more.
		r.disk.log.Errorf("%q: renamed, but not known to be on disk: %v", r.nodes.path(r.to.dir, r.to.name), err)
		r.forgetNames()
		return unix.EIO
	}
	return 0
}

// forgetNames makes the kernel look the names up again, which takes a rename that was
// answered with an error for one that has not happened.
func (r *renaming) forgetNames() {
	go func() { // when the kernel has given the directories' locks back
		for _, p := range []place{r.from, r.to} {
			r.kernel.forgetName(p.dir, p.name)
		}
	}()
}
