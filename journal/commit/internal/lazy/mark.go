package lazy

import (
	"fmt"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"latchfs/journal"
	"latchfs/journal/commit/internal/disk"
)

// Mark is what the marker beside a lazily published file says: in its name (linkName) if it
// is a link, in its text (String) if it is a symbolic one.
type Mark struct {
	seq    uint64 // rises from commit to commit of a run
	ino    uint64 // of the new version
	birth  int64  // and when it was made, in nanoseconds; 0 if that is not known
	size   int64  // of its content
	mtime  int64  // modification time in nanoseconds since 1970
	crc    uint32 // and the CRC-32C of that
	oldIno uint64 // of the version that it replaces, 0 if there was none
	old    string // the reserved name beside the marker that this got, "" if none
	keep   string // the content id under which it went on into the history, "" if it did not
	name   string // of the file
}

const magic = "latchfs-lazy-2"

// String is the text of the symbolic link that is the marker.
func (m Mark) String() string {
	s := fmt.Sprintf("%x %x %x %x %x %x %x %s %s %s",
		m.seq, m.ino, m.birth, m.size, m.mtime, m.crc, m.oldIno, orDash(m.old), orDash(m.keep), m.name)
	return fmt.Sprintf("%s %08x %s", magic, journal.Checksum([]byte(s)), s)
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// ParseMark reads a marker. ok is false if the text is none, or not whole.
func ParseMark(text string) (m Mark, ok bool) {
	head, rest, _ := strings.Cut(text, " ")
	sum, rest, _ := strings.Cut(rest, " ")
	crc, err := strconv.ParseUint(sum, 16, 32)
	if head != magic || err != nil || uint32(crc) != journal.Checksum([]byte(rest)) {
		return m, false
	}
	f := strings.SplitN(rest, " ", 10)
	if len(f) != 10 {
		return m, false
	}
	ok = true
	number := func(s string, bits int) uint64 {
		n, err := strconv.ParseUint(s, 16, bits)
		ok = ok && err == nil
		return n
	}
	signed := func(s string) int64 {
		n, err := strconv.ParseInt(s, 16, 64)
		ok = ok && err == nil
		return n
	}
	m = Mark{
		seq: number(f[0], 64), ino: number(f[1], 64), birth: signed(f[2]), size: signed(f[3]), mtime: signed(f[4]),
		crc: uint32(number(f[5], 32)), oldIno: number(f[6], 64), old: noDash(f[7]), keep: noDash(f[8]), name: f[9],
	}
	return m, ok && m.isPlausible()
}

// isPlausible reports whether a commit can have said so.
func (m *Mark) isPlausible() bool {
	return m.name != "" && m.name != "." && m.name != ".." && !strings.ContainsAny(m.name, "/\x00") && !disk.Reserved(m.name) &&
		(m.old == "" || disk.Generated(m.old))
}

func noDash(s string) string {
	if s == "-" {
		return ""
	}
	return s
}

// ReadMark reads the marker e of a directory of the data root s.
func ReadMark(s *disk.Disk, dir int, e disk.Entry) (Mark, bool) {
	if m, ok := parseName(e.Name); ok {
		return m, isMarkerInode(s, dir, e.Name)
	}
	if !disk.Generated(e.Name) || e.IsDir {
		return Mark{}, false
	}
	buf := make([]byte, unix.PathMax)
	n, err := unix.Readlinkat(dir, e.Name, buf)
	if err != nil {
		return Mark{}, false
	}
	return ParseMark(string(buf[:n]))
}
