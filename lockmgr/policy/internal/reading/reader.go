package reading

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pelletier/go-toml/v2"

	"latchfs/lockmgr/policy/internal/position"
)

// Reader reads the values of one document, and collects what is wrong with them.
type Reader struct {
	file string
	at   position.Map
	errs Errors
}

// Open decodes a document. The file is its name in errors and in Where. The document is
// decoded into maps and judged value by value, for the decoder's strict mode matches keys
// without regard to case and stops at the first wrong type. The error is of type Errors:
// the document is not TOML.
func Open(file string, data []byte) (doc map[string]any, r *Reader, err error) {
	if err := toml.Unmarshal(data, &doc); err != nil {
		return nil, nil, Errors{syntaxError(file, err)}
	}
	return doc, &Reader{file: file, at: position.Locate(data)}, nil
}

// Fail records an error at the line of a node.
func (r *Reader) Fail(at position.Node, format string, args ...any) {
	r.errs = append(r.errs, &Error{File: r.file, Line: r.Line(at), Reason: fmt.Sprintf(format, args...)})
}

// Err returns all that is wrong with the document so far, as Errors sorted by line; nil if
// nothing is.
func (r *Reader) Err() error {
	if len(r.errs) == 0 {
		return nil
	}
	errs := slices.Clone(r.errs)
	slices.SortStableFunc(errs, func(a, b *Error) int { return cmp.Compare(a.Line, b.Line) })
	return errs
}

// Line returns the line of a node, from 1.
func (r *Reader) Line(at position.Node) int { return r.at.Line(at) }

// Where returns the place of a node: "FILE:LINE".
func (r *Reader) Where(at position.Node) string { return fmt.Sprintf("%s:%d", r.file, r.Line(at)) }

// Unknown records that a table has no such key.
func (r *Reader) Unknown(at position.Node, key string, known []string) {
	r.Fail(at, "unknown key %q: known here are %s", key, strings.Join(known, ", "))
}

// Table reads a table, nil where the value is something else; known are the keys that it
// may have.
func (r *Reader) Table(at position.Node, v any, known []string) map[string]any {
	table, ok := v.(map[string]any)
	if !ok {
		r.Fail(at, "must be a table of %s", strings.Join(known, ", "))
		return nil
	}
	return table
}

// Tables reads the [[tables]] of a key, each of which still is any value; one is what a
// person calls them, as "a rule".
func (r *Reader) Tables(at position.Node, key string, v any, one string) []any {
	list, ok := v.([]any)
	if !ok {
		r.Fail(at, "%s starts with [[%s]], in double brackets", one, key)
	}
	return list
}

// Strings reads one string or a list of them. The check says what is wrong with one, or
// "".
func (r *Reader) Strings(at position.Node, key string, v any, atLeast int, check func(string) string) []string {
	if s, ok := v.(string); ok {
		v = []any{s}
	}
	want := key + " must be a string or a list of strings"
	if atLeast > 0 {
		want += ", and not empty"
	}
	list, ok := v.([]any)
	if !ok || len(list) < atLeast {
		r.Fail(at, "%s", want)
		return nil
	}
	read := make([]string, 0, len(list))
	for i, v := range list {
		s, ok := v.(string)
		if !ok {
			r.Fail(at.Item(i), "%s", want)
			continue
		}
		if reason := check(s); reason != "" {
			r.Fail(at.Item(i), "%s", reason)
		}
		read = append(read, s)
	}
	return read
}

// Word reads one of a few known words.
func Word[T ~string](r *Reader, at position.Node, key string, v any, known ...T) T {
	s, ok := v.(string)
	if ok && slices.Contains(known, T(s)) {
		return T(s)
	}
	words := make([]string, len(known))
	for i, w := range known {
		words[i] = fmt.Sprintf("%q", string(w))
	}
	if ok {
		r.Fail(at, "bad %s %q: must be one of %s", key, s, strings.Join(words, ", "))
	} else {
		r.Fail(at, "%s must be one of %s", key, strings.Join(words, ", "))
	}
	return ""
}

// Count reads a number from 0 to a limit.
func (r *Reader) Count(at position.Node, key string, v any, limit int) *int {
	n, ok := v.(int64)
	if !ok || n < 0 || n > int64(limit) {
		r.Fail(at, "%s must be a number from 0 to %d", key, limit)
		return nil
	}
	i := int(n)
	return &i
}

// Duration reads a duration.
func (r *Reader) Duration(at position.Node, key string, v any) *Duration {
	s, ok := v.(string)
	if !ok {
		r.Fail(at, `%s must be a string with a unit, as in "30s", "1m30s" or "0s"`, key)
		return nil
	}
	d, err := time.ParseDuration(s)
	switch {
	case err != nil:
		r.Fail(at, `bad %s %q: a duration is written as in "30s", "1m30s" or "0s"`, key, s)
		return nil
	case d < 0:
		r.Fail(at, "bad %s %q: a duration cannot be negative", key, s)
		return nil
	}
	return (*Duration)(&d)
}

// Positive reads a duration that cannot be 0, for a reason.
func (r *Reader) Positive(at position.Node, key string, v any, reason string) *Duration {
	d := r.Duration(at, key, v)
	if d != nil && *d == 0 {
		r.Fail(at, "bad %s %q: %s", key, v, reason)
		return nil
	}
	return d
}

// Span reads a duration where one that is not written is 0.
func (r *Reader) Span(at position.Node, key string, v any) time.Duration {
	if d := r.Duration(at, key, v); d != nil {
		return time.Duration(*d)
	}
	return 0
}

// maxDays is the longest age, as long as a time.Duration can be: 292 years.
const maxDays = (1<<63 - 1) / int64(Day)

// Age reads an age.
func (r *Reader) Age(at position.Node, key string, v any) time.Duration {
	s, ok := v.(string)
	digits, days := strings.CutSuffix(s, "d")
	if !ok || !days {
		return r.Span(at, key, v)
	}
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || n < 0 || n > maxDays {
		r.Fail(at, `bad %s %q: an age is written as in "30d", "12h" or "0s", which is any age`, key, s)
		return 0
	}
	return time.Duration(n) * Day
}

// Bytes reads a size.
func (r *Reader) Bytes(at position.Node, key string, v any) *Bytes {
	if n, ok := v.(int64); ok && n >= 0 {
		b := Bytes(n)
		return &b
	}
	s, ok := v.(string)
	if !ok {
		r.Fail(at, `%s must be a number of bytes, or a string with a unit, as in "10MiB"`, key)
		return nil
	}
	b, ok := parseBytes(s)
	if !ok {
		r.Fail(at, `bad %s %q: a size is written as in "512B", "64KiB", "10MiB", "1GiB" or "1TiB"`, key, s)
		return nil
	}
	return &b
}
