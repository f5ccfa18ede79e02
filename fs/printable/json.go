package printable

import (
	"encoding/base64"
	"strconv"
	"time"
	"unicode/utf8"
)

// Writer appends JSON to a buffer. encoding/json would do, but for two
// things: it lets DEL, C1 controls and bidirectional overrides through to the
// terminal, and at 100,000 records it is several times slower.
//
// The names of fields are written as they are and must need no escaping. An
// empty name writes an element of an array, or a value that is in nothing. The zero
// Writer writes one line into a buffer of its own.
type Writer struct {
	buf []byte
	// depth is the number of open objects and arrays.
	depth int
	// indent is the depth down to which every value has a line of its own;
	// what is deeper shares the line of what it is in.
	indent int
	// comma: the next value has a predecessor in its object or array.
	comma bool
}

// AppendTo is a Writer that appends to b. Down to the depth indent every value has a
// line of its own; 0: everything is on one line.
func AppendTo(b []byte, indent int) Writer { return Writer{buf: b, indent: indent} }

// Bytes is what has been written, after what was in the buffer before.
func (w *Writer) Bytes() []byte { return w.buf }

// EndLine ends the line after a whole value: the next one has no predecessor.
func (w *Writer) EndLine() {
	w.buf = append(w.buf, '\n')
	w.comma = false
}

// begin writes what precedes a value: the comma, the new line, the name.
func (w *Writer) begin(name string) {
	if w.comma {
		w.buf = append(w.buf, ',')
	}
	if w.depth > 0 && w.depth <= w.indent {
		w.newline(w.depth)
	}
	w.comma = true
	if name == "" {
		return
	}
	w.buf = append(w.buf, '"')
	w.buf = append(w.buf, name...)
	w.buf = append(w.buf, '"', ':')
	if w.depth <= w.indent {
		w.buf = append(w.buf, ' ')
	}
}

func (w *Writer) newline(depth int) {
	w.buf = append(w.buf, '\n')
	for range depth {
		w.buf = append(w.buf, ' ', ' ')
	}
}

// Open starts an object ('{') or an array ('[').
func (w *Writer) Open(name string, bracket byte) {
	w.begin(name)
	w.buf = append(w.buf, bracket)
	w.depth++
	w.comma = false
}

// Close ends the innermost object ('}') or array (']'). An empty one stays on
// its line.
func (w *Writer) Close(bracket byte) {
	if w.comma && w.depth <= w.indent {
		w.newline(w.depth - 1)
	}
	w.depth--
	w.buf = append(w.buf, bracket)
	w.comma = true
}

// Bool writes true or false.
func (w *Writer) Bool(name string, v bool) {
	w.begin(name)
	w.buf = strconv.AppendBool(w.buf, v)
}

// Int writes a number.
func (w *Writer) Int(name string, v int64) {
	w.begin(name)
	w.buf = strconv.AppendInt(w.buf, v, 10)
}

// Uint writes a number that is not negative.
func (w *Writer) Uint(name string, v uint64) {
	w.begin(name)
	w.buf = strconv.AppendUint(w.buf, v, 10)
}

// Float writes a number with as few digits as read back the same; v is finite.
func (w *Writer) Float(name string, v float64) {
	w.begin(name)
	w.buf = strconv.AppendFloat(w.buf, v, 'f', -1, 64)
}

// Seconds writes a duration as a number of seconds.
func (w *Writer) Seconds(name string, d time.Duration) { w.Float(name, d.Seconds()) }

// Time writes ISO 8601 in UTC and whole seconds (SEED T3), which jq's
// fromdateiso8601 can read; null for the zero time. Every other time has the
// same width, so that a heartbeat does not change a record's size.
func (w *Writer) Time(name string, t time.Time) {
	w.begin(name)
	if t.IsZero() {
		w.buf = append(w.buf, "null"...)
		return
	}
	w.buf = append(w.buf, '"')
	w.buf = t.UTC().AppendFormat(w.buf, time.RFC3339)
	w.buf = append(w.buf, '"')
}

// String writes s, in its displayed form when it is not UTF-8.
func (w *Writer) String(name, s string) {
	w.begin(name)
	if !utf8.ValidString(s) {
		s = Line(s)
	}
	w.buf = appendJSONString(w.buf, s)
}

// Raw writes s, which may be any bytes, and the bytes themselves under
// NAME_base64 when they are not UTF-8.
func (w *Writer) Raw(name, s string) {
	w.String(name, s)
	if !utf8.ValidString(s) {
		w.String(name+"_base64", base64.StdEncoding.EncodeToString([]byte(s)))
	}
}

// Strings writes an array of strings on one line.
func (w *Writer) Strings(name string, list []string) {
	indent := w.indent
	w.indent = min(indent, w.depth)
	w.Open(name, '[')
	for _, s := range list {
		w.String("", s)
	}
	w.Close(']')
	w.indent = indent
}

// appendJSONString quotes s, which is valid UTF-8. Everything that is not
// printable is escaped.
func appendJSONString(b []byte, s string) []byte {
	b = append(b, '"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b = append(b, '\\', byte(r))
		case r >= ' ' && r < 0x7f:
			b = append(b, byte(r))
		case r == '\n':
			b = append(b, `\n`...)
		case r == '\t':
			b = append(b, `\t`...)
		case r == '\r':
			b = append(b, `\r`...)
		default:
			b = appendJSONRune(b, r)
		}
	}
	return append(b, '"')
}

// appendJSONRune appends a character of a string, escaped unless it is
// printable.
func appendJSONRune(b []byte, r rune) []byte {
	switch {
	case strconv.IsPrint(r):
		return utf8.AppendRune(b, r)
	case r < 0x10000:
		return appendHex(append(b, `\u`...), uint32(r), 4)
	default: // a surrogate pair, RFC 8259 section 7
		r -= 0x10000
		b = appendHex(append(b, `\u`...), 0xd800|uint32(r>>10), 4)
		return appendHex(append(b, `\u`...), 0xdc00|uint32(r&0x3ff), 4)
	}
}

// JSON is a JSON text whose strings hold nothing unprintable, so that no name
// can move a terminal's cursor or turn the direction of its text. Outside of strings
// only white space is unprintable.
func JSON(text []byte) []byte {
	b := make([]byte, 0, len(text))
	for _, r := range string(text) {
		if r == '\n' || r == '\t' || r == '\r' {
			b = append(b, byte(r))
			continue
		}
		b = appendJSONRune(b, r)
	}
	return b
}
