package judge

import (
	"context"
	"errors"

	"golang.org/x/sys/unix"

	"latchfs/fs/printable"
	"latchfs/journal/validate"
)

// An objection is an error by which content is refused that no validator has seen: it does
// not go with what has the name.
type objection interface {
	error
	// Note adds to an event, or to what is kept, what is wrong.
	Note(detail map[string]any)
	// Verdict shows the place to those who may see the content.
	Verdict() *validate.Refusal
}

// Errno is what a program is told about content that was not accepted: EBADMSG of what a
// validator has refused, the errno in another error, and EIO of anything else.
func Errno(err error) unix.Errno {
	var r *validate.Refusal
	var e unix.Errno
	switch {
	case err == nil:
		return 0
	case errors.As(err, &r):
		return unix.EBADMSG
	case errors.Is(err, ErrUnsettled):
		return unix.EBUSY
	case errors.Is(err, context.Canceled):
		return unix.EINTR
	case errors.As(err, &e):
		return e
	}
	return unix.EIO
}

// Reason is the same in words. They are for everybody, so they tell nothing of the content.
func Reason(err error) string {
	var r *validate.Refusal
	switch {
	case errors.As(err, &r):
		return err.Error()
	case errors.Is(err, context.Canceled):
		return "the check of the content was broken off"
	}
	return "the content cannot be checked: " + err.Error()
}

// Note adds to an event, or to what is kept, who has refused the content and where.
func Note(detail map[string]any, err error) {
	var r *validate.Refusal
	var o objection
	if errors.As(err, &o) {
		o.Note(detail)
	}
	if !errors.As(err, &r) {
		return
	}
	detail["validator"] = r.Validator
	if r.Line > 0 {
		detail["line"] = r.Line
	}
	if r.Column > 0 {
		detail["column"] = r.Column
	}
}

// VerdictOf is the refusal in err; nil if it is another error.
func VerdictOf(err error) *validate.Refusal {
	var r *validate.Refusal
	var o objection
	switch {
	case errors.As(err, &r):
		return r
	case errors.As(err, &o):
		return o.Verdict()
	}
	return nil
}

// Refusal is an operation that was refused because of the content that it would have given
// a name.
type Refusal struct {
	Op, Path string
	From     string // where the content stays; "" if that has no name
	Err      error
}

// Hint is what its program is told beside the reason.
func (r *Refusal) Hint() string {
	if r.From == "" {
		return ""
	}
	return "It is still in " + printable.Line(r.From) + "."
}

// Note adds to an event what the refusal is about.
func (r *Refusal) Note(detail map[string]any) {
	detail["operation"], detail["errno"], detail["reason"] = r.Op, unix.ErrnoName(Errno(r.Err)), Reason(r.Err)
	if r.From != "" {
		detail["from"] = r.From
	}
	Note(detail, r.Err)
}
