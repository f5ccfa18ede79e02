package journal

import (
	"fmt"
	"hash/crc32"
	"slices"
)

// Append describes one record that is about to be appended to the target of an
// intent of KindAppend. Records of one intent follow each other; one that begins
// before the end of earlier ones says that those were taken back.
type Append struct {
	Offset int64  // where it begins in the file, in bytes
	Length int64  // in bytes
	CRC    uint32 // Checksum of the bytes
}

// End is the offset of the first byte behind the record.
func (a Append) End() int64 { return a.Offset + a.Length }

func (a Append) record(id uint64) record {
	return record{Op: "append", ID: id, At: a.Offset, Len: a.Length, CRC: a.CRC}
}

// Checksum is the checksum that Append wants: CRC-32C (Castagnoli).
func Checksum(b []byte) uint32 { return crc32.Checksum(b, castagnoli) }

// UpdateChecksum returns the checksum of what crc is of, followed by b.
func UpdateChecksum(crc uint32, b []byte) uint32 { return crc32.Update(crc, castagnoli, b) }

// Append records that a is about to be appended to the target of the open intent
// id. Like Begin it is not synced.
func (j *Journal) Append(id uint64, a Append) error {
	return j.tailRecord(a.record(id))
}

// Known records that the first size bytes of the target of the open intent id
// are complete and on disk: nobody needs to look at them any more, and the
// records of them are forgotten. It is not synced.
func (j *Journal) Known(id uint64, size int64) error {
	return j.tailRecord(record{Op: "known", ID: id, At: size})
}

func (j *Journal) tailRecord(r record) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if in, ok := j.st.open[r.ID]; !ok || in.Kind != KindAppend {
		return fmt.Errorf("journal: %q for intent %d, which nobody appends under", r.Op, r.ID)
	}
	if err := j.appendLocked(r); err != nil {
		return err
	}
	return j.st.applyTail(r)
}

// Appends returns the records of the pending intent id that Known has not made
// superfluous, by rising offset.
func (j *Journal) Appends(id uint64) []Append {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.Clone(j.st.tails[id])
}

// applyTail adds an "append" or a "known" record.
func (s *state) applyTail(r record) error {
	in, ok := s.open[r.ID]
	switch {
	case !ok || in.Kind != KindAppend:
		return fmt.Errorf("%q record for intent %d, under which nobody appends", r.Op, r.ID)
	case r.At < 0 || r.Len < 0 || r.At+r.Len < 0:
		return fmt.Errorf("%q record with an impossible range", r.Op)
	}
	tail := s.tails[r.ID]
	if r.Op == "known" {
		in.Size = r.At
		tail = slices.DeleteFunc(tail, func(a Append) bool { return a.End() <= r.At })
	} else {
		in.Size = min(in.Size, r.At)
		for len(tail) > 0 && tail[len(tail)-1].End() > r.At {
			tail = tail[:len(tail)-1]
		}
		tail = append(tail, Append{Offset: r.At, Length: r.Len, CRC: r.CRC})
	}
	s.open[r.ID] = in
	if len(tail) == 0 {
		delete(s.tails, r.ID)
		return nil
	}
	if s.tails == nil {
		s.tails = map[uint64][]Append{}
	}
	s.tails[r.ID] = tail
	return nil
}
