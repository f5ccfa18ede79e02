package journal

import (
	"encoding/json"
	"testing"
)

// FuzzAppendJSONString compares strings with what encoding/json makes of them.
func FuzzAppendJSONString(f *testing.F) {
	for _, s := range []string{
		"", "a/b.json", "<&>", "\u2028x\u2029\x7f\u0085", "\xff", "\xe2\x80", "\"\\\b\f\n\r\t\x00\x1f\v", "é\U0001f600\ufffd", "a\xffb\xf0\x9f", "\xed\xa0\x80",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		want, err := json.Marshal(s)
		check(t, err)
		if got := AppendJSONString(nil, s); string(got) != string(want) {
			t.Errorf("%s, and package json writes %s", got, want)
		}
	})
}
