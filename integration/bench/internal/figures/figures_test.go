package figures

import (
	"math"
	"testing"
)

func same(a, b float64) bool {
	if math.IsNaN(a) || math.IsNaN(b) {
		return math.IsNaN(a) && math.IsNaN(b)
	}
	return math.Abs(a-b) < 1e-9
}

func TestSummarize(t *testing.T) {
	tests := []struct {
		name   string
		values []float64
		want   Summary
	}{
		{"nothing", nil, Summary{0, Missing(), Missing(), Missing()}},
		{"only missing values", []float64{Missing(), Missing()}, Summary{0, Missing(), Missing(), Missing()}},
		{"one value", []float64{7}, Summary{1, 7, 7, 7}},
		{"even count", []float64{4, 1, 3, 2}, Summary{4, 2.5, 1.75, 3.25}},
		{"odd count, unsorted", []float64{9, 1, 5, 3, 7}, Summary{5, 5, 3, 7}},
		{"an outlier does not move the median", []float64{1, 1, 1, 1, 1e9}, Summary{5, 1, 1, 1}},
		{"missing values are left out", []float64{Missing(), 3, Missing(), 1, 2}, Summary{3, 2, 1.5, 2.5}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := Summarize(tt.values)
			if got.N != tt.want.N || !same(got.Median, tt.want.Median) ||
				!same(got.Q1, tt.want.Q1) || !same(got.Q3, tt.want.Q3) {
				t.Errorf("summarize(%v) = %+v, want %+v", tt.values, got, tt.want)
			}
		})
	}
}

func TestSummarizeLeavesItsArgumentAlone(t *testing.T) {
	values := []float64{3, 1, 2}
	Summarize(values)
	if values[0] != 3 || values[1] != 1 || values[2] != 2 {
		t.Errorf("values were reordered: %v", values)
	}
}

func TestRatiosArePaired(t *testing.T) {
	// The second round was ten times slower for both: the ratio stays.
	got := Ratios([]float64{2, 20, Missing(), 4}, []float64{1, 10, 1, Missing()})
	want := []float64{2, 2, Missing(), Missing()}
	for i := range want {
		if !same(got[i], want[i]) {
			t.Errorf("round %d: ratio %v, want %v", i, got[i], want[i])
		}
	}
	if got := Ratios([]float64{1, 2}, []float64{1}); len(got) != 1 {
		t.Errorf("rounds without a partner were kept: %v", got)
	}
}

func TestFormatTime(t *testing.T) {
	tests := []struct {
		ns   float64
		want string
	}{
		{Missing(), "–"},
		{0.5, "0.50 ns"},
		{312, "312 ns"},
		{999.4, "999 ns"},
		{999.6, "1.00 µs"},
		{1320, "1.32 µs"},
		{47_650, "47.6 µs"},
		{346_400, "346 µs"},
		{2_500_000, "2.50 ms"},
		{1.25e9, "1.25 s"},
	}
	for _, tt := range tests {
		if got := Time(tt.ns); got != tt.want {
			t.Errorf("formatTime(%v) = %q, want %q", tt.ns, got, tt.want)
		}
	}
}

func TestFormatRatio(t *testing.T) {
	if got, want := Ratio(Summarize([]float64{1, 1.1, 1.2})), "1.10 (1.05–1.15)"; got != want {
		t.Errorf("formatRatio = %q, want %q", got, want)
	}
	if got, want := Ratio(Summarize(nil)), "–"; got != want {
		t.Errorf("formatRatio of nothing = %q, want %q", got, want)
	}
}
