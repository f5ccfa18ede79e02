package lazy

import (
	"encoding/base32"
	"encoding/binary"
	"encoding/hex"
	"strings"

	"golang.org/x/sys/unix"

	"latchfs/journal"
	"latchfs/journal/commit/internal/disk"
)

// longestName bounds the names of a directory, in bytes (NAME_MAX).
const longestName = 255

// alphabet is that of a marker's name. A directory may ignore the case of its names.
var alphabet = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

// Which fields a marker's name has.
const (
	hasOld  = 1 << iota // the reserved name of the old version
	hasKeep             // the content id of the old version
)

// linkName is what the mark says as the name of a link; ok is false if that is too long, or
// cannot be said so.
func (m *Mark) linkName() (name string, ok bool) {
	var room [256]byte
	b := append(room[:0], 0, 0, 0, 0) // the checksum
	b = binary.AppendUvarint(b, m.seq)
	b = binary.AppendUvarint(b, m.ino)
	b = binary.AppendVarint(b, m.birth)
	b = binary.AppendUvarint(b, uint64(m.size))
	b = binary.AppendVarint(b, m.mtime-m.birth)
	b = binary.LittleEndian.AppendUint32(b, m.crc)
	b = binary.AppendUvarint(b, m.oldIno)
	fields := len(b)
	b = append(b, 0)
	for i, digits := range []string{strings.TrimPrefix(m.old, disk.ReservedPrefix), m.keep} {
		if digits == "" {
			continue
		}
		n := len(b)
		if b, ok = appendHex(b, digits); !ok || len(b)-n != idSize {
			return "", false
		}
		b[fields] |= 1 << i
	}
	b = append(b, m.name...)
	binary.LittleEndian.PutUint32(b, journal.Checksum(b[4:]))
	if len(disk.MarkerPrefix)+alphabet.EncodedLen(len(b)) > longestName {
		return "", false
	}
	var text [longestName]byte
	return string(alphabet.AppendEncode(append(text[:0], disk.MarkerPrefix...), b)), true
}

// idSize is the size in bytes of what the names in the history and the reserved ones say in
// hexadecimal digits.
const idSize = 16

func appendHex(b []byte, digits string) (to []byte, ok bool) {
	to, err := hex.AppendDecode(b, []byte(digits))
	return to, err == nil
}

// parseName reads the name of a marker that is a link. ok is false if it is none, or not
// whole.
func parseName(name string) (m Mark, ok bool) {
	text, ok := strings.CutPrefix(name, disk.MarkerPrefix)
	if !ok {
		return m, false
	}
	b, err := alphabet.DecodeString(text)
	if err != nil || len(b) < 4 || binary.LittleEndian.Uint32(b) != journal.Checksum(b[4:]) {
		return m, false
	}
	r := reader{b: b[4:], ok: true}
	m.seq, m.ino, m.birth, m.size = r.unsigned(), r.unsigned(), r.signed(), int64(r.unsigned())
	m.mtime = m.birth + r.signed()
	m.crc = binary.LittleEndian.Uint32(r.take(4))
	m.oldIno = r.unsigned()
	fields := r.take(1)[0]
	if fields&hasOld != 0 {
		m.old = disk.ReservedPrefix + hex.EncodeToString(r.take(idSize))
	}
	if fields&hasKeep != 0 {
		m.keep = hex.EncodeToString(r.take(idSize))
	}
	m.name = string(r.b)
	if !r.ok || !m.isPlausible() {
		return m, false
	}
	same, ok := m.linkName() // nothing is said in two ways
	return m, ok && same == name
}

// reader takes a marker's name apart. ok is false once it was too short.
type reader struct {
	b  []byte
	ok bool
}

func (r *reader) take(n int) []byte {
	if len(r.b) < n {
		r.b, r.ok = nil, false
		return make([]byte, n)
	}
	b := r.b[:n]
	r.b = r.b[n:]
	return b
}

func (r *reader) unsigned() uint64 {
	v, n := binary.Uvarint(r.b)
	r.take(size(n))
	return v
}

func (r *reader) signed() int64 {
	v, n := binary.Varint(r.b)
	r.take(size(n))
	return v
}

// size is how many bytes a number takes of which encoding/binary says n: more than there
// are if it is none.
func size(n int) int {
	if n <= 0 {
		return longestName
	}
	return n
}

// isMarkerInode reports whether a name in dir is one of the file that all markers are links
// of, and not a file of somebody's that is called like a marker.
func isMarkerInode(s *disk.Disk, dir int, name string) bool {
	var st, marker unix.Stat_t
	return unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW) == nil &&
		unix.Fstatat(s.StateFD(), disk.MarkerName, &marker, unix.AT_SYMLINK_NOFOLLOW) == nil &&
		disk.InodeOf(&st) == disk.InodeOf(&marker)
}
