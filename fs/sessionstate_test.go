package fs

import (
	"fmt"
	"testing"

	"latchfs/fs/sessionstate"
)

// recorded is a log of errors.
type recorded struct {
	quiet
	errors []string
}

func (r *recorded) Errorf(format string, args ...any) {
	r.errors = append(r.errors, fmt.Sprintf(format, args...))
}

func TestSessionStateOutOfOrder(t *testing.T) {
	log := &recorded{}
	s := &session{id: "s1", nodes: newFS(Options{Log: log}).nodes}
	s.become(sessionstate.Ending)
	s.become(sessionstate.Committed)
	if len(log.errors) != 0 {
		t.Errorf("the log has %q", log.errors)
	}
	s.become(sessionstate.Writing)
	if len(log.errors) != 1 || log.errors[0] != "session s1: it is committed, and cannot become writing" {
		t.Errorf("the log has %q", log.errors)
	}
}
