package journal

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
)

const (
	magic      = "latchjnl"
	version    = 1
	headerSize = 16
	frameSize  = 20      // the fixed part of a frame, before its payload
	maxPayload = 1 << 20 // far above the largest record; a longer one is corrupt
	sectorSize = 512     // the smallest unit that a disk writes or loses
)

// MaxRecord is how many bytes a record of a Log has at most.
const MaxRecord = maxPayload

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// ErrCorrupt is what errors.Is finds in every *CorruptError.
var ErrCorrupt = errors.New("journal is corrupt")

// CorruptError says where a segment is damaged in a way that no crash explains.
// The journal was left as it is: it needs a person, or a backup.
type CorruptError struct {
	File   string // name of the segment inside the state directory
	Offset int64  // where the damaged frame begins, in bytes
	Reason string

	foreign bool // the checksums are right: another version's, rather than damage
}

func (e *CorruptError) Error() string {
	return fmt.Sprintf("journal %s is corrupt at byte %d: %s (nothing was changed)", e.File, e.Offset, e.Reason)
}

// foreignError is about what this version of the program does not know.
type foreignError string

func (e foreignError) Error() string { return string(e) }

// Is makes every CorruptError match ErrCorrupt.
func (e *CorruptError) Is(target error) bool { return target == ErrCorrupt }

// frame is one intact frame of a segment.
type frame struct {
	offset  int64 // of the frame in the segment
	synced  int64 // bytes of the segment on disk when it was written
	payload []byte
}

// end is the offset of the first byte behind f.
func (f frame) end() int64 { return f.offset + frameSize + int64(len(f.payload)) }

func appendHeader(b []byte) []byte {
	n := len(b)
	b = append(b, magic...)
	b = binary.LittleEndian.AppendUint32(b, version)
	return binary.LittleEndian.AppendUint32(b, crc32.Checksum(b[n:], castagnoli))
}

func appendFrame(b []byte, synced int64, payload []byte) []byte {
	n := len(b)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(payload)))
	b = binary.LittleEndian.AppendUint64(b, uint64(synced))
	b = binary.LittleEndian.AppendUint32(b, crc32.Checksum(payload, castagnoli))
	b = binary.LittleEndian.AppendUint32(b, crc32.Checksum(b[n:], castagnoli))
	return append(b, payload...)
}

// errShort says that the file ends inside a frame.
var errShort = errors.New("the file ends inside the record")

// parseFrame reads the frame at offset of the segment data.
func parseFrame(data []byte, offset int64) (frame, error) {
	return parseFrameOf(data[offset:], offset)
}

// parseFrameOf reads the frame that b begins with, whose offset in the segment is that.
func parseFrameOf(b []byte, offset int64) (frame, error) {
	if len(b) < frameSize {
		return frame{}, errShort
	}
	if crc32.Checksum(b[:16], castagnoli) != binary.LittleEndian.Uint32(b[16:]) {
		return frame{}, errors.New("wrong checksum of a record's head")
	}
	length := binary.LittleEndian.Uint32(b)
	synced := binary.LittleEndian.Uint64(b[4:])
	if length > maxPayload || synced > uint64(offset) {
		return frame{}, errors.New("impossible length in a record's head")
	}
	if uint64(len(b)-frameSize) < uint64(length) {
		return frame{}, errShort
	}
	payload := b[frameSize : frameSize+int(length)]
	if crc32.Checksum(payload, castagnoli) != binary.LittleEndian.Uint32(b[12:]) {
		return frame{}, errors.New("wrong checksum of a record")
	}
	return frame{offset: offset, synced: int64(synced), payload: payload}, nil
}

// scan calls fn for each intact frame of a segment, in order, and returns the
// length of the intact part. What lies behind it is a torn tail. Any other
// damage, and any error of fn, is a *CorruptError.
func scan(file string, data []byte, fn func(frame) error) (intact int64, err error) {
	corrupt := func(at int64, reason error) (int64, error) { return 0, corruptAt(file, at, reason) }
	if len(data) < headerSize {
		if !bytes.HasPrefix(appendHeader(nil), data) && !allZero(data) {
			return corrupt(0, errNoSegment)
		}
		return 0, nil
	}
	if err := checkHeader(data); err != nil {
		return corrupt(0, err)
	}
	offset := int64(headerSize)
	for offset < int64(len(data)) {
		f, err := parseFrame(data, offset)
		if err != nil {
			if err := whyNotTorn(data, offset, err); err != nil {
				return corrupt(offset, err)
			}
			return offset, nil
		}
		if err := fn(f); err != nil {
			return corrupt(offset, err)
		}
		offset = f.end()
	}
	return offset, nil
}

// corruptAt says that the file is damaged at a place, and why no crash explains it.
func corruptAt(file string, at int64, reason error) *CorruptError {
	var foreign foreignError
	return &CorruptError{File: file, Offset: at, Reason: reason.Error(), foreign: errors.As(reason, &foreign)}
}

var errNoSegment = errors.New("not a journal segment")

func checkHeader(data []byte) error {
	switch {
	case string(data[:8]) != magic:
		return errNoSegment
	case crc32.Checksum(data[:12], castagnoli) != binary.LittleEndian.Uint32(data[12:]):
		return errors.New("wrong checksum of the header")
	case binary.LittleEndian.Uint32(data[8:]) != version:
		return foreignError(fmt.Sprintf("format version %d, and this program knows only %d", binary.LittleEndian.Uint32(data[8:]), version))
	}
	return nil
}

// whyNotTorn decides about the damaged frame at offset: nil means that a crash
// explains it (see the package comment).
func whyNotTorn(data []byte, offset int64, damage error) error {
	for at := offset + 1; at+frameSize <= int64(len(data)); at++ {
		f, err := parseFrame(data, at)
		if err == nil && f.synced > offset {
			return fmt.Errorf("%w, although it was once safely on disk", damage)
		}
	}
	if errors.Is(damage, errShort) || lostSector(data, offset) {
		return nil
	}
	return damage
}

// lostSector reports whether a sector of the damaged frame at offset reads as
// zeros, from its beginning or from the frame's to its end: it was never
// written. JSON holds no zero bytes, and no frame's head is all zeros.
func lostSector(data []byte, offset int64) bool {
	size := int64(len(data))
	limit := min(offset+frameSize, size)
	head := data[offset:limit]
	if len(head) == frameSize && crc32.Checksum(head[:16], castagnoli) == binary.LittleEndian.Uint32(head[16:]) {
		limit = min(limit+int64(binary.LittleEndian.Uint32(head)), size)
	}
	for at := offset; at < limit; {
		end := min((at/sectorSize+1)*sectorSize, size)
		if allZero(data[at:end]) {
			return true
		}
		at = end
	}
	return false
}

func allZero(b []byte) bool {
	for _, c := range b {
		if c != 0 {
			return false
		}
	}
	return true
}
