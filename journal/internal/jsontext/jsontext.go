package jsontext

import (
	"strconv"
	"unicode/utf8"
)

const hexDigits = "0123456789abcdef"

// AppendString appends s as encoding/json writes a string.
func AppendString(b []byte, s string) []byte {
	b = append(b, '"')
	from := 0 // up to where s is written
	for i := 0; i < len(s); {
		c := s[i]
		if c < utf8.RuneSelf {
			if isPlain(c) {
				i++
				continue
			}
			b = appendEscaped(append(b, s[from:i]...), c)
			i++
			from = i
			continue
		}
		r, size := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && size == 1:
			b = append(append(b, s[from:i]...), `\ufffd`...)
			from = i + 1
		case r == '\u2028' || r == '\u2029': // which JavaScript takes for ends of lines
			b = append(b, s[from:i]...)
			b = append(b, `\u202`...)
			b = append(b, hexDigits[r&0xf])
			from = i + size
		}
		i += size
	}
	return append(append(b, s[from:]...), '"')
}

// isPlain reports whether an ASCII character stands in a JSON string as it is.
func isPlain(c byte) bool {
	switch c {
	case '"', '\\', '<', '>', '&':
		return false
	}
	return c >= ' '
}

func appendEscaped(b []byte, c byte) []byte {
	switch c {
	case '"', '\\':
		return append(b, '\\', c)
	case '\b':
		return append(b, `\b`...)
	case '\f':
		return append(b, `\f`...)
	case '\n':
		return append(b, `\n`...)
	case '\r':
		return append(b, `\r`...)
	case '\t':
		return append(b, `\t`...)
	}
	return append(b, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&0xf])
}

// Fields appends the fields of an object as encoding/json writes those that are
// omitted when they are empty. A name is given as it stands in the text, with what
// separates it from the field before: `,"pid":`.
type Fields []byte

// Text appends a string.
func (w *Fields) Text(name, s string) {
	if s != "" {
		*w = AppendString(append(*w, name...), s)
	}
}

// Uint appends a number.
func (w *Fields) Uint(name string, n uint64) {
	if n != 0 {
		*w = strconv.AppendUint(append(*w, name...), n, 10)
	}
}

// Int appends a number with a sign.
func (w *Fields) Int(name string, n int64) {
	if n != 0 {
		*w = strconv.AppendInt(append(*w, name...), n, 10)
	}
}

// Bool appends a truth value.
func (w *Fields) Bool(name string, is bool) {
	if is {
		*w = append(append(*w, name...), "true"...)
	}
}
