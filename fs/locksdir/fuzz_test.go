package locksdir

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

// FuzzNames shows any name of a file to a terminal, in JSON, and as a name of its own.
func FuzzNames(f *testing.F) {
	for _, s := range []string{"a/b", "\x1b[31m", "\u202e", "\u009b", "\xff\n", `\x41`, strings.Repeat("é", 200), "..", "a//b", "\x7f"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		shown := Display(s)
		if !utf8.ValidString(shown) || strings.ContainsFunc(shown, unicode.IsControl) || strings.ContainsFunc(shown, isBidi) {
			t.Errorf("%q is shown as %q", s, shown)
		}
		var back string
		if err := json.Unmarshal(appendJSONString(nil, strings.ToValidUTF8(s, "?")), &back); err != nil || back != strings.ToValidUTF8(s, "?") {
			t.Errorf("%q in JSON is %q, %v", s, back, err)
		}
		if name := oddName(s, s, lockSuffix, func(string) bool { return false }); len(name) > maxName {
			t.Errorf("a name of %d bytes", len(name))
		}
		validPath(s)
	})
}

// isBidi reports whether a character turns the direction of text.
func isBidi(r rune) bool {
	return r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069 || r == 0x200e || r == 0x200f || r == 0x061c
}
