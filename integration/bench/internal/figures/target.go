package figures

import (
	"fmt"
	"slices"
	"strings"
)

// Target is what DESIGN section 12 asks of one work, as upper bounds of the
// time ratio. A zero bound is not asked for.
type Target struct {
	VsPlain    float64 // latchfs takes at most this many times as long as the plain directory
	VsLoopback float64 // … as loopback
	VsBindfs   float64 // … as bindfs
	BeatMounts bool    // latchfs is faster than loopback and than bindfs
	OrLoopback bool    // instead of VsPlain: no longer than loopback, for which the kernel does the same
}

// Throughput turns "at least this share of the plain directory's speed" into a
// bound of the time.
func Throughput(share float64) Target { return Target{VsPlain: 1 / share} }

// String is the target as the table shows it.
func (t Target) String() string {
	var parts []string
	if t.BeatMounts {
		parts = append(parts, "< 1 of loopback and bindfs")
	}
	for _, x := range []struct {
		limit float64
		of    string
	}{{t.VsPlain, "plain"}, {t.VsLoopback, "loopback"}, {t.VsBindfs, "bindfs"}} {
		if x.limit > 0 {
			parts = append(parts, fmt.Sprintf("≤ %.4g of %s", x.limit, x.of))
		}
	}
	if len(parts) == 0 {
		return "–"
	}
	s := strings.Join(parts, ", ")
	if t.OrLoopback {
		s += ", or ≤ 1 of loopback"
	}
	return s
}

// Verdict judges the medians of the ratios to the other columns: "met" or "not met", "not
// measured", or "" where nothing is asked. Where the quartiles lie on both sides of a
// bound that decided, another run might judge otherwise: "within noise" is added then.
func (t Target) Verdict(plain, loopback, bindfs Summary) string {
	if t == (Target{}) {
		return ""
	}
	if t.VsPlain > 0 && plain.N == 0 {
		return "not measured"
	}
	var bounds []bound
	for _, b := range []bound{{plain, t.VsPlain, false}, {loopback, t.VsLoopback, false}, {bindfs, t.VsBindfs, false}} {
		if b.Limit > 0 {
			bounds = append(bounds, b)
		}
	}
	if t.BeatMounts {
		bounds = append(bounds, bound{loopback, 1, true}, bound{bindfs, 1, true})
	}
	if !slices.ContainsFunc(bounds, func(b bound) bool { return b.Ratio.N > 0 }) {
		return "not measured"
	}
	said := judge(bounds)
	if other := (bound{loopback, 1, false}); t.OrLoopback && said != "met" && loopback.N > 0 && other.met() {
		return judge([]bound{other})
	}
	return said
}

// bound is one condition of a target.
type bound struct {
	Ratio  Summary
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
