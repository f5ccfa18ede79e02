package validate

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"
)

// content is a file that holds s.
func content(t testing.TB, s string) *os.File {
	t.Helper()
	path := filepath.Join(t.TempDir(), "content")
	if err := os.WriteFile(path, []byte(s), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

// refusal is what Check says of s, nil if it accepts it.
func refusal(t testing.TB, s string, o Options) *Refusal {
	t.Helper()
	err := Check(t.Context(), content(t, s), "f", o)
	var r *Refusal
	if err != nil && !errors.As(err, &r) {
		t.Fatalf("%q: %v", s, err)
	}
	return r
}

func TestRefusals(t *testing.T) {
	deep := strings.Repeat("[", maxDepth+1)
	long := `{"k": "` + strings.Repeat("é", 200) + `", oops` + strings.Repeat("x", 200)
	tests := []struct {
		format  Format
		content string
		want    string // the error, what is quoted, and what the parser says
	}{
		{JSON, "", "json: line 1, column 1: there is no value"},
		{JSON, " \n\t\r\n", "json: line 3, column 1: there is no value"},
		{JSON, "\ufeff{}", "json: line 1, column 1: there is a byte order mark | \ufeff{}"},
		{JSON, "{\n  \"a\": 1,\n  b: 2\n}", "json: line 3, column 3: a key in double quotes is expected here |   b: 2"},
		{JSON, `{"a": 1,}`, `json: line 1, column 9: a key in double quotes is expected here | {"a": 1,}`},
		{JSON, `[1 2]`, "json: line 1, column 4: ',' or ']' is expected here | [1 2]"},
		{JSON, `{"a" 1}`, `json: line 1, column 6: ':' is expected after a key | {"a" 1}`},
		{JSON, `{"é": ]`, `json: line 1, column 7: a value is expected here | {"é": ]`},
		{JSON, `{} {}`, "json: line 1, column 4: there is more after the value | {} {}"},
		{JSON, `{"a": [1, "x`, `json: line 1, column 13: the content ends inside a string | {"a": [1, "x`},
		{JSON, `[1,`, "json: line 1, column 4: the content ends where a value is expected | [1,"},
		{JSON, "[1\n", "json: line 2, column 1: the content ends inside an array"},
		{JSON, `{"a": 1`, `json: line 1, column 8: the content ends inside an object | {"a": 1`},
		{JSON, "-", "json: line 1, column 2: the content ends inside a number | -"},
		{JSON, "[01]", "json: line 1, column 3: a number does not begin with 0 | [01]"},
		{JSON, "[1.]", "json: line 1, column 4: a digit is expected here | [1.]"},
		{JSON, "nul", "json: line 1, column 4: the content ends where a value is expected | nul"},
		{JSON, "nil", "json: line 1, column 2: a value is expected here: true, false or null | nil"},
		{JSON, "\"a\nb\"", "json: line 1, column 3: the line ends inside a string | \"a"},
		{JSON, "\"a\tb\"", "json: line 1, column 3: there is a control character in a string | \"a\tb\""},
		{JSON, `"\x"`, `json: line 1, column 3: there is no such escape in a string | "\x"`},
		{JSON, `"\u12g4"`, `json: line 1, column 6: four hexadecimal digits are expected after \u | "\u12g4"`},
		{JSON, "\"\xff\"", "json: line 1, column 2: this is not valid UTF-8 | \"\xff\""},
		{JSON, "\"\xc3", "json: line 1, column 2: this is not valid UTF-8 | \"\xc3"},
		{JSON, deep, "json: line 1, column 10001: arrays and objects are nested too deep | …" + strings.Repeat("[", 61)},
		{JSON, long, "json: line 1, column 211: a key in double quotes is expected here | …" + strings.Repeat("é", 28) + `", oops` + strings.Repeat("x", 36) + "…"},

		{JSONL, "{}\n{\"a\":\n1}\n", "jsonl: line 2, column 6: the line ends where a value is expected | {\"a\":"},
		{JSONL, "1\n\n2 3\n", "jsonl: line 3, column 3: there is more after the value | 2 3"},
		{JSONL, "{}\n{", "jsonl: line 2, column 2: the line ends inside an object | {"},

		{TOML, "a = 1\nb = \n", "toml: line 2, column 5: this is not valid TOML | b =  | "},
		{TOML, "a = 1\n\"é\" = 2\na = 3\n", "toml: line 3, column 1: this is not valid TOML | a = 3 | "},
		{TOML, "a = \"\xff\"\n", "toml: line 1, column 6: this is not valid TOML | a = \"\xff\" | "},
		{TOML, "\"é\" = é\n", "toml: line 1, column 7: this is not valid TOML | \"é\" = é | "},

		{YAML, "a: b: c\n", "yaml: line 1, column 5: this is not valid YAML | a: b: c | mapping values are not allowed in this context"},
		{YAML, "---\na: 1\n---\nb: : 2\n", "yaml: line 4, column 4: this is not valid YAML | b: : 2 | mapping values are not allowed in this context"},
		{YAML, "a:\n\t- b\n", "yaml: line 2, column 1: this is not valid YAML | \t- b | while scanning for the next token, found character that cannot start any token"},
		{YAML, "- *x\n", "yaml: line 1, column 3: this is not valid YAML | - *x | unknown anchor 'x' referenced"},
		{YAML, "a: é\nb: \xff\n", "yaml: line 2, column 4: this is not valid YAML | b: \xff | invalid leading UTF-8 octet (value: 255)"},
	}
	for _, tt := range tests {
		r := refusal(t, tt.content, Options{Formats: []Format{tt.format}})
		if r == nil {
			t.Errorf("%s accepts %q", tt.format, tt.content)
			continue
		}
		got := r.Error()
		if r.Content != "" {
			got += " | " + r.Content
		}
		if len(r.Output) > 0 {
			got += " | " + strings.Join(r.Output, "\n")
		}
		// How the TOML library says it is its own business.
		if open := strings.HasSuffix(tt.want, " | "); got != tt.want && !(open && strings.HasPrefix(got, tt.want) && len(got) > len(tt.want)) {
			t.Errorf("%s of %q:\n got %s\nwant %s", tt.format, tt.content, got, tt.want)
		}
	}
}

func TestAccepted(t *testing.T) {
	tests := []struct {
		format  Format
		content []string
	}{
		{JSON, []string{"{}", " null\n", `{"a": 1, "a": 2}`, "-0.5e+7", `["\ud800 é 𝄞"]`, "0", strings.Repeat("[", maxDepth) + strings.Repeat("]", maxDepth)}},
		{JSONL, []string{"", "\n \n", "{}\r\n{}\n\n1", "1\n2\n"}},
		{TOML, []string{"", "# nothing\n", "a = 1\n[b.c]\nd = [1, 2]\n"}},
		{YAML, []string{"", "---\na: 1\n---\nb: &x [1]\nc: *x\n...\n", "a: 1\na: 2\n", "\ufeffa: 1\n", "just text", "a: !mine x\n"}},
	}
	for _, tt := range tests {
		for _, s := range tt.content {
			if r := refusal(t, s, Options{Formats: []Format{tt.format}}); r != nil {
				t.Errorf("%s refuses %.40q: %v", tt.format, s, r)
			}
		}
	}
}

func TestSizes(t *testing.T) {
	for s, want := range map[string]string{
		"":                "non-empty: the file is empty",
		" \n\t\v\f\r":     "non-empty: there is nothing but white space",
		"\x00":            "",
		"     x":          "",
		"12345678901":     "max-size: 11 bytes are more than 10",
		"           \n\n": "max-size: 13 bytes are more than 10",
	} {
		got := ""
		if r := refusal(t, s, Options{NonEmpty: true, MaxSize: 10}); r != nil {
			got = r.Error()
		}
		if got != want {
			t.Errorf("%q: %q, want %q", s, got, want)
		}
	}
	if r := refusal(t, "a: 1\n"+strings.Repeat("#\n", MaxWhole/2), Options{Formats: []Format{YAML}}); r == nil || r.Validator != "yaml" {
		t.Errorf("YAML of more than MaxWhole: %v", r)
	}
	if r := refusal(t, "{}", Options{Formats: []Format{"xml"}}); r == nil || r.Error() != "xml: there is no such validator" {
		t.Errorf("an unknown format: %v", r)
	}
	if r := refusal(t, "{", Options{}); r != nil {
		t.Errorf("no validators: %v", r)
	}
}

// The first that refuses decides, in the order of the package comment.
func TestOrder(t *testing.T) {
	all := Options{MaxSize: 3, NonEmpty: true, Formats: []Format{JSON, YAML}, Command: []string{"/bin/false"}}
	for s, want := range map[string]string{"    ": MaxSize, "  ": NonEmpty, "a:": "json", "{}": Command} {
		if r := refusal(t, s, all); r == nil || r.Validator != want {
			t.Errorf("%q: %v, want %s", s, r, want)
		}
	}
}

// A character that lies on the border between two reads is one character.
func TestChunks(t *testing.T) {
	for pad := chunk - 8; pad < chunk+4; pad++ {
		s := `["` + strings.Repeat("x", pad) + `é𝄞", ]`
		r := refusal(t, s, Options{Formats: []Format{JSON}})
		if want := pad + 8; r == nil || r.Column != want || !strings.HasSuffix(r.Content, `xé𝄞", ]`) {
			t.Errorf("pad %d: %v, want column %d", pad, r, want)
		}
	}
}

func TestLines(t *testing.T) {
	if err := Lines([]byte("{}\n\n[1]\n")); err != nil {
		t.Error(err)
	}
	var r *Refusal
	if err := Lines([]byte("{}\n{\"a\"}\n")); !errors.As(err, &r) || r.Line != 2 || r.Content != `{"a"}` {
		t.Errorf("%v", err)
	}
}

func TestCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, o := range []Options{
		{NonEmpty: true}, {Formats: []Format{JSON}}, {Command: []string{"/bin/sleep", "100"}},
	} {
		if err := Check(ctx, content(t, "{}"), "f", o); !errors.Is(err, context.Canceled) {
			t.Errorf("%+v: %v", o, err)
		}
	}
	leave, err := parsingLarge.take(t.Context(), 7)
	if err != nil {
		t.Fatal(err)
	}
	defer leave()
	big := content(t, strings.Repeat("#\n", smallWhole))
	if err := Check(ctx, big, "f", Options{Formats: []Format{TOML}, Writer: 7}); !errors.Is(err, context.Canceled) {
		t.Errorf("while another is parsed: %v", err)
	}
}

// Memory does not grow with the content.
func TestJSONIsStreamed(t *testing.T) {
	const size = 8 << 20
	f := content(t, `["`+strings.Repeat("x", size/2)+`",`+strings.Repeat("1,", size/4)+"1]")
	perRun := testing.Benchmark(func(b *testing.B) {
		b.ReportAllocs()
		for range b.N {
			if err := Check(b.Context(), f, "f", Options{NonEmpty: true, Formats: []Format{JSON, JSONL}}); err != nil {
				b.Fatal(err)
			}
		}
	}).AllocedBytesPerOp()
	if perRun > 1<<20 {
		t.Errorf("%d bytes were allocated for a file of %d", perRun, size)
	}
}

func BenchmarkJSON(b *testing.B) {
	f := content(b, "["+strings.Repeat(`{"name": "a name", "count": 12345, "tags": ["é", null]},`+"\n", 20000)+"1]")
	st, _ := f.Stat()
	b.SetBytes(st.Size())
	for b.Loop() {
		if err := Check(b.Context(), f, "f", Options{Formats: []Format{JSON}}); err != nil {
			b.Fatal(err)
		}
	}
}

// seeds are a beginning for the fuzzers.
func seeds(f *testing.F) {
	for _, s := range []string{
		"", "{}", "[1, 2.5e-3, true, null]", `{"a": {"b": "\u00e9\n"}}`, "\ufeff{}", "\"\xff\"", "[01]", "-", "1\n2\n",
		"a = 1\n[b]\nc = [{d = 1979-05-27T07:32:00Z}]\n", "a: &x [1]\nb: *x\n---\n- |\n  text\n", "{{[[", "'''", "? :", "%YAML 1.2\n---\n",
	} {
		f.Add([]byte(s))
	}
}

// The json validator accepts what encoding/json does, if it is UTF-8.
func FuzzJSON(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, b []byte) {
		s := newJSONStream(false)
		if err := s.run(t.Context(), bytes.NewReader(b)); err != nil {
			t.Fatal(err)
		}
		if got, want := s.refused == nil, json.Valid(b) && utf8.Valid(b); got != want {
			t.Errorf("accepted %v, want %v: %v", got, want, s.refused)
		}
	})
}

// The jsonl validator accepts what encoding/json does of each line.
func FuzzLines(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, b []byte) {
		want := utf8.Valid(b)
		for line := range bytes.SplitSeq(b, []byte("\n")) {
			want = want && (len(bytes.Trim(line, " \t\r")) == 0 || json.Valid(line))
		}
		if err := Lines(b); (err == nil) != want {
			t.Errorf("accepted %v, want %v: %v", err == nil, want, err)
		}
	})
}

// No content makes a validator panic or point outside the content.
func FuzzFormats(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, format := range []Format{JSON, JSONL, TOML, YAML} {
			err := checkFormat(t.Context(), bytesAt(b), int64(len(b)), format, &Options{})
			var r *Refusal
			if err == nil {
				continue
			}
			if !errors.As(err, &r) {
				t.Fatalf("%s: %v", format, err)
			}
			// YAML has more line breaks than the newline.
			if lines := len(b) + 1; r.Line < 0 || r.Column < 0 || r.Line > lines || r.Column > len(b)+2 {
				t.Errorf("%s: line %d, column %d of %d bytes", format, r.Line, r.Column, len(b))
			}
			if r.Reason == "" || strings.Contains(r.Reason, "\n") {
				t.Errorf("%s: reason %q", format, r.Reason)
			}
			if r.Reason == "the parser failed" {
				t.Errorf("%s panicked: %s", format, r.Output)
			}
		}
	})
}
