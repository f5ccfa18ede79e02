package proc

import (
	"bytes"

	"golang.org/x/sys/unix"

	"latchfs/lockmgr"
	"latchfs/lockmgr/proc/internal/procfs"
)

// All lists every process that can be seen, in no order. It reads the whole of
// /proc: for rare questions only.
func (r *Reader) All() []lockmgr.Owner {
	dir, err := r.root.OpenDir(".")
	if err != nil {
		return nil
	}
	defer unix.Close(dir)
	var all []lockmgr.Owner
	_ = procfs.Numbers(dir, func(pid int32) error {
		if th, err := r.Process(pid); err == nil {
			all = append(all, th.Owner)
		}
		return nil
	})
	return all
}

// Program is the short name (comm) of a process, "" if it is gone.
func (r *Reader) Program(pid int32) string {
	var name string
	_ = r.withPIDFile(pid, keptComm, "comm", func(b []byte) error {
		name = string(bytes.TrimSuffix(b, []byte("\n")))
		return nil
	})
	return name
}
