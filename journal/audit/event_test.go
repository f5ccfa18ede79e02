package audit

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"testing"
	"time"
	"unicode/utf8"

	"pgregory.net/rapid"
)

// marshal is what encoding/json makes of an event.
func marshal(e *Event) ([]byte, error) {
	m := map[string]any{}
	for k, v := range e.Detail {
		m[k] = v
	}
	m["timestamp"], m["event"] = e.Time.UTC().Format(time.RFC3339Nano), e.Event
	set := func(key string, value any, zero bool) {
		if !zero {
			m[key] = value
		}
	}
	set("path", e.Path, e.Path == "")
	set("path_base64", []byte(e.Path), utf8.ValidString(e.Path))
	set("session", e.Session, e.Session == "")
	set("actor", e.Actor, e.Actor == "")
	set("pid", e.PID, e.PID == 0)
	set("token", e.Token, e.Token == 0)
	return json.Marshal(m)
}

// anyText draws strings of what JSON treats in various ways.
func anyText() *rapid.Generator[string] {
	return rapid.OneOf(
		rapid.SampledFrom([]string{"", "a/b.json", "<&>", "\u2028\u2029\x7f\u0085\u202e", "\xff", "\xe2\x80", "\"\\\b\f\n\r\t\x00\x1f", "é\U0001f600\ufffd"}),
		rapid.String(),
		rapid.Map(rapid.SliceOf(rapid.Byte()), func(b []byte) string { return string(b) }),
	)
}

func anyValue() *rapid.Generator[any] {
	type own struct {
		A string `json:"a,omitempty"`
		B []byte
	}
	return rapid.OneOf(
		rapid.Map(anyText(), func(s string) any { return s }),
		rapid.Map(rapid.Bool(), func(v bool) any { return v }),
		rapid.Map(rapid.Int(), func(v int) any { return v }),
		rapid.Map(rapid.Int32(), func(v int32) any { return v }),
		rapid.Map(rapid.Int64(), func(v int64) any { return v }),
		rapid.Map(rapid.Uint32(), func(v uint32) any { return v }),
		rapid.Map(rapid.Uint64(), func(v uint64) any { return v }),
		rapid.Map(rapid.Float64(), func(v float64) any { return v }),
		rapid.Map(rapid.SliceOf(anyText()), func(v []string) any { return v }),
		rapid.Map(anyText(), func(s string) any { return own{s, []byte(s)} }),
		rapid.Map(anyText(), func(s string) any { return map[string]any{s: s, "x": nil, "a": 1} }),
		rapid.Map(anyText(), func(s string) any { return json.RawMessage(`{"a": [1, "<"]}`) }),
		rapid.SampledFrom([]any{nil, uint8(3), []int(nil), time.Unix(1, 2).UTC(), math.NaN(), json.RawMessage("{"), func() {}}),
	)
}

func anyKey() *rapid.Generator[string] {
	return rapid.OneOf(
		rapid.SampledFrom([]string{"actor", "event", "path", "path_base64", "pid", "session", "timestamp", "token", "uid", "program", "a", "zz", "pathx", "to"}),
		anyText(),
	)
}

func drawEvent(t *rapid.T) Event {
	s := func(name string) string { return anyText().Draw(t, name) }
	return Event{
		Time:  time.Unix(rapid.Int64Range(-1e10, 1e10).Draw(t, "time"), rapid.Int64Range(0, 999_999_999).Draw(t, "ns")),
		Event: s("event"), Path: s("path"), Session: s("session"), Actor: s("actor"),
		PID: rapid.SampledFrom([]int32{0, 1, -4, math.MaxInt32}).Draw(t, "pid"), Token: rapid.SampledFrom([]uint64{0, 7, math.MaxUint64}).Draw(t, "token"),
		Detail: rapid.MapOfN(anyKey(), anyValue(), 0, 40).Draw(t, "detail"),
	}
}

// The line of an event has the bytes that encoding/json gives a map of its fields.
func TestEventIsJSON(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := drawEvent(t)
		want, wantErr := marshal(&e)
		got, err := e.MarshalJSON()
		if fmt.Sprint(err) != fmt.Sprint(wantErr) || !bytes.Equal(got, want) {
			t.Fatalf("%s, %v\npackage json writes\n%s, %v", got, err, want, wantErr)
		}
		plain := make([]byte, 0, len(got))
		for _, r := range string(got) {
			if unprintable(r) {
				plain = nil
			}
		}
		if is := isASCII(got); is && plain == nil {
			t.Fatalf("%q is not printable", got)
		}
	})
}
