package procfs

import (
	"bytes"
	"strconv"

	"golang.org/x/sys/unix"
)

// Fdinfo is what proc_pid_fdinfo(5) says of a descriptor.
type Fdinfo struct {
	Pos     int64 // in bytes
	Flags   int   // as of open(2)
	MountID int
	Ino     uint64
}

// ParseFdinfo reads an fdinfo file. It is not ok if one of the four is missing or
// malformed.
func ParseFdinfo(b []byte) (d Fdinfo, ok bool) {
	var seen int
	for line := range bytes.Lines(b) {
		name, value, _ := bytes.Cut(line, []byte(":"))
		text := string(bytes.TrimSpace(value))
		var err error
		switch string(name) {
		case "pos":
			d.Pos, err = strconv.ParseInt(text, 10, 64)
		case "flags":
			var v int64
			v, err = strconv.ParseInt(text, 8, 64)
			d.Flags = int(v)
		case "mnt_id":
			d.MountID, err = strconv.Atoi(text)
		case "ino":
			d.Ino, err = strconv.ParseUint(text, 10, 64)
		default:
			continue
		}
		if err != nil {
			return d, false
		}
		if seen++; seen == 4 {
			return d, true
		}
	}
	return d, false
}

// MountDev finds the device of a mount, as st_dev has it, in a mountinfo file: "ID PARENT
// MAJOR:MINOR ROOT …" (proc_pid_mountinfo(5)).
func MountDev(mountinfo []byte, id int) (dev uint64, ok bool) {
	prefix := strconv.AppendInt(nil, int64(id), 10)
	prefix = append(prefix, ' ')
	for line := range bytes.Lines(mountinfo) {
		if !bytes.HasPrefix(line, prefix) {
			continue
		}
		fields := bytes.SplitN(line, []byte(" "), 4)
		if len(fields) < 4 {
			return 0, false
		}
		return parseDev(fields[2], 10)
	}
	return 0, false
}

// parseDev reads "MAJOR:MINOR".
func parseDev(b []byte, base int) (dev uint64, ok bool) {
	major, minor, _ := bytes.Cut(b, []byte(":"))
	ma, err := strconv.ParseUint(string(major), base, 32)
	if err != nil {
		return 0, false
	}
	mi, err := strconv.ParseUint(string(minor), base, 32)
	if err != nil {
		return 0, false
	}
	return unix.Mkdev(uint32(ma), uint32(mi)), true
}
