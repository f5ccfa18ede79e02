package validate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"time"
	"unicode/utf8"
)

// Format is a syntax that content must have.
type Format string

// The formats; see the package comment.
const (
	JSON  Format = "json"
	JSONL Format = "jsonl"
	TOML  Format = "toml"
	YAML  Format = "yaml"
)

// The validators that are no formats, as Refusal.Validator names them.
const (
	NonEmpty = "non-empty"
	MaxSize  = "max-size"
	Command  = "command"
)

// DefaultTimeout is how long a command may take where Options do not say.
const DefaultTimeout = 10 * time.Second

// Options say what content must be. The zero value accepts everything.
type Options struct {
	Formats  []Format
	NonEmpty bool
	MaxSize  int64 // in bytes; 0: any
	// Command is a program, as a path, with its arguments; empty: none.
	Command []string
	// Timeout is how long Command may take; 0: DefaultTimeout.
	Timeout time.Duration
	// Credential is the user as whom Command runs, confined; nil: our own, as it
	// is. To set it takes the privilege to become that user.
	Credential *Credential
	// Writer is the user whose content it is. One user's checks keep nobody else's
	// waiting.
	Writer uint32
	// Helper is a program whose main function calls Serve first. It parses what is
	// too large to be parsed in this process, which does it itself if Helper is
	// empty; and Credential needs it.
	Helper string
}

// Credential is a user with its groups.
type Credential struct {
	UID, GID uint32
	Groups   []uint32
}

// Refusal is the error of content that a validator did not accept.
type Refusal struct {
	// Validator is a format, NonEmpty, MaxSize or Command.
	Validator string
	// Line and Column are where the error is, from 1; 0: not known, or nowhere in
	// particular. Columns count characters.
	Line, Column int
	// Reason is the cause in a few words. It tells nothing of the content.
	Reason string
	// Content is the offending line, or the part of it around the column, and
	// Output what the command or a parser said: text that may hold anything, for
	// those who may read the content.
	Content string
	Output  []string
	// Place is where in the content the cause is, in words, for the same readers.
	Place string
}

// Error names the validator, the position and the reason.
func (r *Refusal) Error() string {
	return r.Validator + ": " + r.Where() + r.Reason
}

// Where is the position as "line 3, column 5: ", as far as it is known.
func (r *Refusal) Where() string {
	switch {
	case r.Line == 0:
		return ""
	case r.Column == 0:
		return "line " + strconv.Itoa(r.Line) + ": "
	}
	return fmt.Sprintf("line %d, column %d: ", r.Line, r.Column)
}

// Check reports whether the content of f, which is open for reading, is what o
// asks for: nil, a *Refusal, or that it could not be found out, because the file
// could not be read or ctx has ended. The file's offset is neither used nor
// moved. name stands for the file towards the command.
func Check(ctx context.Context, f *os.File, name string, o Options) error {
	st, err := f.Stat()
	if err != nil {
		return fmt.Errorf("validate: %w", err)
	}
	if o.MaxSize > 0 && st.Size() > o.MaxSize {
		return &Refusal{Validator: MaxSize, Reason: fmt.Sprintf("%d bytes are more than %d", st.Size(), o.MaxSize)}
	}
	if o.NonEmpty {
		if err := checkNonEmpty(ctx, f, st.Size()); err != nil {
			return wrap(err)
		}
	}
	for _, format := range o.Formats {
		if err := checkFormat(ctx, f, st.Size(), format, &o); err != nil {
			return wrap(err)
		}
	}
	if len(o.Command) > 0 {
		return wrap(runCommand(ctx, f, st.Size(), name, &o))
	}
	return nil
}

// wrap says of an error that is no refusal where it came from.
func wrap(err error) error {
	var r *Refusal
	if err == nil || errors.As(err, &r) {
		return err
	}
	return fmt.Errorf("validate: %w", err)
}

func checkFormat(ctx context.Context, f io.ReaderAt, size int64, format Format, o *Options) error {
	switch format {
	case JSON, JSONL:
		s := newJSONStream(format == JSONL)
		if err := s.run(ctx, io.NewSectionReader(f, 0, size)); err != nil {
			return err
		}
		if s.refused != nil {
			s.refused.Content = quote(f, size, s.lineStart, s.offset)
			return s.refused
		}
		return nil
	case TOML, YAML:
		return checkWhole(ctx, f, size, format, o)
	}
	return &Refusal{Validator: string(format), Reason: "there is no such validator"}
}

// Lines judges b, which holds whole lines, as the jsonl validator does. The
// Refusal's lines are those of b.
func Lines(b []byte) error {
	s := newJSONStream(true)
	s.feed(b)
	s.end()
	if s.refused == nil {
		return nil
	}
	s.refused.Content = quote(bytesAt(b), int64(len(b)), s.lineStart, s.offset)
	return s.refused
}

// bytesAt is a slice as an io.ReaderAt.
type bytesAt []byte

func (b bytesAt) ReadAt(p []byte, off int64) (int, error) {
	if off >= int64(len(b)) {
		return 0, io.EOF
	}
	n := copy(p, b[off:])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

// checkNonEmpty looks for anything but white space.
func checkNonEmpty(ctx context.Context, f io.ReaderAt, size int64) error {
	r := io.NewSectionReader(f, 0, size)
	buf := make([]byte, chunk)
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		n, err := r.Read(buf)
		for _, c := range buf[:n] {
			if c != ' ' && (c < '\t' || c > '\r') {
				return nil
			}
		}
		switch {
		case err == io.EOF && size == 0:
			return &Refusal{Validator: NonEmpty, Reason: "the file is empty"}
		case err == io.EOF:
			return &Refusal{Validator: NonEmpty, Reason: "there is nothing but white space"}
		case err != nil:
			return err
		}
	}
}

// How much of an offending line is quoted, in bytes.
const (
	quoteBefore = 60
	quoteAll    = 100
)

// quote returns the line that begins at start, or of a long one what is around
// the offset.
func quote(f io.ReaderAt, size, start, offset int64) string {
	from := max(start, offset-quoteBefore)
	buf := make([]byte, max(min(quoteAll, size-from), 0))
	n, _ := f.ReadAt(buf, from) // what cannot be read is not quoted
	return excerpt(buf[:n], from > start, from+int64(n) < size)
}

// excerpt is a part of a line; before and after say what may have been left out.
func excerpt(b []byte, before, after bool) string {
	line := b
	for i, c := range b {
		if c == '\n' {
			line, after = b[:i], false
			break
		}
	}
	if before {
		for len(line) > 0 && !utf8.RuneStart(line[0]) {
			line = line[1:]
		}
	}
	for after && len(line) > 0 {
		if r, n := utf8.DecodeLastRune(line); r != utf8.RuneError || n != 1 {
			break
		}
		line = line[:len(line)-1]
	}
	s := string(line)
	if before {
		s = "…" + s
	}
	if after {
		s += "…"
	}
	return s
}
