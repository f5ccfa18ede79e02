package fs

import (
	"fmt"
	"testing"
)

// TestSessionStates holds the drawing above sessionState: every state can be reached, a
// session that has ended never goes on, and one that is nobody's stays so.
func TestSessionStates(t *testing.T) {
	if len(nextStates) != len(sessionStates) {
		t.Fatalf("%d states have successors, %d have names", len(nextStates), len(sessionStates))
	}
	reached := map[sessionState]bool{stateWriting: true}
	for todo := []sessionState{stateWriting}; len(todo) > 0; todo = todo[1:] {
		from := todo[0]
		for _, to := range nextStates[from] {
			if from.hasEnded() && !to.hasEnded() {
				t.Errorf("%v has ended, and goes on as %v", from, to)
			}
			if from.isNobodys() && !to.isNobodys() {
				t.Errorf("%v is nobody's, and %v is not", from, to)
			}
			if !reached[to] {
				reached[to] = true
				todo = append(todo, to)
			}
		}
	}
	for st := range nextStates {
		if st := sessionState(st); !reached[st] {
			t.Errorf("nothing becomes %v", st)
		}
	}
}

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
	s := &session{id: "s1", f: &FS{log: log}}
	s.become(stateEnding)
	s.become(stateCommitted)
	if len(log.errors) != 0 {
		t.Errorf("the log has %q", log.errors)
	}
	s.become(stateWriting)
	if len(log.errors) != 1 || log.errors[0] != "session s1: it is committed, and cannot become writing" {
		t.Errorf("the log has %q", log.errors)
	}
}
