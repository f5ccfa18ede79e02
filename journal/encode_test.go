package journal

import (
	"encoding/json"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

// MarshalJSON tells encoding/json how a name stands in a record.
func (t text) MarshalJSON() ([]byte, error) {
	if utf8.ValidString(string(t)) {
		return json.Marshal(string(t))
	}
	return json.Marshal(struct {
		B64 []byte `json:"b64"`
	}{[]byte(t)})
}

// anyText draws strings of what JSON treats in various ways.
func anyText() *rapid.Generator[string] {
	return rapid.OneOf(
		rapid.SampledFrom([]string{"", "a/b.json", "<&>", "\u2028\u2029\x7f\u0085\u202e", "\xff", "\xe2\x80", "\"\\\b\f\n\r\t\x00\x1f", "é\U0001f600\ufffd"}),
		rapid.String(),
		rapid.Map(rapid.SliceOf(rapid.Byte()), func(b []byte) string { return string(b) }),
	)
}

func (r record) encode() []byte { return r.appendTo(nil) }

func drawRecord(t *rapid.T) record {
	s := func(name string) string { return anyText().Draw(t, name) }
	u := func(name string) uint64 { return rapid.OneOf(rapid.Just(uint64(0)), rapid.Uint64()).Draw(t, name) }
	n := func(name string) int64 { return rapid.OneOf(rapid.Just(int64(0)), rapid.Int64()).Draw(t, name) }
	is := func(name string) bool { return rapid.Bool().Draw(t, name) }
	r := record{
		Op: rapid.SampledFrom([]string{"begin", "done", "start", "known", "tokens", "<>"}).Draw(t, "op"), ID: u("id"), Next: u("next"), Tokens: u("tokens"),
		Clean: is("clean"), Carried: int(n("carried")), At: n("at"), Len: n("len"), CRC: uint32(u("crc")),
	}
	if is("intent") {
		in := Intent{
			Kind: s("kind"), Token: u("token"), Txn: u("txn"), Dir: s("dir"), Name: s("name"), ShadowDir: s("shadow_dir"), InState: is("in_state"),
			Shadow: s("shadow"), ShadowIno: u("shadow_ino"), Synced: is("synced"), Appears: is("appears"),
			TargetDev: u("target_dev"), TargetIno: u("target_ino"), TargetBirth: n("target_birth"), Size: n("size"), Epoch: s("epoch"),
			Meta: is("meta"), Mode: n("mode"), UID: n("uid"), GID: n("gid"), Keep: s("keep"), Sums: s("sums"),
		}
		if is("as dir") {
			in.ShadowDir = in.Dir
		}
		w := in.wire()
		r.Intent = &w
	}
	return r
}

// A record has the bytes that encoding/json gives it.
func TestEncodeIsJSON(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := drawRecord(t)
		want, err := json.Marshal(&r)
		if err != nil {
			t.Fatal(err)
		}
		if got := r.encode(); string(got) != string(want) {
			t.Fatalf("%s\npackage json writes\n%s", got, want)
		}
	})
	for _, r := range []record{{}, {Op: "done", ID: 3}} {
		if want, _ := json.Marshal(&r); string(r.encode()) != string(want) {
			t.Errorf("%s, and package json writes %s", r.encode(), want)
		}
	}
	r := record{Op: "append", ID: 3, CRC: 5}
	if got, want := string(r.encode()), `{"op":"append","id":3,"at":0,"len":0,"crc":5}`; got != want {
		t.Errorf("%s, and not %s", got, want)
	}
}
