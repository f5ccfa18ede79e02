package journal

import (
	"encoding/json"
	"fmt"
	"slices"
)

// Part is the bytes [Start,End) of a file.
type Part struct{ Start, End int64 }

// UnmarshalJSON implements json.Unmarshaler: a part is [start,end].
func (p *Part) UnmarshalJSON(b []byte) error {
	var ends []int64
	if err := json.Unmarshal(b, &ends); err != nil {
		return err
	}
	if len(ends) != 2 {
		return fmt.Errorf("a part of a file has a start and an end, not %d numbers", len(ends))
	}
	*p = Part{ends[0], ends[1]}
	return nil
}

// Parts are parts of one file, in order and with bytes between them.
type Parts []Part

// Add returns the parts with one more, joined with those that it touches. It may use p's
// memory.
func (p Parts) Add(add Part) Parts {
	if add.Start >= add.End {
		return p
	}
	i, _ := slices.BinarySearchFunc(p, add.Start, func(q Part, start int64) int {
		if q.End < start {
			return -1
		}
		return 1
	})
	j := i
	for ; j < len(p) && p[j].Start <= add.End; j++ {
		add.Start, add.End = min(add.Start, p[j].Start), max(add.End, p[j].End)
	}
	return slices.Replace(p, i, j, add)
}

// Bytes is how many bytes they are.
func (p Parts) Bytes() (n int64) {
	for _, q := range p {
		n += q.End - q.Start
	}
	return n
}

// Each calls fn for the bytes of in, in order: for each stretch that lies in one of the
// parts, or in none.
func (p Parts) Each(in Part, fn func(stretch Part, inside bool) error) error {
	at := in.Start
	for _, q := range p {
		if q.End <= at {
			continue
		}
		if q.Start >= in.End || at >= in.End {
			break
		}
		if at < q.Start {
			if err := fn(Part{at, q.Start}, false); err != nil {
				return err
			}
			at = q.Start
		}
		end := min(q.End, in.End)
		if err := fn(Part{at, end}, true); err != nil {
			return err
		}
		at = end
	}
	if at < in.End {
		return fn(Part{at, in.End}, false)
	}
	return nil
}

// Proper reports whether they are in order, apart from each other, and within a file of
// size bytes.
func (p Parts) Proper(size int64) bool {
	at := int64(-1)
	for _, q := range p {
		if q.Start <= at || q.Start >= q.End || q.End > size {
			return false
		}
		at = q.End
	}
	return true
}
