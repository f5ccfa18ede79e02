package recovery

import (
	"os"

	"golang.org/x/sys/unix"

	"latchfs/journal"
	"latchfs/journal/commit/internal/disk"
)

// appear gives the shadow of a file that was new its name. The shadow's writer may have outlived
// the daemon: with passthrough the kernel goes on writing the inode for it, past everybody. Then
// a copy gets the name, and what is written from now on is nobody's.
func (s *Recoverer) appear(dir int, in journal.Intent) error {
	fd, err := disk.OpenShadow(dir, in.Shadow)
	if err == nil {
		defer unix.Close(fd)
		if disk.IsWritten(fd) {
			to, err := s.copyBeside(dir, fd)
			if err == nil {
				defer unix.Close(to)
				return s.appearAs(dir, to, in)
			}
		}
	}
	return s.disk.Do("rename", func() error { return renameNew(dir, in.Shadow, in.Name) })
}

// appearAs gives the file to the name in place of the shadow.
func (s *Recoverer) appearAs(dir, to int, in journal.Intent) error {
	if err := s.disk.Do("link", func() error { return disk.LinkFD(to, dir, in.Name) }); err != nil {
		return err
	}
	return s.disk.RemoveName(dir, in.Shadow)
}

// copyBeside makes a file without a name that is like fd, and on disk.
func (s *Recoverer) copyBeside(dir, fd int) (to int, err error) {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return -1, os.NewSyscallError("fstat", err)
	}
	err = s.disk.Do("tmpfile", func() error {
		to, err = unix.Openat(dir, ".", unix.O_TMPFILE|unix.O_RDWR|unix.O_CLOEXEC, 0o600)
		return err
	})
	if err != nil {
		return -1, err
	}
	if err := s.makeLike(fd, to, &st); err != nil {
		unix.Close(to)
		return -1, err
	}
	return to, nil
}

// makeLike makes the empty file to what fd is, which has the status st.
func (s *Recoverer) makeLike(fd, to int, st *unix.Stat_t) error {
	if err := s.disk.CopyFlags(fd, to); err != nil { // first: some want an empty file
		return err
	}
	if err := s.disk.CopyContent(nil, fd, to, st.Size); err != nil {
		return err
	}
	// An owner that is new takes capabilities away, and an ACL changes the mode.
	if err := s.disk.Do("chown", func() error { return unix.Fchown(to, int(st.Uid), int(st.Gid)) }); err != nil {
		return err
	}
	if _, err := s.disk.CopyXattrs(fd, to, disk.AnyXattr); err != nil {
		return err
	}
	if err := s.disk.Do("chmod", func() error { return unix.Fchmod(to, st.Mode&0o7777) }); err != nil {
		return err
	}
	if err := s.disk.Do("utimens", func() error { return disk.Futimens(to, [2]unix.Timespec{st.Atim, st.Mtim}) }); err != nil {
		return err
	}
	return s.disk.Do("fsync", func() error { return unix.Fsync(to) })
}
