package reading

import (
	"errors"
	"fmt"
	"strings"

	"github.com/pelletier/go-toml/v2"
)

// Error is one thing that is wrong with a document.
type Error struct {
	File   string
	Line   int // from 1
	Reason string
}

// Error returns "FILE:LINE: REASON", the form that editors jump to.
func (e *Error) Error() string {
	return fmt.Sprintf("%s:%d: %s", e.File, e.Line, e.Reason)
}

// Errors is everything that is wrong with a document, by line.
type Errors []*Error

// Error returns one line for each error.
func (e Errors) Error() string {
	lines := make([]string, len(e))
	for i, err := range e {
		lines[i] = err.Error()
	}
	return strings.Join(lines, "\n")
}

// Unwrap lets errors.As find the single errors.
func (e Errors) Unwrap() []error {
	errs := make([]error, len(e))
	for i, err := range e {
		errs[i] = err
	}
	return errs
}

// syntaxError turns what the TOML decoder found into an error of ours.
func syntaxError(file string, err error) *Error {
	e := &Error{File: file, Line: 1, Reason: strings.TrimPrefix(err.Error(), "toml: ")}
	var de *toml.DecodeError
	if errors.As(err, &de) {
		e.Line, _ = de.Position()
	}
	return e
}
