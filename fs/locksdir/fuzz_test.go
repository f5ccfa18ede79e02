package locksdir

import (
	"strings"
	"testing"

	"latchfs/fs/report"
)

// FuzzNames finds a name for the record of any lock.
func FuzzNames(f *testing.F) {
	for _, s := range []string{"a/b", "\x1b[31m", "\u202e", "\u009b", "\xff\n", `\x41`, strings.Repeat("é", 200), "..", "a//b", "\x7f"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if name := oddName(s, s, report.RecordSuffix, func(string) bool { return false }); len(name) > maxName {
			t.Errorf("a name of %d bytes", len(name))
		}
		validPath(s)
	})
}
