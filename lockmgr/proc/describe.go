package proc

import (
	"bytes"

	"latchfs/lockmgr/proc/internal/procfs"
)

// Description is what people want to know of a process. What could not be read
// is empty.
type Description struct {
	Program string   // the kernel's name for it, up to 15 bytes
	Cmdline []string // the arguments, as the process shows them now
	Cwd     string   // its working directory
	UID     uint32   // its effective user
}

// maxCmdline bounds the arguments that Describe returns, in bytes.
const maxCmdline = 4096

// Describe tells what a process is. Its parts are read one after the other and
// come from the process itself: they are for people to read, and for nothing
// else.
func (r *Reader) Describe(pid int32) Description {
	var d Description
	_ = r.root.WithFile(procfs.PIDPath(pid, "status"), func(b []byte) error {
		d.UID = procfs.ParseUID(b)
		return nil
	})
	_ = r.root.WithFile(procfs.PIDPath(pid, "comm"), func(b []byte) error {
		d.Program = string(bytes.TrimSuffix(b, []byte("\n")))
		return nil
	})
	cmdline, _ := patiently(r, pid, func(*asking) ([]byte, error) {
		return r.root.ReadUpTo(procfs.PIDPath(pid, "cmdline"), maxCmdline)
	})
	d.Cmdline = procfs.SplitArgs(cmdline)
	d.Cwd, _ = patiently(r, pid, func(*asking) (string, error) { return r.root.Link(procfs.PIDPath(pid, "cwd")) })
	return d
}
