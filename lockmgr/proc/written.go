package proc

import "latchfs/lockmgr/proc/internal/procfs"

// HasWritten reports whether a process has written anything at all, to whatever file, since it
// was forked; not what it has stored into mappings. Children that it has waited for count as
// itself. known is false where nobody can tell. It is for processes that are dying: it would
// wait for one that is in execve.
func (r *Reader) HasWritten(pid int32) (written, known bool) {
	if pid <= 0 {
		return false, false
	}
	err := r.root.WithFile(procfs.PIDPath(pid, "io"), func(b []byte) error {
		written, known = procfs.ParseWritten(b)
		return nil
	})
	return written, known && err == nil
}

// RunsAsParent reports whether a process is a worker of its parent's program: it was forked from
// that, neither has called execve(2) since, and the parent lives. It is false where the kernel
// does not tell of forks.
func (r *Reader) RunsAsParent(pid int32) bool { return r.forks.RunsAsParent(pid) }
