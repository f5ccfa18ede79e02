package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"unicode"
	"unicode/utf8"

	"golang.org/x/sys/unix"
)

// sniffed is how much of a file decides whether it is text.
const sniffed = 8 << 10

// errBinary says that something is not for a terminal.
var errBinary = errors.New("these are binary data, not for a terminal: redirect them")

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	_, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	return err == nil
}

// copyOut copies a file's content to w as it is. To a terminal goes text only, and
// nothing in it moves the cursor.
func copyOut(w io.Writer, from io.Reader) error {
	if !isTerminal(w) {
		_, err := io.Copy(w, from)
		return err
	}
	head := make([]byte, sniffed)
	n, err := io.ReadFull(from, head)
	head = head[:n]
	switch {
	case err != nil && err != io.EOF && err != io.ErrUnexpectedEOF:
		return err
	case bytes.IndexByte(head, 0) >= 0:
		return errBinary
	}
	out := &visible{to: w}
	if _, err := io.Copy(out, io.MultiReader(bytes.NewReader(head), from)); err != nil {
		return err
	}
	return out.flush()
}

// visible writes text for a terminal: what would control it is shown instead, as
// ^X or \xNN.
type visible struct {
	to   io.Writer
	rest []byte // the beginning of a character
	buf  []byte
}

// Write implements io.Writer.
func (v *visible) Write(p []byte) (int, error) {
	text := append(v.rest, p...)
	v.buf = v.buf[:0]
	for len(text) > 0 && utf8.FullRune(text) {
		r, n := utf8.DecodeRune(text)
		v.buf = appendVisible(v.buf, r, text[:n])
		text = text[n:]
	}
	v.rest = append([]byte(nil), text...)
	if _, err := v.to.Write(v.buf); err != nil {
		return 0, err
	}
	return len(p), nil
}

// flush writes what is left at the end.
func (v *visible) flush() error {
	v.buf = v.buf[:0]
	for _, b := range v.rest {
		v.buf = appendVisible(v.buf, utf8.RuneError, []byte{b})
	}
	v.rest = nil
	_, err := v.to.Write(v.buf)
	return err
}

// appendVisible appends the character r, which is spelled raw.
func appendVisible(b []byte, r rune, raw []byte) []byte {
	switch {
	case r == utf8.RuneError && len(raw) == 1:
		return fmt.Appendf(b, `\x%02x`, raw[0])
	case r == '\n', r == '\t', unicode.IsPrint(r), unicode.Is(unicode.Zs, r):
		return append(b, raw...)
	case r < ' ':
		return append(b, '^', byte(r)+'@')
	case r == 0x7f:
		return append(b, "^?"...)
	default:
		return fmt.Appendf(b, `\u%04x`, r)
	}
}
