package rules

import "math"

// Range is a range of bytes, both ends included, counted from 0. It counts for
// Posix only. As in fcntl(2), whose offsets are signed, no byte lies behind
// Whole.End: to lock up to there is to lock what the file will grow to.
type Range struct {
	Start, End uint64
}

// Whole is the range of a whole file, however long it grows.
var Whole = Range{0, math.MaxInt64}

// IsValid reports whether r has a byte, and none behind Whole.
func (r Range) IsValid() bool { return r.Start <= r.End && r.End <= Whole.End }

// Overlaps reports whether r and o have a byte in common.
func (r Range) Overlaps(o Range) bool { return r.Start <= o.End && o.Start <= r.End }

// Touches reports whether r and o overlap or lie side by side. Their ends are
// valid ones, to which 1 can be added.
func (r Range) Touches(o Range) bool {
	return r.Overlaps(o) || r.End+1 == o.Start || o.End+1 == r.Start
}

// Union is the smallest range that holds both.
func (r Range) Union(o Range) Range {
	return Range{min(r.Start, o.Start), max(r.End, o.End)}
}
