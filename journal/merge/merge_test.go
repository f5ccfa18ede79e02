package merge

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
)

// mergeTest says what becomes of three contents: what they are joined to, or after
// "!" why they are not.
type mergeTest struct{ base, theirs, mine, want string }

func run(t *testing.T, kind Kind, tests []mergeTest) {
	t.Helper()
	for _, tt := range tests {
		got := result(t, kind, tt.base, tt.theirs, tt.mine)
		if got != tt.want {
			t.Errorf("%s\n  base   %q\n  theirs %q\n  mine   %q\n  got    %q\n  want   %q", kind, tt.base, tt.theirs, tt.mine, got, tt.want)
		}
	}
}

func result(t testing.TB, kind Kind, base, theirs, mine string) string {
	t.Helper()
	got, err := Merge(kind, []byte(base), []byte(theirs), []byte(mine))
	var c *Conflict
	if err != nil && !errors.As(err, &c) {
		t.Fatalf("the error is a %T", err)
	}
	if err != nil {
		return "!" + err.Error()
	}
	return string(got)
}

func TestText(t *testing.T) {
	run(t, Text, []mergeTest{
		{"a\nb\nc\n", "A\nb\nc\n", "a\nb\nC\n", "A\nb\nC\n"},
		{"a\nb\n", "A\nb\n", "a\nB\n", "A\nB\n"}, // neighbours
		{"a\nb\nc\n", "a\nB\nc\n", "A\nb\nC\n", "A\nB\nC\n"},
		{"a\nb\nc\n", "a\nb\nc\nd\n", "A\nb\nc\n", "A\nb\nc\nd\n"},
		{"a\nb\n", "a\nb\nc\n", "a\nB\n", "a\nB\nc\n"}, // put in beside a change
		{"a\nb\nc\n", "a\nc\n", "a\nb\nC\n", "a\nC\n"},
		{"a\nb\nc\n", "a\nc\n", "a\nc\nd\n", "a\nc\nd\n"},
		{"a\nb\n", "a\nx\nb\n", "a\nx\nb\ny\n", "a\nx\nb\ny\n"},
		{"a\nb\nc\n", "A\nb\nc\n", "A\nb\nC\n", "A\nb\nC\n"}, // the same change
		{"a", "a\nb", "x\na", "x\na\nb"},
		{"a\n", "b\n", "c\n", "!line 1: both sides have changed this"},
		{"a\nb\n", "a\nb\nt\n", "a\nb\nm\n", "!line 3: both sides have put something in here, and not the same"},
		{"a\nb\nc\n", "a\nc\n", "a\nB\nc\n", "!line 2: the other side has deleted what you have changed"},
		{"a\nb\nc\n", "a\nB\nc\n", "a\nc\n", "!line 2: you have deleted what the other side has changed"},
		{"a\nb\nc\nd\n", "a\nd\n", "a\nb\nx\nc\nd\n", "!line 3: one side has put something in where the other has deleted something"},
		{"a\nb\nc\n", "a\nc\n", "a\nb\nx\nc\n", "!line 3: one side has put something in where the other has deleted something"},
		{"a\nb\n", "a\nb", "a\nb\nc\n", "!line 2: both sides have changed this"},
		{"a\r\nb\r\n", "A\r\nb\r\n", "a\r\nB\r\n", "A\r\nB\r\n"},
		{"a\nb\n", "A\nb\n", "a\nB\x00\n", "!binary content is never merged"},
		{"a\n\xff\n", "A\n\xff\n", "a\n\xff\nb\n", "!binary content is never merged"},
		{"", "a\n", "b\n", "!line 1: both sides have put something in here, and not the same"},
	})
}

// Neighbouring lines, each changed by somebody else one after the other, from the
// same base.
func TestEveryLineHasItsWriter(t *testing.T) {
	const writers = 16
	var lines []string
	for i := range writers {
		lines = append(lines, fmt.Sprintf("- item %d: open\n", i))
	}
	base := strings.Join(lines, "")
	file := base
	for i := range writers {
		mine := strings.Replace(base, fmt.Sprintf("item %d: open", i), fmt.Sprintf("item %d: done", i), 1)
		file = result(t, Text, base, file, mine)
	}
	if want := strings.ReplaceAll(base, "open", "done"); file != want {
		t.Fatalf("got\n%s", file)
	}
}

func TestJSON(t *testing.T) {
	run(t, JSON, []mergeTest{
		{`{"a": 1, "b": 2}`, `{"a": 2, "b": 2}`, `{"a": 1, "b": 3}`, `{"a": 2, "b": 3}`},
		{`{"a": 1}`, `{"a": 1, "t": 2}`, `{"a": 1, "m": 3}`, `{"a": 1, "m": 3, "t": 2}`}, // sorted
		{`{"z": 1}`, `{"z": 1, "t": 2}`, `{"z": 1, "m": 3}`, `{"z": 1, "t": 2, "m": 3}`}, // theirs first
		{`{"b": 1, "a": 2}`, `{"b": 1, "x": 0, "a": 2}`, `{"b": 1, "y": 0, "a": 2}`, `{"b": 1, "x": 0, "y": 0, "a": 2}`},
		{`{"a": 1, "b": 2, "c": 3}`, `{"b": 2, "c": 3}`, `{"a": 1, "b": 2}`, `{"b": 2}`},
		{`{"a": 1}`, `{}`, `{"a": 1, "b": 2}`, `{"b": 2}`},
		{`{"a": 1, "b": 1}`, `{"b": 1}`, `{"a": 1}`, `{}`},
		{`{"a": {"x": 1, "y": 1}}`, `{"a": {"x": 2, "y": 1}}`, `{"a": {"x": 1, "y": 2}}`, `{"a": {"x": 2, "y": 2}}`},
		{`{}`, `{"a": {"x": 1}}`, `{"a": {"y": 2}}`, `{"a": {"x": 1, "y": 2}}`},
		{`{"a": 1}`, `{"a": 2, "b": 5}`, `{"a": 2, "c": 6}`, `{"a": 2, "b": 5, "c": 6}`},
		{`{"a": 1, "b": 0}`, `{"a": 2, "b": 0}`, `{"a": 3, "b": 1}`, `!/a: both sides have changed this`},
		{`{"a/b": {"~": 1}, "b": 0}`, `{"a/b": {"~": 2}, "b": 0}`, `{"a/b": {"~": 3}, "b": 1}`, `!/a~1b/~0: both sides have changed this`},
		{`{"a": 1, "b": 0}`, `{"b": 0}`, `{"a": 3, "b": 0}`, `!/a: the other side has deleted what you have changed`},
		{`{"a": 1, "b": 0}`, `{"a": 3, "b": 0}`, `{"b": 0}`, `!/a: you have deleted what the other side has changed`},
		{`{}`, `{"a": 1}`, `{"a": 2}`, `!/a: both sides have added this, and not the same`},
		{`1`, `2`, `3`, `!both sides have changed this`},
		// Spellings.
		{`{"a": 1e3, "b": "é", "c": 0}`, `{"a": 1e3, "b": "é", "c": 1}`, `{"a": 1000.0, "b": "\u00e9", "c": 0, "d": 0}`, `{"a": 1000.0, "b": "\u00e9", "c": 1, "d": 0}`},
		{`{"a": 1.0, "b": 0}`, `{"a": 2, "b": 0}`, `{"a": 1, "b": 1}`, `{"a": 2, "b": 1}`},
		{`{"a": 12345678901234567890123, "b": 0}`, `{"a": 12345678901234567890123, "b": 1}`, `{"a": 12345678901234567890124, "b": 0}`, `{"a": 12345678901234567890124, "b": 1}`},
		{`["\ud834\udd1e", 1, 2]`, `["𝄞", 1, 3]`, `["\ud834\udd1e", 0, 2]`, `["𝄞", 0, 3]`},
		{`{"\ud800": 1, "\ud801": 2}`, `{"\ud800": 2, "\ud801": 2}`, `{"\ud800": 1, "\ud801": 3}`, `{"\ud800": 2, "\ud801": 3}`},
		// Content that is refused.
		{`{"a": 1}`, `{"a": 1, "a": 2}`, `{"a": 3}`, `!a key is there twice, in the file as it is now`},
		{`{"a": 1}`, `{"a": 2}`, "{\"b\": 3,\n\"\\u0062\": 4}", `!line 2: a key is there twice`},
		{`{"a": 1}`, `{"a": 2}`, "{\"a\": 1,\n}", `!line 2: this is not valid JSON`},
		{`{"a": 1`, `{"a": 2}`, "{\"a\": 3}", `!this is not valid JSON, in the version that both began with`},
		{`{"a": 1}`, `{"a": 2}`, ``, `!line 1: this is not valid JSON`},
	})
}

func TestArrays(t *testing.T) {
	run(t, JSON, []mergeTest{
		{`[1, 2]`, `[1, 2, 3]`, `[1, 2, 4]`, `[1, 2, 3, 4]`},
		{`[]`, `[3]`, `[4]`, `[3, 4]`},
		{`[]`, `[3]`, `[3, 4]`, `[3, 4]`},
		{`[0, 0, 0]`, `[1, 0, 0]`, `[0, 0, 2]`, `[1, 0, 2]`},
		{`[[0, 0], [0, 0]]`, `[[1, 0], [0, 0]]`, `[[0, 2], [0, 3]]`, `[[1, 2], [0, 3]]`},
		{`[1, 2, 3]`, `[2, 3]`, `[1, 2, 3, 4]`, `[2, 3, 4]`},
		{`[1, 2]`, `[0, 1, 2]`, `[1, 2, 3]`, `[0, 1, 2, 3]`},
		{`[1, 2]`, `[0, 1, 2]`, `[9, 1, 2]`, `!/0: both sides have put something in here, and not the same`},
		{`[1, 2]`, `[1, 3]`, `[1, 4]`, `!/1: both sides have changed this`},
		{`[1, 2]`, `[1]`, `[1, 4]`, `!/1: the other side has deleted what you have changed`},
		{`[{"id": 1, "v": 0}, {"id": 2, "v": 0}]`, `[{"id": 1, "v": 5}, {"id": 2, "v": 0}]`, `[{"id": 2, "v": 6}, {"id": 1, "v": 0}]`, `[{"id": 2, "v": 6}, {"id": 1, "v": 5}]`},
		{`[{"id": 1}]`, `[{"id": 1}, {"id": "t"}]`, `[{"id": 1}, {"id": "m"}]`, `[{"id": 1}, {"id": "t"}, {"id": "m"}]`},
		{`[{"id": 1}, {"id": 2}]`, `[{"id": 2}]`, `[{"id": 1}, {"id": 2}, {"id": 3}]`, `[{"id": 2}, {"id": 3}]`},
		{`[{"id": 1}]`, `[{"id": 1}, {"id": 2, "by": "t"}]`, `[{"id": 1}, {"id": 2, "by": "m"}]`, `!/1: both sides have added this, and not the same`},
		{`[{"id": 1}, {"id": 2}, {"id": 3}]`, `[{"id": 2}, {"id": 1}, {"id": 3}]`, `[{"id": 1}, {"id": 3}, {"id": 2}]`, `!/0: both sides have put these into another order`},
		{`{}`, `{"a": [{"id": 1}]}`, `{"a": [{"id": 2}]}`, `{"a": [{"id": 1}, {"id": 2}]}`},
		{`{}`, `{"a": [1]}`, `{"a": [2]}`, `!/a: both sides have added this, and not the same`},
		{`[{"name": "a"}, {"name": "a"}]`, `[{"name": "a"}, {"name": "b"}]`, `[{"name": "c"}, {"name": "a"}]`, `[{"name": "c"}, {"name": "b"}]`},
	})
}

func TestLayout(t *testing.T) {
	base := "{\n  \"b\": [1, 2],\n  \"a\": {\n    \"x\": 1\n  }\n}\n"
	run(t, JSON, []mergeTest{
		// The file's own layout stays where nothing has changed.
		{base, "{\n  \"b\": [1, 2, 3],\n  \"a\": {\n    \"x\": 1\n  }\n}\n", "{\n  \"b\": [1, 2],\n  \"a\": {\n    \"x\": 1,\n    \"y\": {\n      \"z\": []\n    }\n  }\n}\n",
			"{\n  \"b\": [1, 2, 3],\n  \"a\": {\n    \"x\": 1,\n    \"y\": {\n      \"z\": []\n    }\n  }\n}\n"},
		// Only mine has laid it out anew: that stays.
		{base, strings.Replace(base, "1, 2", "1, 2, 3", 1), `{"b":[1,2],"a":{"x":2}}`, `{"b":[1,2,3],"a":{"x":2}}`},
		{`{"b":[1,2],"a":{"x":1}}`, `{"b":[1,2,{"n":1}],"a":{"x":1}}`, "{\n\t\"b\": [\n\t\t1,\n\t\t2\n\t],\n\t\"a\": {\n\t\t\"x\": 2\n\t}\n}\n",
			"{\n\t\"b\": [\n\t\t1,\n\t\t2,\n\t\t{\n\t\t\t\"n\": 1\n\t\t}\n\t],\n\t\"a\": {\n\t\t\"x\": 2\n\t}\n}\n"},
		// Theirs has: that stays, and what is mine is laid out like it.
		{base, `{"b":[1,2],"a":{"x":2}}`, strings.Replace(base, "[1, 2]", "[\n    1,\n    {\n      \"k\": 2\n    }\n  ]", 1), `{"b":[1,{"k":2}],"a":{"x":2}}`},
		// The first and the last member go.
		{"{\n  \"a\": 1,\n  \"b\": 2,\n  \"c\": 3\n}", "{\n  \"b\": 2,\n  \"c\": 3\n}", "{\n  \"a\": 1,\n  \"b\": 2\n}", "{\n  \"b\": 2\n}"},
		{"{ \"a\" : 1 , \"b\" : 2 }", "{ \"a\" : 3 , \"b\" : 2 }", "{ \"a\" : 1 , \"b\" : 2 , \"c\" : [ ] }", "{ \"a\" : 3 , \"b\" : 2, \"c\" : [ ] }"},
	})
}

func TestJSONLines(t *testing.T) {
	run(t, JSONLines, []mergeTest{
		{"{\"n\": 1}\n", "{\"n\": 1}\n{\"n\": 2}\n", "{\"n\": 1}\n{\"n\": 3}\n", "{\"n\": 1}\n{\"n\": 2}\n{\"n\": 3}\n"},
		{"{\"id\": 1, \"v\": 0}\n{\"id\": 2, \"v\": 0}\n", "{\"id\": 1, \"v\": 1}\n{\"id\": 2, \"v\": 0}\n", "{\"id\": 1, \"v\": 0}\n{\"id\": 2, \"v\": 2}\n{\"id\": 3}\n", "{\"id\": 1, \"v\": 1}\n{\"id\": 2, \"v\": 2}\n{\"id\": 3}\n"},
		{"1\n\n2", "1\n\n2\n3", "0\n\n2", "0\n\n2\n3"},
		{"1", "1\n2", "1\n3", "1\n2\n3"},
		{"1\r\n", "1\r\n2\r\n", "1\r\n3\r\n", "1\r\n2\r\n3\r\n"},
		{"", "{\"a\": 1}\n", "{\"a\": 2}\n", "{\"a\": 1}\n{\"a\": 2}\n"},
		{"{\"n\":1,\"v\":0}\n{\"n\":2,\"v\":0}\n", "{\"n\":1,\"v\":1}\n{\"n\":2,\"v\":0}\n", "{\"n\": 1, \"v\": 0}\n{\"n\": 2, \"v\": 5}\n", "{\"n\":1,\"v\":1}\n{\"n\": 2, \"v\": 5}\n"},
		{"{\"a\":1}\n2\n", "{\"a\":1,\"t\":1}\n2\n", "{\"a\":1,\"m\":1}\n2\n", "{\"a\":1,\"m\":1,\"t\":1}\n2\n"},
		{"{\"a\": 1}\n2\n", "{\"a\": 2}\n2\n", "{\"a\": 3}\n2\n", "!line 1, /a: both sides have changed this"},
		{"1\n2\n", "1\n3\n", "1\n{\n", "!line 2: this is not valid JSON"},
	})
}

// Where only one side has changed something, nobody looks at what it is.
func TestOneSided(t *testing.T) {
	for _, kind := range []Kind{Text, JSON, JSONLines} {
		run(t, kind, []mergeTest{
			{"{\x00", "{\x00", "{\xff", "{\xff"},
			{"{\x00", "{\xff", "{\x00", "{\xff"},
			{"{\x00", "{\xff", "{\xff", "{\xff"},
		})
	}
}

func TestKindOf(t *testing.T) {
	for name, want := range map[string]Kind{"a/b.json": JSON, "B.JSON": JSON, "a.jsonl": JSONLines, "a.ndjson": JSONLines,
		"a.md": Text, "json": Text, "a.json/b": Text, ".json": JSON} {
		if got := KindOf(name); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
}

// What is large or has nothing in common is refused soon.
func TestBounds(t *testing.T) {
	lines := func(n int, line func(int) string) string {
		var b strings.Builder
		for i := range n {
			b.WriteString(line(i))
		}
		return b.String()
	}
	bits := func(seed uint32) func(int) string { // few different lines, in any order
		return func(int) string {
			seed = seed*1664525 + 1013904223
			return string("ab"[seed>>31]) + "\n"
		}
	}
	large := strings.Repeat("x", MaxSize)
	tests := []struct {
		kind       Kind
		base, t, m string
		want       string
	}{
		{Text, large, large + "x", large + "y", "!too large to merge"},
		{Text, lines(maxItems+1, bits(1)), "a\n", "b\n", "!too large to merge"},
		{Text, lines(maxItems/4, bits(1)), lines(maxItems/4, bits(2)), lines(maxItems/4, bits(3)), "!the versions have too little in common to be merged"},
		{JSON, "[" + strings.Repeat("1,", maxValues) + "1]", "[1]", "[2]", "!too large to merge, in the version that both began with"},
		{JSON, "1", "2", strings.Repeat("[", 5000) + strings.Repeat("]", 5000), "!line 1: too large to merge"},
		{JSONLines, "1\n", "2\n", strings.Repeat("\n", maxItems), "!too large to merge"},
	}
	for _, tt := range tests {
		start := time.Now()
		if got := result(t, tt.kind, tt.base, tt.t, tt.m); got != tt.want {
			t.Errorf("got %.80q, want %q", got, tt.want)
		}
		if took := time.Since(start); took > 30*time.Second {
			t.Errorf("%q took %v", tt.want, took)
		}
	}
	// Large files with small changes are no trouble.
	base := lines(100000, func(i int) string { return fmt.Sprintf("line %d\n", i%1000) })
	theirs := strings.Replace(base, "line 7\n", "LINE 7\n", 1)
	at := strings.LastIndex(base, "line 9\n")
	mine := base[:at] + "LINE 9\n" + base[at+len("line 9\n"):]
	got, err := Merge(Text, []byte(base), []byte(theirs), []byte(mine))
	if err != nil || bytes.Count(got, []byte("LINE")) != 2 {
		t.Errorf("two lines of many: %v", err)
	}
}

func TestPlaceOfAConflict(t *testing.T) {
	for pointer, want := range map[string]string{
		"": "", "/n": "the value at n", "/users/0/name": "the value at users.0.name", "/a~1b/c~0/d.e//x y": `the value at a/b.c~."d.e"."".` + `"x y"`,
	} {
		if got := (&Conflict{Pointer: pointer}).Place(); got != want {
			t.Errorf("the place of %q is %q, want %q", pointer, got, want)
		}
	}
}
