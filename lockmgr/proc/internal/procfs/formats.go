package procfs

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Field returns the value of a "name:  value" line.
func Field(content []byte, name string) (string, bool) {
	for line := range bytes.Lines(content) {
		rest, ok := bytes.CutPrefix(line, []byte(name))
		if !ok {
			continue
		}
		if rest, ok = bytes.CutPrefix(rest, []byte(":")); ok {
			return string(bytes.TrimSpace(rest)), true
		}
	}
	return "", false
}

// ParseUID reads the effective user id of a status file, the second of four.
func ParseUID(status []byte) uint32 {
	line, _ := Field(status, "Uid")
	ids := strings.Fields(line)
	if len(ids) < 2 {
		return 0
	}
	uid, _ := strconv.ParseUint(ids[1], 10, 32)
	return uint32(uid)
}

// ThreadGroup reads the process and the parent process of a thread from its status.
func (r *Root) ThreadGroup(tid int32) (tgid, ppid int32, err error) {
	err = r.WithFile(PIDPath(tid, "status"), func(b []byte) error {
		for line := range bytes.Lines(b) {
			name, value, _ := bytes.Cut(line, []byte(":"))
			var to *int32
			switch string(name) {
			case "Tgid":
				to = &tgid
			case "PPid":
				to = &ppid
			default:
				continue
			}
			v, err := strconv.ParseInt(string(bytes.TrimSpace(value)), 10, 32)
			if err != nil {
				return fmt.Errorf("malformed status of thread %d: %w", tid, err)
			}
			if *to = int32(v); to == &ppid {
				break
			}
		}
		return nil
	})
	return tgid, ppid, err
}

// ParseFileLimit reads the limit that holds for the length of files, in bytes, from a limits
// file: "Max file size  SOFT  HARD  bytes" (proc_pid_limits(5)).
func ParseFileLimit(limits []byte) (size uint64, limited bool) {
	for line := range bytes.Lines(limits) {
		rest, ok := bytes.CutPrefix(line, []byte("Max file size "))
		if !ok {
			continue
		}
		soft, _, _ := bytes.Cut(bytes.TrimSpace(rest), []byte(" "))
		n, err := strconv.ParseUint(string(soft), 10, 64)
		return n, err == nil // else it is "unlimited"
	}
	return 0, false
}

// InExec reports by a statm file whether a process is inside execve, between giving up its
// old memory and loading the new program: it shows memory then, but no code. The file has
// "size resident shared text lib data dt", in pages (proc_pid_statm(5)).
func InExec(b []byte) bool {
	fields := bytes.Fields(b)
	return len(fields) == 7 && string(fields[0]) != "0" && string(fields[3]) == "0"
}

// HasMemory reports by a statm file whether a thread has memory: what is ending has given that
// up before its children become another thread's.
func HasMemory(b []byte) bool { return len(b) > 0 && b[0] != '0' }

// ParseSchedstat reads the first of "cpu delay slices", the time on a processor
// in nanoseconds (Documentation/scheduler/sched-stats.rst).
func ParseSchedstat(b []byte) time.Duration {
	var ns time.Duration
	for _, c := range b {
		if c < '0' || '9' < c {
			break
		}
		ns = ns*10 + time.Duration(c-'0')
	}
	return ns
}

// ParsePIDs reads a list of numbers, each followed by a space.
func ParsePIDs(b []byte) []int32 {
	var pids []int32
	for _, f := range bytes.Fields(b) {
		if pid, err := strconv.ParseInt(string(f), 10, 32); err == nil {
			pids = append(pids, int32(pid))
		}
	}
	return pids
}

// SplitArgs takes a cmdline file apart, nil if it is empty.
func SplitArgs(b []byte) []string {
	b = bytes.TrimSuffix(b, []byte{0})
	if len(b) == 0 {
		return nil
	}
	return strings.Split(string(b), "\x00")
}

// Variable returns the value of a variable of an environ file, "" if it is not set. Of several of one name the first
// counts, as for getenv(3).
func Variable(environ []byte, name string) string {
	prefix := []byte(name + "=")
	for entry := range bytes.SplitSeq(environ, []byte{0}) {
		if value, ok := bytes.CutPrefix(entry, prefix); ok {
			return string(value)
		}
	}
	return ""
}

// ParseWritten reports by an io file whether a process has written (proc_pid_io(5)): "wchar: N",
// the bytes of all its write(2) and the like, or "write_bytes: N", those of pages that it has made
// dirty otherwise (splice, io_uring). known is false if the file says neither.
func ParseWritten(io []byte) (written, known bool) {
	for line := range bytes.Lines(io) {
		name, value, _ := bytes.Cut(bytes.TrimSpace(line), []byte(": "))
		if string(name) != "wchar" && string(name) != "write_bytes" {
			continue
		}
		n, err := strconv.ParseUint(string(value), 10, 64)
		if err != nil {
			return false, false
		}
		written, known = written || n > 0, true
	}
	return written, known
}
