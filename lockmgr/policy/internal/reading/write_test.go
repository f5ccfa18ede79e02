package reading

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"latchfs/lockmgr/policy/internal/position"
)

func TestWrites(t *testing.T) {
	var b bytes.Buffer
	WriteTable(&b, "rule", "a\nb\x7f:1")
	WriteText(&b, "mode", `a"\`)
	WriteText(&b, "unset", "")
	WriteList(&b, "glob", []string{"a", "é\t"})
	WriteList(&b, "none", nil)
	WriteList(&b, "a-longer-key", []string{strings.Repeat("x", 30), strings.Repeat("y", 30)})
	const want = `
[[rule]] # a?b?:1
mode       = "a\"\\"
glob       = ["a", "é\u0009"]
none       = []
a-longer-key = [
    "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
    "yyyyyyyyyyyyyyyyyyyyyyyyyyyyyy",
]
`
	if b.String() != want {
		t.Errorf("%s\nwant%s", b.String(), want)
	}
}

// What is written is read as the same strings, whatever they hold and wherever they come
// from.
func FuzzWrite(f *testing.F) {
	f.Add(`a"b\`, "é\x00\n\x7f\r", "'''\u2028", "x\n[[y]]")
	f.Add("", "", "", "")
	f.Add(strings.Repeat("long", 20), "#", "]", "\xff")
	f.Fuzz(func(t *testing.T, text, one, two, origin string) {
		if !utf8.ValidString(text) || !utf8.ValidString(one) || !utf8.ValidString(two) {
			return // no document holds such a string
		}
		var b bytes.Buffer
		WriteTable(&b, "t", origin)
		WriteText(&b, "text", text)
		WriteList(&b, "list", []string{one, two})
		doc, r, err := Open("f", b.Bytes())
		if err != nil {
			t.Fatalf("%v in\n%s", err, b.String())
		}
		tables := r.Tables(position.Root.Key("t"), "t", doc["t"], "a t")
		if len(doc) != 1 || len(tables) != 1 {
			t.Fatalf("%v in\n%s", doc, b.String())
		}
		at := position.Root.Key("t").Item(0)
		table := r.Table(at, tables[0], nil)
		if got, _ := table["text"].(string); got != text {
			t.Errorf("%q is read as %q", text, got)
		}
		good := func(string) string { return "" }
		if got := r.Strings(at.Key("list"), "list", table["list"], 2, good); !slices.Equal(got, []string{one, two}) || r.Err() != nil {
			t.Errorf("%q, %q are read as %q: %v", one, two, got, r.Err())
		}
	})
}
