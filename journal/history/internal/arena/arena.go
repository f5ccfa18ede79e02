// Package arena holds values by number instead of by pointer, and finds them by hash. It
// is what an index of many small values is made of: a value costs what its fields need, a
// number four bytes, and the garbage collector looks at none of it if the values have no
// pointers.
//
// An Arena gives out the numbers and holds the values; a Table finds a number by what the
// value there says. Neither has a mutex: their user guards them. The zero value of both is
// empty and ready.
package arena

// Arena holds values of one kind, by number. Number 0 is no value.
type Arena[T any] struct {
	chunks [][]T
	size   uint32 // numbers that were ever given
	free   []uint32
}

const chunkSize = 1 << 9

// At is the value with a number that Add has given. It stays where it is until it is
// dropped.
func (a *Arena[T]) At(i uint32) *T { return &a.chunks[i/chunkSize][i%chunkSize] }

// Add makes a value and returns its number, which may be one that was dropped.
func (a *Arena[T]) Add(v T) uint32 {
	if n := len(a.free); n > 0 {
		i := a.free[n-1]
		a.free = a.free[:n-1]
		*a.At(i) = v
		return i
	}
	a.size++
	if int(a.size/chunkSize) >= len(a.chunks) {
		a.chunks = append(a.chunks, make([]T, chunkSize))
	}
	*a.At(a.size) = v
	return a.size
}

// Drop frees a number; the value there is zero until it is given again.
func (a *Arena[T]) Drop(i uint32) {
	var zero T
	*a.At(i) = zero
	a.free = append(a.free, i)
}

// Size is the highest number that was ever given: who looks at all values goes from 1 to
// Size, and finds zero values at numbers that were dropped.
func (a *Arena[T]) Size() uint32 { return a.size }

// Clone is a copy of all that there is now. Numbers stay; none is given anew in the copy.
func (a *Arena[T]) Clone() Arena[T] {
	c := Arena[T]{chunks: make([][]T, len(a.chunks)), size: a.size}
	for i := range a.chunks {
		c.chunks[i] = append([]T(nil), a.chunks[i]...)
	}
	return c
}

// Table finds numbers of an Arena by what is in it: a hash table with open addressing,
// which holds the numbers alone. All calls of one table have to agree on the hash of a
// number, which may not change while the number is in the table.
type Table struct {
	slots []uint32
	n     int
}

// Find returns the number for which is says yes, among those with that hash; 0 if there
// is none. is may be asked of numbers with another hash, too.
func (t *Table) Find(hash uint32, is func(uint32) bool) uint32 {
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

// Add enters a number that is not there; hash tells that of every number that is.
func (t *Table) Add(number uint32, hash func(uint32) uint32) {
	if 4*(t.n+1) > 3*len(t.slots) {
		t.resize(max(16, 2*len(t.slots)), hash)
	}
	t.put(number, hash(number))
	t.n++
}

func (t *Table) put(number, hash uint32) {
	mask := uint32(len(t.slots) - 1)
	i := hash & mask
	for t.slots[i] != 0 {
		i = (i + 1) & mask
	}
	t.slots[i] = number
}

func (t *Table) resize(size int, hash func(uint32) uint32) {
	old := t.slots
	t.slots = make([]uint32, size)
	for _, number := range old {
		if number != 0 {
			t.put(number, hash(number))
		}
	}
}

// Remove takes a number out, if it is there; hash is as for Add.
func (t *Table) Remove(number uint32, hash func(uint32) uint32) {
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
