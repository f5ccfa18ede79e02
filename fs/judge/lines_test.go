package judge

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

// byLines is a policy that judges each line, of files up to 4 MiB.
var byLines = &policy.Validation{Formats: []policy.Format{policy.JSONL}, MaxSize: 4 << 20}

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

func TestLines(t *testing.T) {
	jsonl := string(policy.JSONL)
	small := &policy.Validation{MaxSize: 8}
	long := `"` + strings.Repeat("x", 9000) // over two reads and a part of one
	for name, c := range map[string]struct {
		v        *policy.Validation
		has, add string
		by       string // who refuses it
	}{
		"a line":                         {byLines, "{}\n", "[1]\n", ""},
		"not a line":                     {byLines, "{}\n", "[1\n", jsonl},
		"the end of a line":              {byLines, "{}\n{\"a\":", "1}\n", ""},
		"not the end of that line":       {byLines, "{}\n{\"a\":", "{}\n", jsonl},
		"a line that is one for itself":  {byLines, "{\"a\"\n", "{}\n", ""}, // what is there was judged, or never
		"the end of the only line":       {byLines, "{\"a\":", "1}\n", ""},
		"the end of a long line":         {byLines, "{}\n" + long, "\"\n", ""},
		"a long line goes wrong":         {byLines, "{}\n" + long, "\n", jsonl},
		"after a long line":              {byLines, long + "\"\n", "1\n", ""},
		"a newline before a whole read":  {byLines, "{\n" + strings.Repeat("1", 4096), "2\n", ""},
		"a newline begins a read":        {byLines, "{\n" + strings.Repeat("1", 4095), "2\n", ""},
		"the first line of an empty one": {byLines, "", "{}\n", ""},
		"of size 8 exactly":              {small, "1234", "5678", ""},
		"beyond it":                      {small, "1234", "56789", validate.MaxSize},
		"what is no line, unasked":       {&policy.Validation{}, "{\n", "{\n", ""},
		"the longest open line":          {byLines, strings.Repeat("1", maxOpenLine-1), "1\n", ""},
		"a line too long to be checked":  {byLines, strings.Repeat("1", maxOpenLine), "1\n", jsonl},
		"such a line behind another one": {byLines, "{}\n" + strings.Repeat("1", maxOpenLine), "1\n", jsonl},
		"another line behind such a one": {byLines, strings.Repeat("1", maxOpenLine) + "\n", "1\n", ""},
	} {
		if by := refusedBy(t, lines(c.v, fileOf(t, c.has, unix.O_RDONLY), []byte(c.add))); by != c.by {
			t.Errorf("%s: refused by %q, want %q", name, by, c.by)
		}
	}
}

// A refusal names the line, counted from that which the bytes go on with.
func TestLinesNameTheLine(t *testing.T) {
	for add, line := range map[string]int{"{}\n": 1, "1}\n[\n": 2} {
		var r *validate.Refusal
		err := lines(byLines, fileOf(t, "{}\n{\"a\":", unix.O_RDONLY), []byte(add))
		if !errors.As(err, &r) || r.Line != line {
			t.Errorf("%q: %v, want one of line %d", add, err, line)
		}
	}
}

// What cannot be read is not taken for accepted, nor for refused.
func TestLinesOfWhatCannotBeRead(t *testing.T) {
	var r *validate.Refusal
	if err := lines(byLines, fileOf(t, "{", unix.O_WRONLY), []byte("}\n")); err == nil || errors.As(err, &r) {
		t.Errorf("a file that is open for writing only: %v", err)
	}
	if err := lines(byLines, -1, []byte("{}\n")); err == nil || errors.As(err, &r) {
		t.Errorf("no file: %v", err)
	}
}

func TestCut(t *testing.T) {
	jsonl := string(policy.JSONL)
	for name, c := range map[string]struct {
		v    *policy.Validation
		has  string
		size int64
		by   string
	}{
		"where a line ends":            {byLines, "{}\n[1]\n", 3, ""},
		"within one":                   {byLines, "{}\n[1]\n", 4, jsonl},
		"before its newline":           {byLines, "{}\n[1]\n", 2, jsonl},
		"everything":                   {byLines, "{}\n", 0, ""},
		"nothing, of an open line":     {byLines, "{}\n[", 4, ""},
		"zeros behind a line":          {byLines, "{}\n", 5, jsonl},
		"too many zeros":               {&policy.Validation{MaxSize: 8}, "1", 9, validate.MaxSize},
		"too many zeros behind a line": {byLines, "{}\n", 5 << 20, validate.MaxSize},
		"not so many":                  {&policy.Validation{MaxSize: 8}, "1", 8, ""},
		"within what is no line":       {&policy.Validation{}, "{}\n[1]\n", 4, ""},
	} {
		if by := refusedBy(t, cut(c.v, fileOf(t, c.has, unix.O_RDONLY), c.size)); by != c.by {
			t.Errorf("%s: refused by %q, want %q", name, by, c.by)
		}
	}
	if err := cut(byLines, -1, 4); err != nil {
		t.Errorf("no file: %v", err) // cutting it fails by itself
	}
}

func TestByLines(t *testing.T) {
	for name, c := range map[string]struct {
		v              *policy.Validation
		byLines, lines bool
	}{
		"nothing is asked":      {nil, true, false},
		"lines":                 {byLines, true, true},
		"a size":                {&policy.Validation{MaxSize: 8}, true, false},
		"a document":            {&policy.Validation{Formats: []policy.Format{policy.JSON}}, false, true},
		"lines and a document":  {&policy.Validation{Formats: []policy.Format{policy.JSONL, policy.TOML}}, false, true},
		"that there is content": {&policy.Validation{Formats: []policy.Format{policy.JSONL}, NonEmpty: true}, false, true},
		"what a command checks": {&policy.Validation{Command: []string{"true"}}, false, false},
	} {
		s := newStage(t)
		s.rules(c.v, "f")
		if got := ByLines(c.v); got != c.byLines {
			t.Errorf("%s: by lines %v", name, got)
		}
		if got := s.ByLines([]string{"other", "f"}); got != c.byLines {
			t.Errorf("%s: under two names: by lines %v", name, got)
		}
		if got := s.JudgesLines("f"); got != c.lines {
			t.Errorf("%s: each line is judged: %v", name, got)
		}
	}
	if s := newStage(t); !s.ByLines(nil) {
		t.Error("a file without further names is not appended to")
	}
}

// What is appended has to be accepted as all names of the file.
func TestLinesOfSeveralNames(t *testing.T) {
	s := newStage(t)
	s.rules(byLines, "lines")
	s.rules(&policy.Validation{MaxSize: 8}, "small")
	fd, _ := s.file("{}\n")
	for _, c := range []struct{ paths, add, by string }{
		{"free", "{\n", ""},
		{"free lines", "{\n", string(policy.JSONL)},
		{"lines small", "{}\n", ""},
		{"lines small", "{    }\n", validate.MaxSize},
		{"small lines", "{\n", string(policy.JSONL)},
	} {
		if by := refusedBy(t, s.Lines(strings.Fields(c.paths), fd, []byte(c.add))); by != c.by {
			t.Errorf("%q to %s: refused by %q, want %q", c.add, c.paths, by, c.by)
		}
	}
	for path, by := range map[string]string{"free": "", "small": "", "lines": string(policy.JSONL)} {
		if got := refusedBy(t, s.Cut(path, fd, 2)); got != by {
			t.Errorf("cut of %s: refused by %q, want %q", path, got, by)
		}
	}
}

// A name may have come to a file since that was opened to append to it, and be one whose content
// is judged as a whole. Then nothing is appended or cut; an append makes no file empty.
func TestLinesOfWhatIsJudgedAsAWhole(t *testing.T) {
	s := newStage(t)
	s.rules(byLines, "b")
	s.rules(asJSON, "a")
	s.rules(&policy.Validation{Command: []string{"/bin/true"}}, "c")
	s.rules(&policy.Validation{NonEmpty: true}, "d")
	fd := fileOf(t, "{}\n", unix.O_RDWR)
	for path, want := range map[string]string{"a": "json", "b": "", "c": validate.Command, "d": ""} {
		if by := refusedBy(t, s.Lines([]string{"b", path}, fd, []byte("{}\n"))); by != want {
			t.Errorf("as %s a line is refused by %q, want %q", path, by, want)
		}
		if by := refusedBy(t, s.Cut(path, fd, 0)); by != want {
			t.Errorf("as %s a cut is refused by %q, want %q", path, by, want)
		}
	}
}
