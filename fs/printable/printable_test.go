package printable

import (
	"encoding/json"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"pgregory.net/rapid"
)

// anyBytes draws what may be in a name: control characters, what turns the direction of
// text, quotes, and bytes that are not UTF-8.
func anyBytes() *rapid.Generator[string] {
	odd := rapid.SampledFrom([]string{
		"", "a", "\n", "\x1b[31m", "\xff\xfe", "\xc3", "ü", "日本", "\u202e", "\u009b", "\U000e0001", " ", "'", `"`, `\`, "$(rm)", "\x7f", "\x00",
	})
	bytes := rapid.Map(rapid.SliceOfN(rapid.Byte(), 1, 20), func(b []byte) string { return string(b) })
	return rapid.Map(rapid.SliceOfN(rapid.OneOf(odd, bytes), 0, 4), func(parts []string) string { return strings.Join(parts, "") })
}

func TestLine(t *testing.T) {
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
		if got := Line(name); got != want {
			t.Errorf("Line(%q) = %s, want %s", name, got, want)
		}
	}
}

// What Line shows is printable, on one line, and can be read back: no two
// names look the same.
func TestLineIsReversible(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		name := anyBytes().Draw(t, "name")
		shown := Line(name)
		for _, r := range shown {
			if !strconv.IsPrint(r) {
				t.Fatalf("Line(%q) = %q holds %U", name, shown, r)
			}
		}
		// Go's string literals have the escapes that Line uses.
		back, err := strconv.Unquote(`"` + strings.ReplaceAll(shown, `"`, `\"`) + `"`)
		if err != nil || back != name {
			t.Fatalf("Line(%q) = %q reads back as %q, %v", name, shown, back, err)
		}
	})
}

// Any string that is UTF-8 survives JSON, and nothing unprintable is in it.
func TestStringIsExact(t *testing.T) {
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

// Text keeps its lines, its tabs and its backslashes, and nothing else that is not printable.
func TestText(t *testing.T) {
	for text, want := range map[string]string{
		"two\nlines\tand \\": "two\nlines\tand \\",
		"a\x1b[2Jb\r\n":      `a\x1b[2Jb\r` + "\n",
		"\xff\n\u202e":       `\xff` + "\n" + `\u202e`,
	} {
		if got := Text(text); got != want {
			t.Errorf("Text(%q) = %q, want %q", text, got, want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		text := anyBytes().Draw(t, "text")
		got := Text(text)
		for _, r := range got {
			if r != '\n' && r != '\t' && !strconv.IsPrint(r) {
				t.Fatalf("Text(%q) = %q holds %U", text, got, r)
			}
		}
		if Text(got) != got {
			t.Fatalf("Text(%q) = %q, which is not text", text, got)
		}
	})
}

// JSON means the same afterwards, and holds nothing unprintable but white space.
func TestJSON(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.String().Draw(t, "s")
		// Not json.Marshal, which escapes some of what is unprintable itself.
		text := "{\n\t\"s\": \"" + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`, "\t", `\t`, "\r", `\r`).Replace(s) + "\"}\r\n"
		got := JSON([]byte(text))
		for _, r := range string(got) {
			if !strings.ContainsRune("\n\t\r", r) && !strconv.IsPrint(r) {
				t.Fatalf("%q became %q, which holds %U", text, got, r)
			}
		}
		var back map[string]string
		if err := json.Unmarshal(got, &back); err != nil || back["s"] != s {
			t.Fatalf("%q became %s, which is %q, %v", s, got, back["s"], err)
		}
	})
}

// writeAll writes every kind of value.
func writeAll(w *Writer) {
	w.Open("", '{')
	w.String("s", "a\x1b")
	w.Raw("raw", "\xff")
	w.Int("i", -1)
	w.Uint("u", 1<<63)
	w.Seconds("d", 1500*time.Millisecond)
	w.Time("t", time.Date(2025, 1, 2, 3, 4, 5, 6, time.FixedZone("", 3600)))
	w.Time("never", time.Time{})
	w.Strings("list", []string{"x", "\xff"})
	w.Open("in", '{')
	w.Bool("b", true)
	w.Close('}')
	w.Open("empty", '[')
	w.Close(']')
	w.Close('}')
}

// On one line, and with a line for each value down to a depth.
func TestWriter(t *testing.T) {
	const line = `{"s":"a\u001b","raw":"\\xff","raw_base64":"/w==","i":-1,"u":9223372036854775808,"d":1.5,` +
		`"t":"2025-01-02T02:04:05Z","never":null,"list":["x","\\xff"],"in":{"b":true},"empty":[]}`
	const lines = `{
  "s": "a\u001b",
  "raw": "\\xff",
  "raw_base64": "/w==",
  "i": -1,
  "u": 9223372036854775808,
  "d": 1.5,
  "t": "2025-01-02T02:04:05Z",
  "never": null,
  "list": ["x","\\xff"],
  "in": {
    "b": true
  },
  "empty": []
}`
	for indent, want := range map[int]string{0: line, 2: lines} {
		w := AppendTo([]byte("before "), indent)
		writeAll(&w)
		if got := string(w.Bytes()); got != "before "+want {
			t.Errorf("indent %d: %s", indent, got)
		}
	}
}

// Each whole value has a line, without a comma before it.
func TestEndLine(t *testing.T) {
	var w Writer
	for i := range 3 {
		w.Open("", '{')
		w.Int("n", int64(i))
		w.Close('}')
		w.EndLine()
	}
	if got := string(w.Bytes()); got != "{\"n\":0}\n{\"n\":1}\n{\"n\":2}\n" {
		t.Errorf("the lines are %q", got)
	}
}

// FuzzLine shows anything to a terminal, as text and in JSON.
func FuzzLine(f *testing.F) {
	for _, s := range []string{"a/b", "\x1b[31m", "\u202e", "\u009b", "\xff\n", `\x41`, strings.Repeat("é", 200), "..", "a//b", "\x7f"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		shown := Line(s)
		if !utf8.ValidString(shown) || strings.ContainsFunc(shown, unicode.IsControl) || strings.ContainsFunc(shown, isBidi) {
			t.Errorf("%q is shown as %q", s, shown)
		}
		valid := strings.ToValidUTF8(s, "?")
		var back string
		if err := json.Unmarshal(appendJSONString(nil, valid), &back); err != nil || back != valid {
			t.Errorf("%q in JSON is %q, %v", s, back, err)
		}
	})
}

// isBidi reports whether a character turns the direction of text.
func isBidi(r rune) bool {
	return r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069 || r == 0x200e || r == 0x200f || r == 0x061c
}
