package jsontext

import (
	"encoding/json"
	"math"
	"testing"
)

// FuzzAppendString compares strings with what encoding/json makes of them.
func FuzzAppendString(f *testing.F) {
	for _, s := range []string{
		"", "a/b.json", "<&>", "\u2028x\u2029\x7f\u0085", "\xff", "\xe2\x80", "\"\\\b\f\n\r\t\x00\x1f\v", "é\U0001f600\ufffd", "a\xffb\xf0\x9f", "\xed\xa0\x80",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		want, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		if got := AppendString(nil, s); string(got) != string(want) {
			t.Errorf("%s, and package json writes %s", got, want)
		}
	})
}

// Of an object's fields those are left out that are empty.
func TestFields(t *testing.T) {
	type object struct {
		First string
		Text  string `json:",omitempty"`
		Uint  uint64 `json:",omitempty"`
		Int   int64  `json:",omitempty"`
		Bool  bool   `json:",omitempty"`
	}
	for _, o := range []object{
		{}, {First: "<"}, {Text: "a\"b"}, {Uint: math.MaxUint64}, {Int: math.MinInt64}, {Bool: true},
		{First: "a", Text: "b", Uint: 1, Int: -1, Bool: true},
	} {
		w := Fields(AppendString([]byte(`{"First":`), o.First))
		w.Text(`,"Text":`, o.Text)
		w.Uint(`,"Uint":`, o.Uint)
		w.Int(`,"Int":`, o.Int)
		w.Bool(`,"Bool":`, o.Bool)
		want, err := json.Marshal(o)
		if got := string(append(w, '}')); err != nil || got != string(want) {
			t.Errorf("%s, and package json writes %s, %v", got, want, err)
		}
	}
}
