package figures

import (
	"math"
	"slices"
	"strconv"
)

// Missing stands for a measurement that could not be taken: NaN.
func Missing() float64 { return math.NaN() }

// Summary describes the measurements of one cell over the rounds: times or ratios.
type Summary struct {
	N      int     // measurements present
	Median float64 // NaN when there are none
	Q1, Q3 float64 // first and third quartile
}

// Summarize leaves missing values out. Quantiles are interpolated linearly
// between the two nearest ranks (Hyndman and Fan's type 7, as in R and numpy).
func Summarize(values []float64) Summary {
	present := make([]float64, 0, len(values))
	for _, v := range values {
		if !math.IsNaN(v) {
			present = append(present, v)
		}
	}
	slices.Sort(present)
	return Summary{
		N:      len(present),
		Median: quantile(present, 0.5),
		Q1:     quantile(present, 0.25),
		Q3:     quantile(present, 0.75),
	}
}

// quantile wants sorted values; it answers NaN when there are none.
func quantile(sorted []float64, p float64) float64 {
	if len(sorted) == 0 {
		return Missing()
	}
	at := p * float64(len(sorted)-1)
	low := int(math.Floor(at))
	high := min(low+1, len(sorted)-1)
	part := at - float64(low)
	return sorted[low]*(1-part) + sorted[high]*part
}

// Median of unsorted values, NaN when there are none.
func Median(values []float64) float64 { return Summarize(values).Median }

// Ratios divides a by b round by round: what disturbs a whole round cancels
// out. A round in which either is missing is missing.
func Ratios(a, b []float64) []float64 {
	out := make([]float64, min(len(a), len(b)))
	for i := range out {
		out[i] = a[i] / b[i]
	}
	return out
}

// Time writes nanoseconds with three significant digits and a unit.
func Time(ns float64) string {
	if math.IsNaN(ns) {
		return "–"
	}
	unit, name := 1.0, "ns"
	for _, u := range []struct {
		size float64
		name string
	}{{1e3, "µs"}, {1e6, "ms"}, {1e9, "s"}} {
		// 999.5 would be rounded up to 1000 of the smaller unit.
		if ns >= 0.9995*u.size {
			unit, name = u.size, u.name
		}
	}
	return significant(ns/unit) + " " + name
}

// significant writes a value below 1000 with three significant digits.
func significant(v float64) string {
	digits := 2
	switch {
	case v >= 99.95:
		digits = 0
	case v >= 9.995:
		digits = 1
	}
	return strconv.FormatFloat(v, 'f', digits, 64)
}

// Ratio writes a ratio with its quartiles: "1.04 (1.01–1.09)".
func Ratio(s Summary) string {
	if s.N == 0 {
		return "–"
	}
	return significant(s.Median) + " (" + significant(s.Q1) + "–" + significant(s.Q3) + ")"
}
