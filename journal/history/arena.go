package history

import "encoding/binary"

// The index holds what it knows in arenas, by number, and without pointers: a version
// costs what its fields need, and the garbage collector does not look at it.

// arena holds values of one kind. Number 0 is no value.
type arena[T any] struct {
	chunks [][]T
	size   uint32 // numbers that were ever given
	free   []uint32
}

const chunkSize = 1 << 9

// at is the value with a number. It stays where it is until it is dropped.
func (a *arena[T]) at(i uint32) *T { return &a.chunks[i/chunkSize][i%chunkSize] }

// add makes a value and returns its number.
func (a *arena[T]) add(v T) uint32 {
	if n := len(a.free); n > 0 {
		i := a.free[n-1]
		a.free = a.free[:n-1]
		*a.at(i) = v
		return i
	}
	a.size++
	if int(a.size/chunkSize) >= len(a.chunks) {
		a.chunks = append(a.chunks, make([]T, chunkSize))
	}
	*a.at(a.size) = v
	return a.size
}

// drop frees a number; the value there is zero until it is given again.
func (a *arena[T]) drop(i uint32) {
	var zero T
	*a.at(i) = zero
	a.free = append(a.free, i)
}

// clone is a copy of all that there is now.
func (a *arena[T]) clone() arena[T] {
	c := arena[T]{chunks: make([][]T, len(a.chunks)), size: a.size}
	for i := range a.chunks {
		c.chunks[i] = append([]T(nil), a.chunks[i]...)
	}
	return c
}

// table finds numbers of an arena by what is in it: a hash table with open addressing.
type table struct {
	slots []uint32
	n     int
}

// find returns the number for which is says yes, among those with that hash; 0 if there
// is none.
func (t *table) find(hash uint32, is func(uint32) bool) uint32 {
	if t.n == 0 {
		return 0
	}
	mask := uint32(len(t.slots) - 1)
	for i := hash & mask; t.slots[i] != 0; i = (i + 1) & mask {
		if is(t.slots[i]) {
			return t.slots[i]
		}
	}
	return 0
}

// add enters a number; hash tells that of every number that is there.
func (t *table) add(number uint32, hash func(uint32) uint32) {
	if 4*(t.n+1) > 3*len(t.slots) {
		t.resize(max(16, 2*len(t.slots)), hash)
	}
	t.put(number, hash(number))
	t.n++
}

func (t *table) put(number, hash uint32) {
	mask := uint32(len(t.slots) - 1)
	i := hash & mask
	for t.slots[i] != 0 {
		i = (i + 1) & mask
	}
	t.slots[i] = number
}

func (t *table) resize(size int, hash func(uint32) uint32) {
	old := t.slots
	t.slots = make([]uint32, size)
	for _, number := range old {
		if number != 0 {
			t.put(number, hash(number))
		}
	}
}

// remove takes a number out, if it is there.
func (t *table) remove(number uint32, hash func(uint32) uint32) {
	if t.n == 0 {
		return
	}
	mask := uint32(len(t.slots) - 1)
	i := hash(number) & mask
	for t.slots[i] != number {
		if t.slots[i] == 0 {
			return
		}
		i = (i + 1) & mask
	}
	// What follows moves up to where a search for it begins or goes on.
	for j := (i + 1) & mask; t.slots[j] != 0; j = (j + 1) & mask {
		if home := hash(t.slots[j]) & mask; (j-home)&mask >= (j-i)&mask {
			t.slots[i] = t.slots[j]
			i = j
		}
	}
	t.slots[i] = 0
	t.n--
	if size := len(t.slots); size > 1024 && 8*t.n < size {
		t.resize(size/4, hash)
	}
}

// offset is a place in the log, or a number of that size; 0 is none.
type offset [5]byte

func offsetOf(n int64) (o offset) {
	o[0], o[1], o[2], o[3], o[4] = byte(n), byte(n>>8), byte(n>>16), byte(n>>24), byte(n>>32)
	return o
}

func (o *offset) get() int64 {
	return int64(o[0]) | int64(o[1])<<8 | int64(o[2])<<16 | int64(o[3])<<24 | int64(o[4])<<32
}

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
