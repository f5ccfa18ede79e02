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
	"github.com/pelletier/go-toml/v2/unstable"
	"go.yaml.in/yaml/v4"
	"go.yaml.in/yaml/v4/plugin/loaderlimits"
)

// MaxWhole is the size in bytes up to which TOML and YAML can be checked.
const MaxWhole = 8 << 20

// smallWhole is the size in bytes up to which TOML and YAML are parsed in this
// process.
const smallWhole = 64 << 10

// maxWholeDepth is how deep TOML and YAML may be nested; the parts of a dotted key
// count.
const maxWholeDepth = 1000

// tooDeep is the reason of a refusal.
var tooDeep = fmt.Sprintf("too deep: at most %d levels are checked", maxWholeDepth)

// checkWhole checks a format that can only be parsed as a whole.
func checkWhole(ctx context.Context, f io.ReaderAt, size int64, format Format, o *Options) error {
	if size > MaxWhole {
		return &Refusal{Validator: string(format), Reason: fmt.Sprintf("%d bytes are too much to be checked: the most is %d", size, MaxWhole)}
	}
	places := parsingSmall
	if size > smallWhole {
		places = parsingLarge
	}
	leave, err := places.take(ctx, o.Writer)
	if err != nil {
		return err
	}
	defer leave()
	if size > smallWhole && o.Helper != "" {
		return parseOutside(ctx, f, size, format, o.Helper)
	}
	return parseHere(f, size, format)
}

// parseHere parses the content in this process.
func parseHere(f io.ReaderAt, size int64, format Format) error {
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
	if line := deepTOML(b); line > 0 {
		return &Refusal{Line: line, Reason: tooDeep}
	}
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

// deepTOML is the line of an expression that is nested too deep, 0 if none is.
// What is not TOML is left to the parser.
func deepTOML(b []byte) int {
	var p unstable.Parser
	p.Reset(b)
	for p.NextExpression() {
		e := p.Expression()
		if depthTOML(e, 0) > maxWholeDepth {
			return 1 + bytes.Count(b[:min(startTOML(&p, e), len(b))], []byte{'\n'})
		}
	}
	return 0
}

// depthTOML is how deep an expression is nested that has so many levels above it;
// it stops at the first that are too many.
func depthTOML(n *unstable.Node, above int) int {
	deepest := above
	switch n.Kind {
	case unstable.Table, unstable.ArrayTable, unstable.KeyValue:
		for keys := n.Key(); keys.Next(); {
			above++
		}
		deepest = above
		if n.Kind == unstable.KeyValue && above <= maxWholeDepth {
			deepest = max(deepest, depthTOML(n.Value(), above))
		}
	case unstable.Array, unstable.InlineTable:
		for items := n.Children(); items.Next() && deepest <= maxWholeDepth; {
			deepest = max(deepest, depthTOML(items.Node(), above+1))
		}
	}
	return deepest
}

// startTOML is where the first key of an expression begins.
func startTOML(p *unstable.Parser, e *unstable.Node) int {
	keys := e.Key()
	if !keys.Next() {
		return 0
	}
	return int(keys.Node().Raw.Offset)
}

func parseYAML(b []byte) *Refusal {
	deep := false
	l, err := yaml.NewLoader(bytes.NewReader(b), yaml.WithPlugin(loaderlimits.New(
		loaderlimits.DepthFunc(func(depth int, _ *loaderlimits.DepthContext) error {
			if depth > maxWholeDepth {
				deep = true
				return errors.New(tooDeep)
			}
			return nil
		}))))
	for err == nil {
		// As a tree, so that no alias is followed.
		var doc yaml.Node
		err = l.Load(&doc)
	}
	if err == io.EOF {
		return nil
	}
	if deep {
		return &Refusal{Reason: tooDeep}
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
	if len(line) > maxOutput {
		line = strings.ToValidUTF8(line[:maxOutput], "") + "…"
	}
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
