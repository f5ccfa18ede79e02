package appends

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"latchfs/journal/validate"
	"latchfs/lockmgr/policy"
)

// lines is a policy that judges each line, of files up to 4 MiB.
var lines = &policy.Validation{Formats: []policy.Format{policy.JSONL}, MaxSize: 4 << 20}

// fileOf makes a file and opens it with flags.
func fileOf(t *testing.T, content string, flags int) int {
	t.Helper()
	name := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	fd, err := unix.Open(name, flags|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	return fd
}

// refusedBy is the validator that has refused, "" if the error is nil.
func refusedBy(t *testing.T, err error) string {
	t.Helper()
	var r *validate.Refusal
	if err != nil && !errors.As(err, &r) {
		t.Fatalf("an error that is not a refusal: %v", err)
	}
	if r == nil {
		return ""
	}
	return r.Validator
}

func TestJudge(t *testing.T) {
	jsonl := string(policy.JSONL)
	small := &policy.Validation{MaxSize: 8}
	long := `"` + strings.Repeat("x", 9000) // over two reads and a part of one
	for name, c := range map[string]struct {
		v        *policy.Validation
		has, add string
		by       string // who refuses it
	}{
		"a line":                         {lines, "{}\n", "[1]\n", ""},
		"not a line":                     {lines, "{}\n", "[1\n", jsonl},
		"the end of a line":              {lines, "{}\n{\"a\":", "1}\n", ""},
		"not the end of that line":       {lines, "{}\n{\"a\":", "{}\n", jsonl},
		"a line that is one for itself":  {lines, "{\"a\"\n", "{}\n", ""}, // what is there was judged, or never
		"the end of the only line":       {lines, "{\"a\":", "1}\n", ""},
		"the end of a long line":         {lines, "{}\n" + long, "\"\n", ""},
		"a long line goes wrong":         {lines, "{}\n" + long, "\n", jsonl},
		"after a long line":              {lines, long + "\"\n", "1\n", ""},
		"a newline before a whole read":  {lines, "{\n" + strings.Repeat("1", 4096), "2\n", ""},
		"a newline begins a read":        {lines, "{\n" + strings.Repeat("1", 4095), "2\n", ""},
		"the first line of an empty one": {lines, "", "{}\n", ""},
		"of size 8 exactly":              {small, "1234", "5678", ""},
		"beyond it":                      {small, "1234", "56789", validate.MaxSize},
		"what is no line, unasked":       {&policy.Validation{}, "{\n", "{\n", ""},
		"the longest open line":          {lines, strings.Repeat("1", maxOpenLine-1), "1\n", ""},
		"a line too long to be checked":  {lines, strings.Repeat("1", maxOpenLine), "1\n", jsonl},
		"such a line behind another one": {lines, "{}\n" + strings.Repeat("1", maxOpenLine), "1\n", jsonl},
		"another line behind such a one": {lines, strings.Repeat("1", maxOpenLine) + "\n", "1\n", ""},
	} {
		if by := refusedBy(t, Judge(c.v, fileOf(t, c.has, unix.O_RDONLY), []byte(c.add))); by != c.by {
			t.Errorf("%s: refused by %q, want %q", name, by, c.by)
		}
	}
}

// A refusal names the line, counted from that which the bytes go on with.
func TestJudgeNamesTheLine(t *testing.T) {
	for add, line := range map[string]int{"{}\n": 1, "1}\n[\n": 2} {
		var r *validate.Refusal
		err := Judge(lines, fileOf(t, "{}\n{\"a\":", unix.O_RDONLY), []byte(add))
		if !errors.As(err, &r) || r.Line != line {
			t.Errorf("%q: %v, want one of line %d", add, err, line)
		}
	}
}

// What cannot be read is not taken for accepted, nor for refused.
func TestJudgeOfWhatCannotBeRead(t *testing.T) {
	var r *validate.Refusal
	if err := Judge(lines, fileOf(t, "{", unix.O_WRONLY), []byte("}\n")); err == nil || errors.As(err, &r) {
		t.Errorf("a file that is open for writing only: %v", err)
	}
	if err := Judge(lines, -1, []byte("{}\n")); err == nil || errors.As(err, &r) {
		t.Errorf("no file: %v", err)
	}
}

func TestJudgeCut(t *testing.T) {
	jsonl := string(policy.JSONL)
	for name, c := range map[string]struct {
		v    *policy.Validation
		has  string
		size int64
		by   string
	}{
		"where a line ends":            {lines, "{}\n[1]\n", 3, ""},
		"within one":                   {lines, "{}\n[1]\n", 4, jsonl},
		"before its newline":           {lines, "{}\n[1]\n", 2, jsonl},
		"everything":                   {lines, "{}\n", 0, ""},
		"nothing, of an open line":     {lines, "{}\n[", 4, ""},
		"zeros behind a line":          {lines, "{}\n", 5, jsonl},
		"too many zeros":               {&policy.Validation{MaxSize: 8}, "1", 9, validate.MaxSize},
		"too many zeros behind a line": {lines, "{}\n", 5 << 20, validate.MaxSize},
		"not so many":                  {&policy.Validation{MaxSize: 8}, "1", 8, ""},
		"within what is no line":       {&policy.Validation{}, "{}\n[1]\n", 4, ""},
	} {
		if by := refusedBy(t, JudgeCut(c.v, fileOf(t, c.has, unix.O_RDONLY), c.size)); by != c.by {
			t.Errorf("%s: refused by %q, want %q", name, by, c.by)
		}
	}
	if err := JudgeCut(lines, -1, 4); err != nil {
		t.Errorf("no file: %v", err) // cutting it fails by itself
	}
}
