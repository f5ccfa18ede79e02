package report

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"pgregory.net/rapid"

	"latchfs/fs/printable"
)

func TestFit(t *testing.T) {
	if got := fit("short", 5); got != "short" {
		t.Errorf("fit left %q", got)
	}
	if got := fit("a/long/päth/name.json", 12); got != "a/l…ame.json" {
		t.Errorf("fit = %q", got)
	}
	rapid.Check(t, func(t *rapid.T) {
		s := printable.Line(rapid.String().Draw(t, "name"))
		width := rapid.IntRange(3, 300).Draw(t, "width")
		got := fit(s, width)
		if n := utf8.RuneCountInString(got); n != min(width, utf8.RuneCountInString(s)) || !utf8.ValidString(got) {
			t.Fatalf("fit(%q, %d) = %q, %d characters", s, width, got, n)
		}
	})
}

func TestAge(t *testing.T) {
	for d, want := range map[time.Duration]string{
		-time.Second: "<1s", 999 * time.Millisecond: "<1s", 59 * time.Second: "59s", time.Minute: "1m0s",
		59*time.Minute + 59*time.Second: "59m59s", 3*time.Hour + 12*time.Minute: "3h12m", 49 * time.Hour: "2d1h",
	} {
		if got := age(d); got != want {
			t.Errorf("age(%v) = %s, want %s", d, got, want)
		}
	}
}

// While the mount shuts down both forms of status say so, first.
func TestStatusWhileStopping(t *testing.T) {
	for _, stopping := range []bool{false, true} {
		s := Status{At: noon, Started: noon, Stopping: stopping}
		if got := strings.HasPrefix(string(s.Text()), "latchfs is shutting down"); got != stopping {
			t.Errorf("%v: %s", stopping, s.Text())
		}
		if got := strings.Contains(string(s.JSON(Viewer{})), `"shutting_down": true`); got != stopping {
			t.Errorf("%v: %s", stopping, s.JSON(Viewer{}))
		}
	}
}

func TestBehind(t *testing.T) {
	for want, r := range map[string]Record{
		"-":                {},
		"3 others":         {Ahead: 3},
		"a[1]":             {WaitsFor: []string{"a[1]"}},
		"a[1] and 1 more":  {WaitsFor: []string{"a[1]", "b[2]"}},
		"a[1] and 99 more": {WaitsFor: []string{"a[1]", "b[2]"}, Ahead: 100},
	} {
		if got := r.behind(); got != want {
			t.Errorf("%+v is behind %q, want %q", r, got, want)
		}
	}
}
