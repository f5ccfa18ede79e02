package control

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestParse(t *testing.T) {
	wait := Duration(5 * time.Second)
	got, err := Parse([]byte(`{"op":"acquire","id":"7","paths":["a/b"],"wait":"5s","holder":12,"steal":true}`))
	want := Request{Op: Acquire, ID: "7", Paths: []string{"a/b"}, Wait: &wait, Holder: 12, Steal: true}
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

// JSON cannot tell every path.
func TestParsePathThatIsNotUTF8(t *testing.T) {
	line, err := json.Marshal(Request{Op: Forget, PathsBase64: [][]byte{[]byte("d/n\xff")}})
	if err != nil {
		t.Fatal(err)
	}
	got, err := Parse(line)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(Request{Op: Forget, Paths: []string{"d/n\xff"}}, got); d != "" {
		t.Error(d)
	}
}

func TestParseRefuses(t *testing.T) {
	for line, want := range map[string]string{
		``:                                  "not a request",
		`acquire a`:                         "not a request",
		`{"op":"acquire","paths":["a"]} {}`: "one JSON object a line",
		`{"op":"acquire"}`:                  "neither paths nor trees nor names",
		`{"op":"acquire","path":"a"}`:       "unknown field",
		`{"op":"take","paths":["a"]}`:       `unknown op "take"`,
		`{"op":"release"}`:                  "neither a lock",
		`{"op":"upgrade","lock":"x"}`:       "lock and mode are needed",
		`{"op":"acquire","names":["A"]}`:    `bad name "A"`,
		`{"op":"acquire","names":["a-"]}`:   `bad name "a-"`,
		`{"op":"list","mode":"write"}`:      `bad mode "write"`,
		`{"op":"list","wait":"-1s"}`:        "bad duration",
		`{"op":"list","wait":3}`:            "a duration is a string",
		`{"op":"list","ttl":"soon"}`:        "bad duration",
		`{"op":"forget","paths":["a"],"paths_base64":["Yg=="]}`: "one path",
		`{"op":"acquire","paths_base64":["Yg=="]}`:              "for forget",
		`{"op":"forget","paths_base64":["b"]}`:                  "not a request",
		`{"op":"acquire","names":["a","_"]}`:                    `bad name "_"`,
	} {
		if _, err := Parse([]byte(line)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Parse(%s) = %v, want %q", line, err, want)
		}
	}
}

func TestDuration(t *testing.T) {
	for _, d := range []Duration{0, Forever, Duration(90 * time.Second)} {
		b, err := json.Marshal(d)
		if err != nil {
			t.Fatal(err)
		}
		var back Duration
		if err := json.Unmarshal(b, &back); err != nil || back != d {
			t.Errorf("%s is read back as %v, %v", b, back, err)
		}
	}
}

func TestValidName(t *testing.T) {
	for name, want := range map[string]bool{
		"": false, "a": true, "deploy-prod_1": true, "-a": false, "a_": false, "aB": false, "a.b": false, "a/b": false,
		strings.Repeat("x", 128): true, strings.Repeat("x", 129): false,
	} {
		if ValidName(name) != want {
			t.Errorf("ValidName(%q) = %v", name, !want)
		}
	}
}

// A shell tells a reply by its beginning.
func TestReplyBeginsWithOK(t *testing.T) {
	yes := Reply{OK: true, Lock: "x", Token: 3}
	no := Reply{ID: "1", Refusal: &Refusal{Error: Blocked, Message: "m", HeldBy: &HeldBy{Actor: "a"}}}
	if got := string(yes.Append(nil)); got != `{"ok":true,"lock":"x","token":3}`+"\n" {
		t.Error(got)
	}
	if got := string(no.Append(nil)); !strings.HasPrefix(got, `{"ok":false,"id":"1","error":"lock_blocked"`) {
		t.Error(got)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"op":"acquire","paths":["a"],"wait":"forever"}`))
	for _, s := range []string{
		`{"op":"release","all":true,"id":"1"}`, `{"op":"steal","trees":["a/b"],"force":true,"ttl":"0s"}`, `{"op":"commit","lock":"x","reason":"\u202e"}`,
		`{"op":"acquire","names":["a-b"],"mode":"shared","txn":true,"holder":-1}`, `{"op":"check","paths":["\ud800"]}`, "{}", "[]", `{"op":1}{`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		r, err := Parse(line)
		if err != nil {
			return
		}
		b, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		back, err := Parse(b)
		if err != nil {
			t.Fatalf("%s: %v", b, err)
		}
		if d := cmp.Diff(r, back); d != "" {
			t.Fatal(d)
		}
	})
}
