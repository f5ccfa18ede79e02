package locksdir

import (
	"encoding/json"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"pgregory.net/rapid"
)

func TestDisplay(t *testing.T) {
	for name, want := range map[string]string{
		"plain name.txt":  "plain name.txt",
		"grün/日本":         "grün/日本",
		"a\nb\tc\rd":      `a\nb\tc\rd`,
		"\x1b[2J\x7f\x00": `\x1b[2J\x7f\x00`,
		"\xff\xc3":        `\xff\xc3`,
		`back\slash`:      `back\\slash`,
		"\u202etxt.exe":   `\u202etxt.exe`,
		"\u009b1m":        `\u009b1m`,
		"\U000e0001":      `\U000e0001`,
	} {
		if got := Display(name); got != want {
			t.Errorf("Display(%q) = %s, want %s", name, got, want)
		}
	}
}

// What Display shows is printable, on one line, and can be read back: no two
// names look the same.
func TestDisplayIsReversible(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		name := nastyName().Draw(t, "name")
		shown := Display(name)
		for _, r := range shown {
			if !strconv.IsPrint(r) {
				t.Fatalf("Display(%q) = %q holds %U", name, shown, r)
			}
		}
		// Go's string literals have the escapes that Display uses.
		back, err := strconv.Unquote(`"` + strings.ReplaceAll(shown, `"`, `\"`) + `"`)
		if err != nil || back != name {
			t.Fatalf("Display(%q) = %q reads back as %q, %v", name, shown, back, err)
		}
	})
}

// Any string that is UTF-8 survives JSON, and nothing unprintable is in it.
func TestJSONString(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.String().Draw(t, "s")
		b := appendJSONString(nil, s)
		var back string
		if err := json.Unmarshal(b, &back); err != nil || back != s {
			t.Fatalf("%q became %s, which is %q, %v", s, b, back, err)
		}
		for _, r := range string(b) {
			if !strconv.IsPrint(r) {
				t.Fatalf("%q became %q, which holds %U", s, b, r)
			}
		}
	})
}

func TestFit(t *testing.T) {
	if got := fit("short", 5); got != "short" {
		t.Errorf("fit left %q", got)
	}
	if got := fit("a/long/päth/name.json", 12); got != "a/l…ame.json" {
		t.Errorf("fit = %q", got)
	}
	rapid.Check(t, func(t *rapid.T) {
		s := Display(nastyName().Draw(t, "name"))
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
	src := newFake()
	for _, stopping := range []bool{false, true} {
		src.stopping = stopping
		s := takeSnapshot(src)
		if got := strings.HasPrefix(string(s.status(noon)), "latchfs is shutting down"); got != stopping {
			t.Errorf("%v: %s", stopping, s.status(noon))
		}
		if got := strings.Contains(string(s.statusJSON(noon, Viewer{})), `"shutting_down": true`); got != stopping {
			t.Errorf("%v: %s", stopping, s.statusJSON(noon, Viewer{}))
		}
	}
}
