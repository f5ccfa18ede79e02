package main

import "fmt"

// target is what DESIGN section 12 asks of one work, as upper bounds of the
// time ratio. A zero bound is not asked for.
type target struct {
	VsPlain    float64 // latchfs takes at most this many times as long as the plain directory
	BeatMounts bool    // latchfs is faster than loopback and than bindfs
}

// throughput turns "at least this share of the plain directory's speed" into a
// bound of the time.
func throughput(share float64) target { return target{VsPlain: 1 / share} }

// String is the target as the table shows it.
func (t target) String() string {
	switch {
	case t.BeatMounts:
		return "< 1 of loopback and bindfs"
	case t.VsPlain > 0:
		return fmt.Sprintf("≤ %.4g of plain", t.VsPlain)
	}
	return "–"
}

// verdict judges the medians. Where the quartiles lie on both sides of a bound
// that decided, another run might judge otherwise, and the verdict says so.
func (t target) verdict(plain, loopback, bindfs summary) string {
	switch {
	case t.BeatMounts:
		if loopback.N == 0 && bindfs.N == 0 {
			return "not measured"
		}
		return judge([]bound{{loopback, 1, true}, {bindfs, 1, true}})
	case t.VsPlain > 0:
		if plain.N == 0 {
			return "not measured"
		}
		return judge([]bound{{plain, t.VsPlain, false}})
	}
	return ""
}

// bound is one condition of a target.
type bound struct {
	Ratio  summary
	Limit  float64
	Strict bool // below the limit, not at it
}

func (b bound) met() bool {
	if b.Strict {
		return b.Ratio.Median < b.Limit
	}
	return b.Ratio.Median <= b.Limit
}

// straddles reports that the middle half of the rounds does not agree.
func (b bound) straddles() bool { return b.Ratio.Q1 <= b.Limit && b.Limit < b.Ratio.Q3 }

// judge wants all bounds met that were measured. A failure is certain when one
// failing bound is; a success when all bounds are.
func judge(bounds []bound) string {
	met, unsure := true, false
	certainFailure := false
	for _, b := range bounds {
		if b.Ratio.N == 0 {
			continue
		}
		if !b.met() {
			met = false
			certainFailure = certainFailure || !b.straddles()
		}
		unsure = unsure || b.straddles()
	}
	word := "not met"
	if met {
		word = "met"
	}
	if unsure && !certainFailure {
		word += ", within noise"
	}
	return word
}
