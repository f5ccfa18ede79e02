package fs

import "strings"

// simLog is the daemon's log in a simulation. A session that goes from one state to
// another out of order fails the run.
type simLog struct {
	quiet
	w *simWorld
}

func (l simLog) Errorf(format string, args ...any) {
	if strings.Contains(format, "cannot become") {
		l.w.failf(format, args...)
	}
}
