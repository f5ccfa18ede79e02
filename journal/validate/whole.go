package validate

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/pelletier/go-toml/v2"
	"go.yaml.in/yaml/v4"
)

// MaxWhole is the size in bytes up to which TOML and YAML can be checked.
const MaxWhole = 8 << 20

// smallWhole is what may be parsed beside anything else.
const smallWhole = 64 << 10

// parsing is held by who parses something large.
var parsing = make(chan struct{}, 1)

// checkWhole checks a format that can only be parsed as a whole.
func checkWhole(ctx context.Context, f io.ReaderAt, size int64, format Format) error {
	if size > MaxWhole {
		return &Refusal{Validator: string(format), Reason: fmt.Sprintf("%d bytes are too much to be checked: the most is %d", size, MaxWhole)}
	}
	if size > smallWhole {
		select {
		case parsing <- struct{}{}:
			defer func() { <-parsing }()
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	b := make([]byte, size)
	if n, err := f.ReadAt(b, 0); err != nil && (err != io.EOF || int64(n) < size) {
		return err
	}
	r := parse(b, format)
	if r == nil {
		return nil
	}
	r.Validator = string(format)
	if r.Line > 0 {
		start, line := lineOf(b, r.Line)
		off := byteOf(line, r.Column)
		r.Content = quote(bytesAt(b), size, int64(start), int64(start+off))
	}
	return r
}

// parse parses b. A bug in a parser must not be the end of anybody else.
func parse(b []byte, format Format) (r *Refusal) {
	defer func() {
		if v := recover(); v != nil {
			r = &Refusal{Reason: "the parser failed", Output: []string{fmt.Sprint(v)}}
		}
	}()
	if format == TOML {
		return parseTOML(b)
	}
	return parseYAML(b)
}

func parseTOML(b []byte) *Refusal {
	var doc map[string]any
	err := toml.Unmarshal(b, &doc)
	if err == nil {
		return nil
	}
	r := &Refusal{Reason: "this is not valid TOML", Output: said(err.Error(), "toml: ")}
	var de *toml.DecodeError
	if errors.As(err, &de) {
		var column int // in bytes
		r.Line, column = de.Position()
		_, line := lineOf(b, r.Line)
		r.Column = utf8.RuneCount(line[:min(max(column-1, 0), len(line))]) + 1
	}
	return r
}

func parseYAML(b []byte) *Refusal {
	l, err := yaml.NewLoader(bytes.NewReader(b))
	for err == nil {
		// As a tree, so that no alias is followed.
		var doc yaml.Node
		err = l.Load(&doc)
	}
	if err == io.EOF {
		return nil
	}
	r := &Refusal{Reason: "this is not valid YAML"}
	var le *yaml.LoadError
	if !errors.As(err, &le) {
		r.Output = said(err.Error(), "yaml: ")
		return r
	}
	r.Line, r.Column = le.Mark.Line, le.Mark.Column
	what := le.Message
	if le.ContextMsg != "" {
		what = le.ContextMsg + ", " + what
	}
	r.Output = said(what, "")
	if le.Stage == yaml.ReaderStage && r.Line == 0 {
		r.Line, r.Column = invalidUTF8(b)
	}
	return r
}

// said is a library's message, which may quote the content, without its prefix.
func said(message, prefix string) []string {
	line, _, _ := strings.Cut(strings.TrimPrefix(message, prefix), "\n")
	return []string{line}
}

// lineOf returns the line with the number n, from 1, and its offset.
func lineOf(b []byte, n int) (start int, line []byte) {
	for ; n > 1; n-- {
		i := bytes.IndexByte(b[start:], '\n')
		if i < 0 {
			return len(b), nil
		}
		start += i + 1
	}
	line, _, _ = bytes.Cut(b[start:], []byte{'\n'})
	return start, line
}

// byteOf is the offset of a column in a line.
func byteOf(line []byte, column int) (off int) {
	for ; column > 1 && off < len(line); column-- {
		_, n := utf8.DecodeRune(line[off:])
		off += n
	}
	return off
}

// invalidUTF8 is the position of the first byte that is not UTF-8; 0 if all is.
func invalidUTF8(b []byte) (line, column int) {
	line = 1
	for len(b) > 0 {
		r, n := utf8.DecodeRune(b)
		column++
		if r == utf8.RuneError && n == 1 {
			return line, column
		}
		if r == '\n' {
			line, column = line+1, 0
		}
		b = b[n:]
	}
	return 0, 0
}
