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
		`{"op":"upgrade","lock":"x"}`:       `unknown op "upgrade"`,
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

// Each operation is accepted with the least that it needs, and with what else it knows.
func TestParseAccepts(t *testing.T) {
	for _, line := range []string{
		`{"op":"acquire","paths":["a"]}`, `{"op":"acquire","trees":["a"]}`, `{"op":"acquire","names":["a"]}`,
		`{"op":"check","trees":["a"]}`, `{"op":"steal","names":["a"],"force":true}`,
		`{"op":"acquire","paths":["a"],"txn":true}`, `{"op":"acquire","paths":["a"],"txn":true,"mode":"exclusive"}`,
		`{"op":"acquire","paths":["a"],"holder":7,"mode":"update"}`, `{"op":"acquire","paths":["a"],"mode":"shared"}`,
		`{"op":"release","lock":"x"}`, `{"op":"release","all":true}`, `{"op":"release","paths":["a"]}`,
		`{"op":"release","trees":["a"]}`, `{"op":"release","names":["a"]}`,
		`{"op":"forget","paths":["a"],"version":3}`, `{"op":"forget","paths_base64":["YQ=="]}`,
		`{"op":"pin","paths":["a"],"version":3}`, `{"op":"unpin","paths_base64":["YQ=="],"version":1}`,
		`{"op":"commit","lock":"x"}`, `{"op":"rollback","lock":"x","reason":"why"}`,
		`{"op":"label","actor":"ann"}`, `{"op":"list"}`, `{"op":"list","mine":true}`,
		`{"op":"list","id":"` + strings.Repeat("x", MaxLabel) + `"}`,
		`{"op":"label","actor":"` + strings.Repeat("x", MaxLabel) + `"}`,
		`{"op":"check","paths":["\ud83d\ude00"]}`,
	} {
		if _, err := Parse([]byte(line)); err != nil {
			t.Errorf("Parse(%s) = %v", line, err)
		}
	}
}

// An operation that lacks what it needs, or has what is not for it, is refused.
func TestParseRefusesMore(t *testing.T) {
	long := strings.Repeat("x", MaxLabel+1)
	for line, want := range map[string]string{
		`{"op":"check"}`: "check: neither paths", `{"op":"steal","force":true}`: "steal: neither paths",
		`{"op":"commit"}`: "commit: the lock", `{"op":"rollback","reason":"x"}`: "rollback: the lock",
		`{"op":"forget"}`: "one path", `{"op":"forget","paths":["a"],"trees":["b"]}`: "one path", `{"op":"forget","paths":["a"],"names":["b"]}`: "one path",
		`{"op":"pin","paths":["a"]}`: "pin: a version", `{"op":"unpin","version":1}`: "unpin: one path", `{"op":"pin","paths":["a","b"],"version":1}`: "pin: one path",
		`{"op":"label"}`: "label: the label is empty", `{"op":"label","actor":" \t"}`: "the label is empty",
		`{"op":"label","actor":"a\nb"}`: "cannot be printed", `{"op":"label","actor":"a\u202eb"}`: "cannot be printed",
		`{"op":"label","actor":"` + long + `"}`:                     "the label has 257 bytes, and 256",
		`{"op":"list","txn":true}`:                                  "txn is for acquire",
		`{"op":"acquire","paths":["a"],"txn":true,"holder":7}`:      "belongs to the conversation",
		`{"op":"acquire","paths":["a"],"txn":true,"mode":"shared"}`: "belongs to the conversation",
		`{"op":"list","id":"` + long + `"}`:                         "id is too long: 257 bytes, and at most 256",
		`{"op":"list","operation":"` + long + `"}`:                  "operation is too long",
		`{"op":"list","actor":"` + long + `"}`:                      "actor is too long",
		`{"op":"rollback","lock":"x","reason":"` + long + `"}`:      "reason is too long",
		`{"op":"release","lock":"` + long + `"}`:                    "lock is too long",
		`{"op":"list","id":"` + "\xff" + `"}`:                       "no UTF-8",
		`{"op":"check","paths":["` + "\uFFFD" + `"]}`:               "no UTF-8",
		`{"op":"check","paths":["\ud800"]}`:                         "surrogate",
		`{"op":"check","trees":["a","b\udc00"]}`:                    "surrogate",
		`{"op":"list"}` + "\n" + `{"op":"list"}`:                    "one JSON object",
	} {
		if _, err := Parse([]byte(line)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Parse(%q) = %v, want %q", line, err, want)
		}
	}
}

// A request that is refused is answered by its id, as far as that was read.
func TestRefusedByItsID(t *testing.T) {
	for _, line := range []string{`{"id":"7","op":"take"}`, `{"id":"7","op":3}`, `{"id":"7","op":"list"} more`} {
		if r, err := Parse([]byte(line)); err == nil || r.ID != "7" {
			t.Errorf("Parse(%s) = %+v, %v", line, r, err)
		}
	}
}

// A reply that cannot be written is a reply all the same.
func TestReplyThatCannotBeWritten(t *testing.T) {
	r := Reply{OK: true, Locks: []json.RawMessage{[]byte("{")}}
	want := `before{"ok":false,"error":"unavailable","message":"the reply cannot be written"}` + "\n"
	if got := string(r.Append([]byte("before"))); got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestDuration(t *testing.T) {
	for text, want := range map[string]Duration{`"0s"`: 0, `"forever"`: Forever, `"1m30s"`: Duration(90 * time.Second)} {
		var d Duration
		if err := json.Unmarshal([]byte(text), &d); err != nil || d != want {
			t.Errorf("%s is %v, %v", text, d, err)
		}
		if b, err := json.Marshal(want); err != nil || string(b) != text {
			t.Errorf("%v is written as %s, %v", want, b, err)
		}
	}

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
