package proc

import (
	"bytes"
	"strconv"
	"strings"
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
	_ = r.withFile(pidPath(pid, "status"), func(b []byte) error {
		d.UID = parseUID(b)
		return nil
	})
	_ = r.withFile(pidPath(pid, "comm"), func(b []byte) error {
		d.Program = string(bytes.TrimSuffix(b, []byte("\n")))
		return nil
	})
	cmdline, _ := patiently(r, pid, func(*asking) ([]byte, error) {
		return r.readUpTo(pidPath(pid, "cmdline"), maxCmdline)
	})
	d.Cmdline = splitArgs(cmdline)
	d.Cwd, _ = patiently(r, pid, func(*asking) (string, error) { return r.link(pidPath(pid, "cwd")) })
	return d
}

// parseUID reads the effective user id of a status file, the second of four.
func parseUID(status []byte) uint32 {
	line, _ := field(status, "Uid")
	ids := strings.Fields(line)
	if len(ids) < 2 {
		return 0
	}
	uid, _ := strconv.ParseUint(ids[1], 10, 32)
	return uint32(uid)
}
