package proc

import (
	"fmt"

	"latchfs/lockmgr/proc/internal/procfs"
)

// MapsWritable reports whether a process has a shared, writable mapping of a
// file: stores to it may still change the file after the last close. With
// passthrough the kernel may name the FUSE file or the file behind it, so both
// are looked for; a zero File is none. A process that has gone, or is inside
// execve, maps nothing any more. The error is ErrBusy while the process's memory
// is locked otherwise.
func (r *Reader) MapsWritable(pid int32, f, backing File) (bool, error) {
	is := func(dev, ino uint64) bool {
		return ino != 0 && (f.has(ino) && dev == f.Dev || ino == backing.Ino && dev == backing.Dev)
	}
	if r.inExec(pid) {
		return false, nil
	}
	found, err := patiently(r, pid, func(*asking) (bool, error) {
		found, err := r.root.MapsShared(procfs.TaskPath(pid, pid, "maps"), is)
		if err != ErrGone {
			return found, err
		}
		// A leader that has ended shows no memory; the other threads do.
		tid, err := r.otherThread(pid)
		if err != nil {
			return false, err
		}
		return r.root.MapsShared(procfs.TaskPath(pid, tid, "maps"), is)
	})
	if err == ErrGone || err == ErrBusy && r.inExec(pid) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("mappings of process %d: %w", pid, err)
	}
	return found, nil
}

// otherThread finds a thread of a process that is not its leader.
func (r *Reader) otherThread(pid int32) (int32, error) {
	tids, err := r.root.Threads(pid)
	if err != nil {
		return 0, err
	}
	for _, tid := range tids {
		if tid != pid {
			return tid, nil
		}
	}
	return 0, ErrGone
}
