package calling

import (
	"testing"
	"unicode/utf8"

	"latchfs/fs/control"
)

// FuzzShortLabel cuts any variable of the environment.
func FuzzShortLabel(f *testing.F) {
	f.Add("agent-7")
	f.Add(string(make([]byte, 300)))
	f.Fuzz(func(t *testing.T, s string) {
		got := shortLabel(s)
		if len(got) > control.MaxLabel || utf8.ValidString(s) && !utf8.ValidString(got) || len(s) <= control.MaxLabel && got != s {
			t.Errorf("%q becomes %q", s, got)
		}
	})
}
