package proc

import (
	"errors"
	"fmt"
	"os"
	"slices"

	"golang.org/x/sys/unix"

	"latchfs/lockmgr/proc/internal/procfs"
)

// File is a file as /proc shows it, and as the kernel remembers it: what would ask the
// filesystem, the mount included that may be asking here, is not needed.
type File struct {
	Dev     uint64   // of its filesystem, as st_dev
	Ino     uint64   // as st_ino
	Also    []uint64 // by which of its earlier numbers the kernel may still know it
	MountID int      // the mount it is usually reached through; 0 = unknown
	// NoAppend leaves out descriptors in append mode (O_APPEND).
	NoAppend bool
}

// has reports whether a number is one of the file's.
func (f *File) has(ino uint64) bool { return ino == f.Ino || slices.Contains(f.Also, ino) }

// IsHidden reports whether a look has failed because the kernel shows the process to other users
// than this one alone (PTRACE_MODE_READ, ptrace(2)): what it has open is not known then.
func IsHidden(err error) bool { return errors.Is(err, os.ErrPermission) }

// Opens counts the descriptors that a process has of a file: those open for
// writing, and those open for reading only. O_PATH descriptors do not count. A
// process that has gone, or is exiting and has closed everything, has none; the
// descriptor whose close is under way (FLUSH) is not counted any more. Threads
// that share no descriptors with their leader (unshare(2), CLONE_FILES) and
// descriptors in flight over a socket are not seen. The error is ErrBusy if one of the
// descriptors does not say what it is, and one that IsHidden knows if this process may not see them.
func (r *Reader) Opens(pid int32, f File) (writable, readable int, err error) {
	c, err := patientlyOfFiles(r, pid, func(a *asking) (*openCounter, error) {
		c := &openCounter{r: r, a: a, pid: pid, file: f}
		any, err := c.count(procfs.PIDPath(pid, ""))
		if err == nil && !any {
			err = c.countThreads()
		}
		return c, err
	})
	if err != nil {
		return 0, 0, fmt.Errorf("descriptors of process %d: %w", pid, err)
	}
	return c.writable, c.readable, nil
}

// Descriptors is how many descriptors a process has, of whatever; 0 where the kernel does
// not tell (before Linux 6.2, see proc_pid_fd(5)), and of a process that has gone.
func (r *Reader) Descriptors(pid int32) int64 {
	var st unix.Stat_t
	if unix.Fstatat(r.root.Dir(), procfs.PIDPath(pid, "fd"), &st, 0) != nil {
		return 0
	}
	return st.Size
}

// AtStart reports whether a process has a descriptor of a file, for reading, all of
// which stand at the file's beginning: nothing was read through them, unless by
// pread(2) or a mapping.
func (r *Reader) AtStart(pid int32, f File) bool {
	c, err := patientlyOfFiles(r, pid, func(a *asking) (*openCounter, error) {
		c := &openCounter{r: r, a: a, pid: pid, file: f}
		_, err := c.count(procfs.PIDPath(pid, ""))
		return c, err
	})
	return err == nil && c.readable > 0 && !c.moved
}

// openCounter goes through the descriptors of one process.
type openCounter struct {
	r                  *Reader
	a                  *asking
	pid                int32
	file               File
	writable, readable int
	moved              bool // one for reading does not stand at the beginning
}

// countThreads is for a process without descriptors: if only its leader has
// ended, the other threads show them.
func (c *openCounter) countThreads() error {
	tids, err := c.r.root.Threads(c.pid)
	if err != nil {
		return procfs.IgnoreGone(err)
	}
	for _, tid := range tids {
		if tid == c.pid {
			continue
		}
		if any, err := c.count(procfs.TaskPath(c.pid, tid, "")); any || err != nil {
			return err
		}
	}
	return nil
}

// count goes through the descriptors of one thread, of which path is the directory in
// /proc; any tells that it has some.
func (c *openCounter) count(path string) (any bool, err error) {
	list, err := c.open(path)
	if err != nil {
		return false, procfs.IgnoreGone(err)
	}
	defer unix.Close(list.dir)
	err = procfs.Numbers(list.dir, func(fd int32) error {
		any = true
		c.a.Answered()
		return procfs.IgnoreGone(c.look(list, fd)) // gone: closed since it was listed
	})
	return any, procfs.IgnoreGone(err)
}

// take counts a descriptor by its fdinfo.
func (c *openCounter) take(b []byte) error {
	d, ok := procfs.ParseFdinfo(b)
	if !ok || d.Flags&unix.O_PATH != 0 || !c.file.has(d.Ino) || !c.onFilesystem(d.MountID) {
		return nil
	}
	if c.file.NoAppend && d.Flags&unix.O_APPEND != 0 {
		return nil
	}
	if d.Flags&unix.O_ACCMODE == unix.O_RDONLY {
		c.readable++
		c.moved = c.moved || d.Pos != 0
	} else {
		c.writable++
	}
	return nil
}

// onFilesystem reports whether a mount shows the file's filesystem, be it the
// usual mount of it, a bind mount, or a copy in another mount namespace. A mount
// that cannot be looked up is taken for one that does.
func (c *openCounter) onFilesystem(mountID int) bool {
	if mountID == c.file.MountID && mountID != 0 {
		return true
	}
	for _, path := range []string{procfs.PIDPath(c.pid, "mountinfo"), "self/mountinfo"} {
		if mounts, err := c.r.root.ReadAll(path); err == nil {
			if dev, ok := procfs.MountDev(mounts, mountID); ok {
				return dev == c.file.Dev
			}
		}
	}
	return true
}
