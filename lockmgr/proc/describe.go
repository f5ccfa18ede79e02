package proc

import (
	"bytes"
	"strconv"
	"strings"

	"latchfs/lockmgr"
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

// maxEnviron bounds what FirstEnv reads of an environment, in bytes.
const maxEnviron = 256 << 10

// FirstEnv returns the value of the first of some variables that is set and not
// empty in the environment that a process was started with, or "". What changed
// in it since, the process alone knows. (In execve there is none. Variables
// behind the first 256 KiB are not seen.)
func (r *Reader) FirstEnv(pid int32, names []string) string {
	if len(names) == 0 {
		return ""
	}
	environ, err := patiently(r, pid, func(*asking) ([]byte, error) {
		return r.readUpTo(pidPath(pid, "environ"), maxEnviron)
	})
	if err != nil {
		return ""
	}
	if len(environ) == maxEnviron { // half a value is worse than none
		environ = environ[:bytes.LastIndexByte(environ, 0)+1]
	}
	for _, name := range names {
		if value := variable(environ, name); value != "" {
			return value
		}
	}
	return ""
}

// EnvOf is FirstEnv of a process that is this one and not another one that has got its
// pid since.
func (r *Reader) EnvOf(o lockmgr.Owner, names []string) string {
	value := r.FirstEnv(o.PID, names)
	if value == "" || !r.Alive(o) {
		return ""
	}
	return value
}

// variable returns the value of a variable. Of several of one name the first
// counts, as for getenv(3).
func variable(environ []byte, name string) string {
	prefix := []byte(name + "=")
	for entry := range bytes.SplitSeq(environ, []byte{0}) {
		if value, ok := bytes.CutPrefix(entry, prefix); ok {
			return string(value)
		}
	}
	return ""
}
