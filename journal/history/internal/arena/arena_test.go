package arena

import (
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// An arena with its table is as a map from what is in it to its number, however many
// hashes are the same.
func TestAgainstMap(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		hashes := rapid.SampledFrom([]uint32{1, 3, 1 << 20}).Draw(rt, "hashes")
		var a Arena[int]
		var table Table
		hashOf := func(v int) uint32 { return uint32(v) * 2654435761 % hashes }
		hash := func(i uint32) uint32 { return hashOf(*a.At(i)) }
		find := func(v int) uint32 {
			return table.Find(hashOf(v), func(i uint32) bool { return *a.At(i) == v })
		}
		m := map[int]uint32{}
		value := rapid.IntRange(1, 60)
		rt.Repeat(map[string]func(*rapid.T){
			"add": func(rt *rapid.T) {
				v := value.Draw(rt, "value")
				if m[v] != 0 {
					rt.Skip("it is there")
				}
				i := a.Add(v)
				if i == 0 || slices.Contains(slices.Collect(maps.Values(m)), i) {
					rt.Fatalf("%d got the number %d, which is that of no value or of another", v, i)
				}
				table.Add(i, hash)
				m[v] = i
			},
			"drop": func(rt *rapid.T) {
				v := value.Draw(rt, "value")
				if m[v] == 0 {
					rt.Skip("it is not there")
				}
				table.Remove(m[v], hash)
				a.Drop(m[v])
				if left := *a.At(m[v]); left != 0 {
					rt.Fatalf("%d was dropped, and its number has %d", v, left)
				}
				delete(m, v)
			},
			"": func(rt *rapid.T) {
				for v := 1; v <= 60; v++ {
					if got := find(v); got != m[v] {
						rt.Fatalf("%d is found as %d, want %d", v, got, m[v])
					}
				}
			},
		})
	})
}

// A table grows and shrinks with what is in it, and loses nothing; a number that is not
// there can be removed.
func TestTableGrowsAndShrinks(t *testing.T) {
	var a Arena[int]
	var table Table
	hash := func(i uint32) uint32 { return uint32(*a.At(i)) * 2654435761 }
	find := func(v int) bool {
		return table.Find(uint32(v)*2654435761, func(i uint32) bool { return *a.At(i) == v }) != 0
	}
	const many, few = 10_000, 100
	for v := 1; v <= many; v++ {
		table.Add(a.Add(v), hash)
	}
	table.Remove(a.Add(many+1), hash)
	big := len(table.slots)
	for v := few + 1; v <= many; v++ {
		table.Remove(uint32(v), hash) // the numbers rise as the values do
	}
	for v := 1; v <= many+1; v++ {
		if find(v) != (v <= few) {
			t.Fatalf("%d: found is %v", v, find(v))
		}
	}
	if small := len(table.slots); small*4 > big {
		t.Errorf("a table of %d numbers has %d places, and had %d for %d", few, small, big, many)
	}
}

// A value stays where it is while others come, and a clone is not changed with it.
func TestCloneAndPlace(t *testing.T) {
	var a Arena[int]
	first := a.Add(7)
	at := a.At(first)
	for v := range 3 * chunkSize {
		a.Add(v)
	}
	c := a.Clone()
	*at = 8
	a.Drop(2)
	if *a.At(first) != 8 || *c.At(first) != 7 || *c.At(2) != 0 || *c.At(3) != 1 {
		t.Errorf("the value is %d, in the clone %d; there the next are %d and %d", *a.At(first), *c.At(first), *c.At(2), *c.At(3))
	}
	if c.Size() != a.Size() || a.Size() != 3*chunkSize+1 {
		t.Errorf("the sizes are %d and %d", a.Size(), c.Size())
	}
	if again := a.Add(9); again != 2 {
		t.Errorf("a number that was dropped is not given again: %d", again)
	}
}
