package audit

import (
	"bytes"
	"fmt"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// maxLine is the longest line of the trail, in bytes; what is longer is
// shortened.
const maxLine = 64 << 10

// Of an event that is too long.
const (
	shortPath = 8 << 10 // bytes
	shortText = 1 << 10
)

// shortened is what is said of an event that is too long.
func (e Event) shortened() Event {
	detail := map[string]any{"shortened": true}
	for k, v := range e.Detail {
		switch v := v.(type) {
		case string:
			detail[k] = v[:min(len(v), shortText)]
		case int, int32, int64, uint32, uint64, float64, bool:
			detail[k] = v
		}
	}
	e.Detail = detail
	e.Path, e.Actor = e.Path[:min(len(e.Path), shortPath)], e.Actor[:min(len(e.Actor), shortText)]
	return e
}

// appendLine appends the line of an event, shortened if it has to be.
func (e *Event) appendLine(b []byte) ([]byte, error) {
	line, err := e.appendTo(b)
	if err == nil && len(line) > maxLine {
		short := e.shortened()
		line, err = short.appendTo(line[:0])
	}
	if err != nil {
		return nil, fmt.Errorf("event %q: %w", e.Event, err)
	}
	return append(printable(line), '\n'), nil
}

// printable escapes what encoding/json leaves as it is and a terminal may obey: DEL,
// C1 controls, marks that turn the direction of text. JSON has such only in strings.
func printable(line []byte) []byte {
	if isASCII(line) || bytes.IndexFunc(line, unprintable) < 0 {
		return line
	}
	b := make([]byte, 0, len(line)+32)
	for _, r := range string(line) {
		switch {
		case !unprintable(r):
			b = utf8.AppendRune(b, r)
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			b = fmt.Appendf(b, `\u%04x\u%04x`, high, low)
		default:
			b = fmt.Appendf(b, `\u%04x`, r)
		}
	}
	return b
}

// isASCII reports whether a line consists of printable ASCII characters.
func isASCII(line []byte) bool {
	for _, c := range line {
		if c < ' ' || c > '~' {
			return false
		}
	}
	return true
}

func unprintable(r rune) bool { return !strconv.IsPrint(r) }
