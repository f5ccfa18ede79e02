package printable

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// Line is a name, or other text, on one line: everything unprintable in it is escaped,
// line ends among them.
func Line(name string) string {
	clean := true
	for i := 0; i < len(name) && clean; i++ {
		clean = name[i] >= ' ' && name[i] < 0x7f && name[i] != '\\'
	}
	if clean {
		return name
	}
	return string(appendLine(make([]byte, 0, len(name)+16), name))
}

// Word is a word of a command line: a shell reads it back, and it can be shown.
func Word(word string) string {
	shown := Line(word)
	switch {
	case shown != word:
		return "$'" + strings.ReplaceAll(shown, "'", `\'`) + "'"
	case strings.ContainsAny(word, " '\"$`&|;<>()*?[]#~!{}"):
		return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
	default:
		return word
	}
}

func appendLine(b []byte, s string) []byte {
	for len(s) > 0 {
		r, n := utf8.DecodeRuneInString(s)
		switch {
		case r == utf8.RuneError && n == 1:
			b = appendHexByte(b, s[0])
		case r == '\\':
			b = append(b, `\\`...)
		case strconv.IsPrint(r):
			b = append(b, s[:n]...)
		case r == '\n':
			b = append(b, `\n`...)
		case r == '\t':
			b = append(b, `\t`...)
		case r == '\r':
			b = append(b, `\r`...)
		case r < 0x80:
			b = appendHexByte(b, byte(r))
		case r < 0x10000:
			b = appendHex(append(b, `\u`...), uint32(r), 4)
		default:
			b = appendHex(append(b, `\U`...), uint32(r), 8)
		}
		s = s[n:]
	}
	return b
}

// Text is text of several lines in which everything else that is unprintable is escaped
// as Line does it. A backslash stays as it is.
func Text(text string) string {
	clean := func(r rune) bool { return r == '\n' || r == '\t' || r == '\\' || strconv.IsPrint(r) }
	if utf8.ValidString(text) && strings.IndexFunc(text, func(r rune) bool { return !clean(r) }) < 0 {
		return text
	}
	b := make([]byte, 0, len(text)+16)
	for len(text) > 0 {
		r, n := utf8.DecodeRuneInString(text)
		if clean(r) && !(r == utf8.RuneError && n == 1) {
			b = append(b, text[:n]...)
		} else {
			b = appendLine(b, text[:n])
		}
		text = text[n:]
	}
	return string(b)
}

func appendHexByte(b []byte, c byte) []byte {
	return appendHex(append(b, `\x`...), uint32(c), 2)
}

// appendHex appends the lowest digits hexadecimal digits of v.
func appendHex(b []byte, v uint32, digits int) []byte {
	for shift := 4 * (digits - 1); shift >= 0; shift -= 4 {
		b = append(b, "0123456789abcdef"[v>>shift&0xf])
	}
	return b
}
