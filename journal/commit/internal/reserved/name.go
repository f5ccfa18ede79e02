package reserved

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"

	"latchfs/journal"
	"latchfs/journal/commit/internal/disk"
)

// Name is the reserved name of one file, or none.
type Name struct {
	disk     *disk.Disk
	in       journal.Intent // stands for the name; the zero intent: there is none
	dir      int            // descriptor of the directory with the name, or -1
	borrows  bool           // what gets a name now lies in a directory whose descriptor the caller has
	borrowed bool           // dir is such a one
}

// New returns no name yet.
func New(d *disk.Disk) Name { return Name{disk: d, dir: -1} }

// Stands reports whether there is a name.
func (n *Name) Stands() bool { return n.in.ID != 0 }

// Intent is what the journal says of the name: the zero intent where there is none.
func (n *Name) Intent() journal.Intent { return n.in }

// Dir is the directory with the name. The descriptor stays the name's.
func (n *Name) Dir() int { return n.dir }

// Borrow lets the names that are taken until Own use the descriptors that they are given.
func (n *Name) Borrow() { n.borrows = true }

// Own ends the borrowing of the caller's descriptor, before the caller has it back. What
// cannot have one of its own goes on without the name.
func (n *Name) Own() {
	n.borrows = false
	if !n.borrowed {
		return
	}
	own, err := dup(n.dir)
	if err != nil {
		_ = n.Drop() // or Recover does
		return
	}
	n.dir, n.borrowed = own, false
}

func dup(fd int) (int, error) {
	own, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
	return own, os.NewSyscallError("dup", err)
}

// Take claims a reserved name in dir and records the intent in, completed with it. The file
// itself gets the name afterwards.
func (n *Name) Take(dir int, in journal.Intent) error {
	own, err := dir, error(nil)
	if !n.borrows {
		own, err = dup(dir)
	}
	if err != nil {
		return err
	}
	in.Shadow = n.disk.ClaimName()
	in.ID, err = n.disk.Begin(in)
	if err != nil {
		if !n.borrows {
			unix.Close(own)
		}
		n.disk.Release(in.Shadow)
		return err
	}
	n.in, n.dir, n.borrowed = in, own, n.borrows
	return nil
}

// Link gives the file fd, which has no name, a reserved one in dir.
func (n *Name) Link(fd, dir int, in journal.Intent) error {
	if err := n.Take(dir, in); err != nil {
		return err
	}
	return n.Give(fd)
}

// Give gives the file fd, which has no name, the one that was taken. After an error that is gone.
func (n *Name) Give(fd int) error {
	err := n.disk.Do("link", func() error { return disk.LinkFD(fd, n.dir, n.in.Shadow) })
	if err != nil {
		return errors.Join(err, n.Gone())
	}
	return nil
}

// Retag replaces the intent that stands for the name of the file with the inode ino. What was
// synced stays so.
func (n *Name) Retag(in journal.Intent, ino uint64) error {
	in.Synced = in.Synced || n.in.Synced
	if in.Synced && in.ShadowIno == 0 {
		in.ShadowIno = ino
	}
	return n.Replace(in)
}

// Replace replaces the intent that stands for the name.
func (n *Name) Replace(in journal.Intent) error {
	old := n.in
	in.ShadowDir, in.Shadow, in.InState = old.ShadowDir, old.Shadow, old.InState
	var err error
	if in.ID, err = n.disk.Begin(in); err != nil {
		return err
	}
	n.in = in
	return n.disk.Done(old.ID)
}

// Renamed notes the path that the name's directory has by now, for the next intent.
func (n *Name) Renamed(path string) { n.in.ShadowDir = path }

// MoveTo gives the file fd, with the inode ino, another reserved name, in dir, and the intent in.
// What was synced stays so. If it has got that, Intent is another one, also after an error.
func (n *Name) MoveTo(dir int, in journal.Intent, fd int, ino uint64) error {
	old := *n
	in.Synced, in.ShadowIno = in.Synced || old.in.Synced, ino
	if err := n.Take(dir, in); err != nil {
		return err
	}
	var err error
	if in.Synced { // whose bytes these are has to be known wherever they are
		err = n.disk.Do("syncjournal", n.disk.Journal.Sync)
	}
	if err == nil {
		err = n.disk.Do("rename", func() error { return unix.Renameat(old.dir, old.in.Shadow, n.dir, n.in.Shadow) })
	}
	if err != nil {
		failed := *n
		*n = old
		return errors.Join(err, failed.Gone())
	}
	if in.Synced { // the name before is forgotten when the disk has the new one
		if err := n.disk.SyncDir(n.dir, fd); err != nil {
			old.LeaveToRecovery()
			return err
		}
	}
	return old.Gone()
}

// Gone ends the intent after the name is gone from the disk, or was never there. An error
// means that only the journal does not know.
func (n *Name) Gone() error {
	if !n.Stands() {
		return nil
	}
	err := n.disk.Done(n.in.ID)
	if err != nil {
		n.disk.Abandon(n.in)
	}
	n.Forget()
	return err
}

// Drop removes the name from the disk. If that fails Recover will.
func (n *Name) Drop() error {
	if !n.Stands() {
		return nil
	}
	err := n.disk.Do("unlink", func() error { return unix.Unlinkat(n.dir, n.in.Shadow, 0) })
	if err != nil && !errors.Is(err, unix.ENOENT) {
		in := n.in
		in.Synced, in.Appears = false, false // nobody wants it any more
		n.disk.Abandon(in)
		n.Forget()
		return err
	}
	return n.Gone()
}

// LeaveToRecovery hands the name, or what is left of it, to a recovery.
func (n *Name) LeaveToRecovery() {
	if !n.Stands() {
		return
	}
	in := n.in
	in.Appears = false // a recovery of this run would show it to nobody who asks for the lock
	n.disk.Abandon(in)
	n.Forget()
}

// Forget gives the name up, whose intent somebody else ends.
func (n *Name) Forget() {
	n.disk.Release(n.in.Shadow)
	n.HandOver()
}

// HandOver leaves the name, which stays claimed, and its intent to somebody else.
func (n *Name) HandOver() {
	if !n.borrowed {
		unix.Close(n.dir)
	}
	n.in, n.dir, n.borrowed = journal.Intent{}, -1, false
}
