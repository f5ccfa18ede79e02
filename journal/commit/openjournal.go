package commit

import (
	"os"

	"latchfs/journal"
	"latchfs/journal/commit/internal/rejected"
)

// OpenJournal is journal.Open of the state directory dir, which on a full disk takes the
// ballast that is held there for that.
func OpenJournal(dir *os.File, o journal.Options) (j *journal.Journal, err error) {
	err = rejected.AtStart(dir, func() error {
		j, err = journal.Open(dir, o)
		return err
	})
	return j, err
}
