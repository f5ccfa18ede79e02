package reading

import (
	"bytes"
	"fmt"
	"strings"
)

// WriteTable begins one of the [[tables]] of a key, and says in a comment where it comes
// from.
func WriteTable(b *bytes.Buffer, key, origin string) {
	fmt.Fprintf(b, "\n[[%s]] # %s\n", key, printable(origin))
}

// WriteText writes a key with a string; an empty one is not written.
func WriteText(b *bytes.Buffer, key, value string) {
	if value != "" {
		fmt.Fprintf(b, "%-10s = %s\n", key, Quote(value))
	}
}

// WriteList writes a key with a list of strings.
func WriteList(b *bytes.Buffer, key string, list []string) {
	quoted := make([]string, len(list))
	for i, s := range list {
		quoted[i] = Quote(s)
	}
	text := strings.Join(quoted, ", ")
	if len(text) > 60 {
		text = "\n    " + strings.Join(quoted, ",\n    ") + ",\n"
	}
	fmt.Fprintf(b, "%-10s = [%s]\n", key, text)
}

// Quote writes a TOML basic string.
func Quote(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, c := range s {
		switch {
		case c == '"' || c == '\\':
			b.WriteByte('\\')
			b.WriteRune(c)
		case c < ' ' || c == 0x7f:
			fmt.Fprintf(&b, `\u%04X`, c)
		default:
			b.WriteRune(c)
		}
	}
	b.WriteByte('"')
	return b.String()
}

// printable is what may stand in a comment.
func printable(s string) string {
	return strings.Map(func(c rune) rune {
		if c < ' ' || c == 0x7f {
			return '?'
		}
		return c
	}, s)
}
