package commit

import (
	"os"

	"latchfs/journal"
	"latchfs/journal/commit/internal/rejected"
)

// OpenJournal is journal.Open of the state directory dir, which on a full disk takes the
// ballast that is held there for that.
func OpenJournal(dir *os.File, o journal.Options) (*journal.Journal, error) {
	return rejected.AtStart(dir, func() (*journal.Journal, error) { return journal.Open(dir, o) })
}
