package figures

import "testing"

func TestVerdict(t *testing.T) {
	ratio := func(q1, mid, q3 float64) Summary { return Summary{N: 7, Median: mid, Q1: q1, Q3: q3} }
	none := Summarize(nil)
	tests := []struct {
		name                    string
		target                  Target
		plain, loopback, bindfs Summary
		want                    string
	}{
		{"no target", Target{}, ratio(9, 9, 9), none, none, ""},
		{"at the bound counts as met", Target{VsPlain: 1.25}, ratio(1.25, 1.25, 1.25), none, none, "met"},
		{"above the bound", Target{VsPlain: 1.25}, ratio(1.3, 1.4, 1.5), none, none, "not met"},
		{"met, but the rounds disagree", Target{VsPlain: 1.25}, ratio(1.1, 1.2, 1.3), none, none, "met, within noise"},
		{"not met, but the rounds disagree", Target{VsPlain: 1.25}, ratio(1.2, 1.3, 1.4), none, none, "not met, within noise"},
		{"plain missing", Target{VsPlain: 1.25}, none, ratio(1, 1, 1), none, "not measured"},
		{"faster than both", Target{BeatMounts: true}, none, ratio(0.5, 0.6, 0.7), ratio(0.2, 0.3, 0.4), "met"},
		{"as fast is not faster", Target{BeatMounts: true}, none, ratio(1, 1, 1), ratio(0.2, 0.3, 0.4), "not met"},
		{"slower than one", Target{BeatMounts: true}, none, ratio(1.2, 1.3, 1.4), ratio(0.2, 0.3, 0.4), "not met"},
		{"a sure failure beside an unsure bound", Target{BeatMounts: true}, none, ratio(1.2, 1.3, 1.4), ratio(0.9, 0.95, 1.1), "not met"},
		{"bindfs not installed", Target{BeatMounts: true}, none, ratio(0.5, 0.6, 0.7), none, "met"},
		{"neither mount", Target{BeatMounts: true}, ratio(1, 1, 1), none, none, "not measured"},
		{"95 % of the speed", Throughput(0.95), ratio(1.04, 1.05, 1.05), none, none, "met"},
		{"two bounds, both kept", Target{VsLoopback: 1, VsBindfs: 1.2}, none, ratio(0.9, 1, 1), ratio(1.1, 1.15, 1.2), "met"},
		{"two bounds, one kept", Target{VsLoopback: 1, VsBindfs: 1.2}, none, ratio(0.9, 1, 1), ratio(1.3, 1.4, 1.5), "not met"},
		{"the kernel's share", Target{VsPlain: 1.05, OrLoopback: true}, ratio(1.1, 1.2, 1.3), ratio(0.9, 0.95, 1), none, "met"},
		{"more than the kernel's share", Target{VsPlain: 1.05, OrLoopback: true}, ratio(1.1, 1.2, 1.3), ratio(1.1, 1.1, 1.2), none, "not met"},
		{"94 % of the speed", Throughput(0.95), ratio(1.06, 1.06, 1.07), none, none, "not met"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := tt.target.Verdict(tt.plain, tt.loopback, tt.bindfs); got != tt.want {
				t.Errorf("verdict = %q, want %q", got, tt.want)
			}
		})
	}
}

func TestTargetString(t *testing.T) {
	for want, target := range map[string]Target{
		"–":                                    {},
		"≤ 1.25 of plain":                      {VsPlain: 1.25},
		"≤ 1.053 of plain":                     Throughput(0.95),
		"< 1 of loopback and bindfs":           {BeatMounts: true},
		"≤ 1 of loopback, ≤ 1.2 of bindfs":     {VsLoopback: 1, VsBindfs: 1.2},
		"≤ 1.053 of plain, or ≤ 1 of loopback": {VsPlain: 1 / 0.95, OrLoopback: true},
	} {
		if got := target.String(); got != want {
			t.Errorf("String of %+v = %q, want %q", target, got, want)
		}
	}
}
