package proc

import (
	"golang.org/x/sys/unix"

	"latchfs/lockmgr/proc/internal/procfs"
)

// IsOutput reports whether a process has a file open for writing as its standard
// output or standard error. As far as it cannot be seen it has not.
func (r *Reader) IsOutput(pid int32, f File) bool {
	is, _ := patientlyOfFiles(r, pid, func(a *asking) (bool, error) {
		c := &openCounter{r: r, a: a, pid: pid, file: f}
		list, err := c.open(procfs.PIDPath(pid, ""))
		if err != nil {
			return false, err
		}
		defer unix.Close(list.dir)
		for _, fd := range []int32{1, 2} {
			_ = c.look(list, fd) // closed, as that of a daemon may be
		}
		return c.writable > 0, nil
	})
	return is
}
