package proc

import (
	"golang.org/x/sys/unix"

	"latchfs/lockmgr/proc/internal/procfs"
)

// FileLimit is how long the files may become that a process writes, in bytes (RLIMIT_FSIZE,
// setrlimit(2)), and whether there is such a limit: a process that has gone has none.
// Prlimit(2) answers at once, but of other users' processes only with CAP_SYS_RESOURCE.
// The file in /proc is anybody's, and reading it waits for nothing.
func (r *Reader) FileLimit(pid int32) (bytes uint64, limited bool) {
	if pid <= 0 {
		return 0, false // 0 is who asks, to prlimit(2)
	}
	var limit unix.Rlimit
	switch err := unix.Prlimit(int(pid), unix.RLIMIT_FSIZE, nil, &limit); err {
	case nil:
		return limit.Cur, limit.Cur != unix.RLIM_INFINITY
	case unix.EPERM:
	default:
		return 0, false
	}
	err := r.root.WithFile(procfs.PIDPath(pid, "limits"), func(b []byte) error {
		bytes, limited = procfs.ParseFileLimit(b)
		return nil
	})
	return bytes, limited && err == nil
}
