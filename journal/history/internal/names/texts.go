package names

import "encoding/binary"

// texts holds short strings, each behind its length.
type texts struct {
	chunks [][]byte
	live   int // bytes that are in use
	total  int // and that ever were since all was packed
}

const (
	textChunk = 1 << 16
	minPack   = 1 << 16 // so many unused bytes are not worth packing
)

// add returns where a string is from now on.
func (t *texts) add(s string) uint32 {
	need := len(s) + binary.MaxVarintLen32
	last := len(t.chunks) - 1
	if last < 0 || cap(t.chunks[last])-len(t.chunks[last]) < need {
		t.chunks = append(t.chunks, make([]byte, 0, max(need, textChunk)))
		last++
	}
	at := uint32(last)*textChunk + uint32(len(t.chunks[last]))
	b := binary.AppendUvarint(t.chunks[last], uint64(len(s)))
	t.chunks[last] = append(b, s...)
	t.live += len(s) + 1
	t.total += len(s) + 1
	return at
}

// get returns the bytes of a string, which nobody may change.
func (t *texts) get(at uint32) []byte {
	b := t.chunks[at/textChunk][at%textChunk:]
	n, skip := binary.Uvarint(b)
	return b[skip : skip+int(n)]
}

// drop tells that a string is no longer used.
func (t *texts) drop(at uint32) { t.live -= len(t.get(at)) + 1 }

// wasteful reports whether most of what is held nobody uses.
func (t *texts) wasteful() bool { return t.total-t.live > t.live+minPack }
