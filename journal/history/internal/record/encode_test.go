package record

import (
	"encoding/json"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

// MarshalJSON tells encoding/json how a name stands in a record.
func (r Name) MarshalJSON() ([]byte, error) {
	if utf8.ValidString(string(r)) {
		return json.Marshal(string(r))
	}
	return json.Marshal([1][]byte{[]byte(r)})
}

// text draws strings of what JSON treats in various ways.
func text() *rapid.Generator[string] {
	return rapid.OneOf(
		rapid.SampledFrom([]string{"", "a/b.json", "<&>", "\u2028\u2029\x7f\u0085", "\xff", "\xe2\x80", "\"\\\b\f\n\r\t\x00\x1f", "é\U0001f600\ufffd", "a\xffb"}),
		rapid.String(),
		rapid.Map(rapid.SliceOf(rapid.Byte()), func(b []byte) string { return string(b) }),
	)
}

func drawRecord(t *rapid.T) Record {
	s := func(name string) string { return text().Draw(t, name) }
	name := func(name string) *Name {
		if !rapid.Bool().Draw(t, "has "+name) {
			return nil
		}
		r := Name(s(name))
		return &r
	}
	var dirs [][3]uint32
	for range rapid.IntRange(0, 3).Draw(t, "dirs") {
		dirs = append(dirs, [3]uint32{rapid.Uint32().Draw(t, "uid"), rapid.Uint32().Draw(t, "gid"), rapid.Uint32().Draw(t, "mode")})
	}
	return Record{
		Op: s("op"), Path: Name(s("path")), To: name("to"), From: name("from"),
		Number: rapid.Uint64().Draw(t, "number"), Time: rapid.Int64().Draw(t, "time"), Base: rapid.Uint64().Draw(t, "base"),
		Event: s("event"), Operation: s("operation"), Actor: s("actor"), Program: s("program"), Session: s("session"),
		PID: rapid.Int32().Draw(t, "pid"), UID: rapid.Uint32().Draw(t, "uid"), Token: rapid.Uint64().Draw(t, "token"), Content: s("content"),
		Ino: rapid.Uint64().Draw(t, "ino"), Size: rapid.Int64().Draw(t, "size"), Mtime: rapid.Int64().Draw(t, "mtime"), Loose: rapid.Bool().Draw(t, "loose"),
		FileUID: rapid.Uint32().Draw(t, "file_uid"), FileGID: rapid.Uint32().Draw(t, "file_gid"), Mode: rapid.Uint32().Draw(t, "mode"), ACL: rapid.Bool().Draw(t, "acl"),
		Dirs: dirs,
	}
}

// A record has the bytes that encoding/json gives it.
func TestEncodeIsJSON(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := drawRecord(t)
		want, err := json.Marshal(&r)
		if err != nil {
			t.Fatal(err)
		}
		if got := r.Encode(); string(got) != string(want) {
			t.Fatalf("%s\npackage json writes\n%s", got, want)
		}
	})
	var zero Record
	if want, _ := json.Marshal(&zero); string(zero.Encode()) != string(want) {
		t.Errorf("%s, and package json writes %s", zero.Encode(), want)
	}
}
