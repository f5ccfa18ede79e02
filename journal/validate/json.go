package validate

import (
	"context"
	"io"
	"unicode/utf8"
)

// chunk is how much is read at a time.
const chunk = 64 << 10

// maxDepth is how deep arrays and objects may be nested, as in encoding/json.
const maxDepth = 10000

// jsonStream reads JSON, or JSON Lines, and stops at the first error.
type jsonStream struct {
	scanner
	lines   bool
	refused *Refusal

	line      int   // of the next character, from 1
	column    int   // of the last character
	lineStart int64 // offset of the line's first byte
	offset    int64 // of the next byte; of a refusal: of the offending one
	rest      []byte
}

func newJSONStream(lines bool) *jsonStream { return &jsonStream{lines: lines, line: 1} }

// run reads r to its end or to the first error in it.
func (s *jsonStream) run(ctx context.Context, r io.Reader) error {
	buf := make([]byte, chunk)
	for s.refused == nil {
		if err := ctx.Err(); err != nil {
			return err
		}
		n, err := r.Read(buf)
		s.feed(buf[:n])
		if err == io.EOF {
			s.end()
			return nil
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// feed takes the next bytes. A character that is cut off at their end waits.
func (s *jsonStream) feed(b []byte) {
	if len(s.rest) > 0 {
		b = append(s.rest, b...)
		s.rest = nil
	}
	for len(b) > 0 && s.refused == nil {
		if n := s.plain(b); n > 0 {
			s.column, s.offset, b = s.column+n, s.offset+int64(n), b[n:]
			continue
		}
		size := 1
		if b[0] >= utf8.RuneSelf {
			if !utf8.FullRune(b) {
				s.rest = append([]byte(nil), b...)
				return
			}
			var r rune
			if r, size = utf8.DecodeRune(b); r == utf8.RuneError && size == 1 {
				s.column++
				s.refuse("this is not valid UTF-8")
				return
			}
		}
		s.take(b[:size])
		b = b[size:]
	}
}

// plain returns how many of the next bytes are plain ASCII text in a string, most
// of what there is: nothing changes with them.
func (s *jsonStream) plain(b []byte) (n int) {
	if s.state != inString {
		return 0
	}
	for n < len(b) && b[n] >= ' ' && b[n] < utf8.RuneSelf && b[n] != '"' && b[n] != '\\' {
		n++
	}
	return n
}

// take takes one character.
func (s *jsonStream) take(c []byte) {
	s.column++
	if c[0] == '\n' && s.lines {
		s.finishLine()
	} else if problem := s.step(c[0]); problem != "" {
		if problem == expectsValue && s.offset == 0 && string(c) == "\ufeff" {
			problem = "there is a byte order mark"
		}
		s.refuse(problem)
	}
	if s.refused != nil {
		return
	}
	s.offset += int64(len(c))
	if c[0] == '\n' {
		s.line, s.column, s.lineStart = s.line+1, 0, s.offset
	}
}

// finishLine ends the value of a line, if it has one.
func (s *jsonStream) finishLine() {
	if s.blank() {
		return
	}
	if problem := s.finish(); problem != "" {
		s.refuse("the line ends " + problem)
		return
	}
	s.scanner = scanner{}
}

// end is the end of the content.
func (s *jsonStream) end() {
	if s.refused != nil {
		return
	}
	s.column++
	switch {
	case len(s.rest) > 0:
		s.refuse("this is not valid UTF-8")
	case s.lines:
		s.finishLine()
	case s.blank():
		s.refuse("there is no value")
	default:
		if problem := s.finish(); problem != "" {
			s.refuse("the content ends " + problem)
		}
	}
}

func (s *jsonStream) refuse(reason string) {
	name := JSON
	if s.lines {
		name = JSONL
	}
	s.refused = &Refusal{Validator: string(name), Line: s.line, Column: s.column, Reason: reason}
}
