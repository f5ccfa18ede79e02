package judge

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"testing"

	"golang.org/x/sys/unix"

	"latchfs/journal/validate"
)

// clash is an objection of somebody who is no validator.
type clash struct{}

func (clash) Error() string              { return "it clashes" }
func (clash) Note(detail map[string]any) { detail["clash"] = true }
func (clash) Verdict() *validate.Refusal { return verdict }

var verdict = &validate.Refusal{Line: 9}

func TestAnswers(t *testing.T) {
	r := &validate.Refusal{Validator: "json", Line: 3, Column: 5, Reason: "odd", Content: "SECRET"}
	nowhere := &validate.Refusal{Validator: "command", Reason: "it failed"}
	cannot := "the content cannot be checked: "
	for name, c := range map[string]struct {
		err     error
		errno   unix.Errno
		reason  string
		detail  map[string]any
		verdict *validate.Refusal
	}{
		"a refusal":         {r, unix.EBADMSG, r.Error(), map[string]any{"validator": "json", "line": 3, "column": 5}, r},
		"as another name":   {&otherNameError{"b", r}, unix.EBADMSG, "as b, another name of the file: " + r.Error(), map[string]any{"validator": "json", "line": 3, "column": 5}, r},
		"one without place": {nowhere, unix.EBADMSG, nowhere.Error(), map[string]any{"validator": "command"}, nowhere},
		"an objection":      {fmt.Errorf("that: %w", clash{}), unix.EIO, cannot + "that: it clashes", map[string]any{"clash": true}, verdict},
		"unsettled":         {ErrUnsettled, unix.EBUSY, cannot + ErrUnsettled.Error(), nil, nil},
		"broken off":        {fmt.Errorf("check: %w", context.Canceled), unix.EINTR, "the check of the content was broken off", nil, nil},
		"an errno":          {fmt.Errorf("open: %w", unix.EACCES), unix.EACCES, cannot + "open: permission denied", nil, nil},
		"anything":          {errors.New("x"), unix.EIO, cannot + "x", nil, nil},
	} {
		if e := Errno(c.err); e != c.errno {
			t.Errorf("%s: %v, want %v", name, e, c.errno)
		}
		if got := Reason(c.err); got != c.reason {
			t.Errorf("%s: %q, want %q", name, got, c.reason)
		}
		detail := map[string]any{}
		if Note(detail, c.err); !maps.Equal(detail, c.detail) {
			t.Errorf("%s: %v, want %v", name, detail, c.detail)
		}
		if got := VerdictOf(c.err); got != c.verdict {
			t.Errorf("%s: %+v, want %+v", name, got, c.verdict)
		}
	}
	if e := Errno(nil); e != 0 {
		t.Errorf("of nothing: %v", e)
	}
}

func TestRefusal(t *testing.T) {
	err := &validate.Refusal{Validator: "json", Line: 3, Reason: "odd"}
	detail := map[string]any{"uid": 7}
	x := &Refusal{Op: "rename", Path: "to", From: "fr\nom", Err: err}
	x.Note(detail)
	want := map[string]any{
		"uid": 7, "operation": "rename", "errno": "EBADMSG", "reason": err.Error(), "from": "fr\nom", "validator": "json", "line": 3,
	}
	if !maps.Equal(detail, want) {
		t.Errorf("%v, want %v", detail, want)
	}
	if got := x.Hint(); got != `It is still in fr\nom.` {
		t.Errorf("the hint is %s", got)
	}
	x.From = ""
	clear(detail)
	x.Note(detail)
	if _, ok := detail["from"]; ok || x.Hint() != "" {
		t.Errorf("without a name: %v, %q", detail, x.Hint())
	}
}
