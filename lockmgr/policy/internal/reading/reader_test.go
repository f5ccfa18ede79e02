package reading

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"latchfs/lockmgr/policy/internal/position"
)

var atX = position.Root.Key("x")

// readX reads the value of x, which stands in line 2, and returns what was read with what
// is wrong with it, without the line.
func readX(t *testing.T, value string, read func(r *Reader, v any) any) (any, string) {
	t.Helper()
	doc, r, err := Open("f", []byte("\nx = "+value+"\n"))
	if err != nil {
		t.Fatalf("%s: %v", value, err)
	}
	got := read(r, doc["x"])
	if err := r.Err(); err != nil {
		text, ok := strings.CutPrefix(err.Error(), "f:2: ")
		if !ok {
			t.Errorf("%s: %v, want line 2", value, err)
		}
		return got, text
	}
	return got, ""
}

type word string

// The ways to read x.
var readers = map[string]func(r *Reader, v any) any{
	"duration": func(r *Reader, v any) any { return deref(r.Duration(atX, "x", v)) },
	"positive": func(r *Reader, v any) any { return deref(r.Positive(atX, "x", v, "some time")) },
	"span":     func(r *Reader, v any) any { return r.Span(atX, "x", v) },
	"age":      func(r *Reader, v any) any { return r.Age(atX, "x", v) },
	"bytes":    func(r *Reader, v any) any { return deref(r.Bytes(atX, "x", v)) },
	"count":    func(r *Reader, v any) any { return deref(r.Count(atX, "x", v, 10)) },
	"word":     func(r *Reader, v any) any { return Word(r, atX, "x", v, word("a"), word("b")) },
	"strings":  func(r *Reader, v any) any { return orNil(r.Strings(atX, "x", v, 0, notBad)) },
	"some":     func(r *Reader, v any) any { return orNil(r.Strings(atX, "x", v, 1, notBad)) },
	"tables":   func(r *Reader, v any) any { return orNil(r.Tables(atX, "x", v, "an x")) },
	"table": func(r *Reader, v any) any {
		if table := r.Table(atX, v, []string{"a", "b"}); table != nil {
			return table
		}
		return nil
	},
}

func orNil[T any](list []T) any {
	if list == nil {
		return nil
	}
	return list
}

func deref[T any](p *T) any {
	if p == nil {
		return nil
	}
	return *p
}

func notBad(s string) string {
	if s == "bad" {
		return "it is bad"
	}
	return ""
}

func TestReadsValues(t *testing.T) {
	for _, test := range []struct {
		kind, value string
		want        any
	}{
		{"duration", `"1m30s"`, Duration(90 * time.Second)},
		{"duration", `"0s"`, Duration(0)},
		{"positive", `"1ns"`, Duration(1)},
		{"span", `"2s"`, 2 * time.Second},
		{"age", `"30d"`, 30 * Day},
		{"age", `"0d"`, time.Duration(0)},
		{"age", `"12h"`, 12 * time.Hour},
		{"age", `"106751d"`, 106751 * Day},
		{"bytes", `0`, Bytes(0)},
		{"bytes", `17`, Bytes(17)},
		{"bytes", `"3B"`, Bytes(3)},
		{"bytes", `"10 MiB"`, Bytes(10 << 20)},
		{"bytes", `"8388607TiB"`, Bytes(8388607 << 40)},
		{"count", `0`, 0},
		{"count", `10`, 10},
		{"word", `"b"`, word("b")},
		{"strings", `"a"`, []string{"a"}},
		{"strings", `["a", ""]`, []string{"a", ""}},
		{"strings", `[]`, []string{}},
		{"some", `["a"]`, []string{"a"}},
		{"table", `{a = 1}`, map[string]any{"a": int64(1)}},
		{"tables", `[{a = 1}, 2]`, []any{map[string]any{"a": int64(1)}, int64(2)}},
	} {
		got, wrong := readX(t, test.value, readers[test.kind])
		if diff := cmp.Diff(test.want, got); diff != "" || wrong != "" {
			t.Errorf("%s %s: %q %s", test.kind, test.value, wrong, diff)
		}
	}
}

// What cannot be read is one error, and is read as nothing.
func TestRefusesValues(t *testing.T) {
	const (
		duration = `a duration is written as in "30s", "1m30s" or "0s"`
		unit     = `x must be a string with a unit, as in "30s", "1m30s" or "0s"`
		age      = `an age is written as in "30d", "12h" or "0s", which is any age`
		size     = `a size is written as in "512B", "64KiB", "10MiB", "1GiB" or "1TiB"`
		list     = `x must be a string or a list of strings`
	)
	for _, test := range []struct{ kind, value, want string }{
		{"duration", `30`, unit},
		{"duration", `"30"`, `bad x "30": ` + duration},
		{"duration", `"-1s"`, `bad x "-1s": a duration cannot be negative`},
		{"positive", `"abc"`, `bad x "abc": ` + duration},
		{"positive", `"-1s"`, `bad x "-1s": a duration cannot be negative`},
		{"positive", `"0s"`, `bad x "0s": some time`},
		{"positive", `0`, unit},
		{"span", `"1"`, `bad x "1": ` + duration},
		{"age", `30`, unit},
		{"age", `"1w"`, `bad x "1w": ` + duration},
		{"age", `"d"`, `bad x "d": ` + age},
		{"age", `"-1d"`, `bad x "-1d": ` + age},
		{"age", `"106752d"`, `bad x "106752d": ` + age},
		{"bytes", `-1`, `x must be a number of bytes, or a string with a unit, as in "10MiB"`},
		{"bytes", `"10MB"`, `bad x "10MB": ` + size},
		{"bytes", `"10"`, `bad x "10": ` + size},
		{"bytes", `"-1B"`, `bad x "-1B": ` + size},
		{"bytes", `"8388608TiB"`, `bad x "8388608TiB": ` + size},
		{"count", `-1`, `x must be a number from 0 to 10`},
		{"count", `11`, `x must be a number from 0 to 10`},
		{"count", `"1"`, `x must be a number from 0 to 10`},
		{"word", `"c"`, `bad x "c": must be one of "a", "b"`},
		{"word", `""`, `bad x "": must be one of "a", "b"`},
		{"word", `1`, `x must be one of "a", "b"`},
		{"strings", `1`, list},
		{"some", `[]`, list + ", and not empty"},
		{"table", `1`, "must be a table of a, b"},
		{"tables", `{}`, "an x starts with [[x]], in double brackets"},
	} {
		got, wrong := readX(t, test.value, readers[test.kind])
		if wrong != test.want {
			t.Errorf("%s %s: %q, want %q", test.kind, test.value, wrong, test.want)
		}
		switch got {
		case nil, time.Duration(0), word(""):
		default:
			t.Errorf("%s %s is read as %#v", test.kind, test.value, got)
		}
	}
}

// A string of a list that is wrong is told with its own line; the others are read.
func TestStringsHaveLines(t *testing.T) {
	doc, r, err := Open("f", []byte("x = [\n  'a',\n  'bad',\n  3,\n]\ny = 'bad'\n"))
	if err != nil {
		t.Fatal(err)
	}
	if got := r.Strings(atX, "x", doc["x"], 0, notBad); !cmp.Equal(got, []string{"a", "bad"}) {
		t.Errorf("%q", got)
	}
	r.Strings(position.Root.Key("y"), "y", doc["y"], 0, notBad)
	const want = "f:3: it is bad\nf:4: x must be a string or a list of strings\nf:6: it is bad"
	if got := r.Err(); got == nil || got.Error() != want {
		t.Errorf("%v, want\n%s", got, want)
	}
}

// Errors are told by line; those of one line as they came.
func TestErrors(t *testing.T) {
	_, r, err := Open("f", []byte("a = 1\nb = 2\n"))
	if err != nil || r.Err() != nil {
		t.Fatal(err, r.Err())
	}
	a, b := position.Root.Key("a"), position.Root.Key("b")
	r.Unknown(b, "b", []string{"c", "d"})
	r.Fail(a, "%s, %d", "one", 2)
	r.Fail(a, "two")
	all := r.Err()
	const want = "f:1: one, 2\nf:1: two\nf:2: unknown key \"b\": known here are c, d"
	if all == nil || all.Error() != want {
		t.Errorf("%v, want\n%s", all, want)
	}
	var list Errors
	if !errors.As(all, &list) || len(list) != 3 {
		t.Fatalf("%T of %d", all, len(list))
	}
	var one *Error
	if !errors.As(all, &one) || *one != (Error{"f", 1, "one, 2"}) || !errors.Is(all, list[2]) {
		t.Errorf("the first is %+v", one)
	}
	if r.Line(b) != 2 || r.Where(b) != "f:2" {
		t.Errorf("b is in %s", r.Where(b))
	}
}

// What is not TOML is one error, with its line.
func TestOpenRefuses(t *testing.T) {
	_, _, err := Open("f", []byte("a = 1\nb = \n"))
	var list Errors
	if !errors.As(err, &list) || len(list) != 1 || list[0].File != "f" || list[0].Line != 2 || strings.HasPrefix(list[0].Reason, "toml") {
		t.Errorf("%T: %v", err, err)
	}
}

// What is written is read as the same value.
func TestUnitsReadBack(t *testing.T) {
	for text, b := range map[string]Bytes{
		"0B": 0, "1B": 1, "1023B": 1023, "1KiB": 1 << 10, "1025B": 1025, "3MiB": 3 << 20, "1GiB": 1 << 30, "2TiB": 2 << 40,
		"9223372036854775807B": math.MaxInt64,
	} {
		got, wrong := readX(t, Quote(text), readers["bytes"])
		if b.String() != text || got != b || wrong != "" {
			t.Errorf("%s is written as %s, and read as %v: %s", text, b, got, wrong)
		}
	}
	for text, d := range map[string]time.Duration{
		"0s": 0, "1d": Day, "90d": 90 * Day, "36h0m0s": 36 * time.Hour, "1ns": 1, "106751d": 106751 * Day, "2562047h47m16.854775807s": math.MaxInt64,
	} {
		got, wrong := readX(t, Quote(text), readers["age"])
		if AgeText(d) != text || got != d || wrong != "" {
			t.Errorf("%s is written as %s, and read as %v: %s", text, AgeText(d), got, wrong)
		}
	}
}
