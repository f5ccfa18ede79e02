package audit

import (
	"bytes"
	"fmt"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// maxLine is the longest line of the trail, in bytes; the event of a longer one is
// shortened.
const maxLine = 64 << 10

// shortText is how long a text may be of an event that is shortened, in bytes; a path may
// be eight times as long. It is less where escapes make the line too long all the same.
const shortText = 1 << 10

// shortened is what is said of an event that is too long. With no text left it is who did
// what, and no more.
func (e Event) shortened(text int) Event {
	detail := map[string]any{"shortened": true}
	for k, v := range e.Detail {
		if text == 0 && k != keyUID {
			continue
		}
		switch v := v.(type) {
		case string:
			detail[k] = cut(v, text)
		case int, int32, int64, uint32, uint64, float64, bool:
			detail[k] = v
		}
	}
	e.Detail = detail
	e.Path, e.Actor, e.Session, e.Event = cut(e.Path, 8*text), cut(e.Actor, text), cut(e.Session, text), cut(e.Event, shortText)
	return e
}

// cut returns the first n bytes of s, or a few less that are whole characters.
func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	at := n
	for at > max(0, n-utf8.UTFMax+1) && !utf8.RuneStart(s[at]) {
		at--
	}
	if _, size := utf8.DecodeRuneInString(s[at:]); at+size > n {
		return s[:at]
	}
	return s[:n]
}

// appendLine appends the line of an event, shortened if it has to be.
func (e *Event) appendLine(b []byte) ([]byte, error) {
	line, err := e.appendPrintable(b)
	for text := shortText; err == nil && len(line) > maxLine; text /= 2 {
		short := e.shortened(text)
		if line, err = short.appendPrintable(b); text == 0 {
			break
		}
	}
	if err != nil {
		return nil, fmt.Errorf("event %q: %w", cut(e.Event, shortText), err)
	}
	return line, nil
}

func (e *Event) appendPrintable(b []byte) ([]byte, error) {
	line, err := e.appendTo(b)
	if err != nil {
		return nil, err
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
