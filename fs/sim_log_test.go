package fs

import (
	"fmt"
	"slices"
	"strings"

	"latchfs/journal/commit"
)

// simLog is the daemon's log in a simulation. A session that goes from one state to
// another out of order fails the run.
type simLog struct {
	quiet
	w *simWorld
}

// Warnf implements Logger.
func (l simLog) Warnf(format string, args ...any) {
	l.w.tracef("      the daemon warns: %s", fmt.Sprintf(format, args...))
}

// Errorf implements Logger.
func (l simLog) Errorf(format string, args ...any) {
	l.Warnf(format, args...)
	if strings.Contains(format, "cannot become") {
		l.w.failf(format, args...)
	}
	if slices.Contains(args, any(commit.ErrNotDurable)) {
		l.w.model.losesLate()
	}
}
