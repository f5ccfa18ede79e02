package rejected

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"

	"latchfs/journal"
)

// OpenJournal opens the journal of the state directory dir. On a full disk it takes the
// ballast that is held there for that: whoever is to make room has to have started.
func OpenJournal(dir *os.File, o journal.Options) (*journal.Journal, error) {
	for i := 0; ; i++ {
		j, err := journal.Open(dir, o)
		if !errors.Is(err, unix.ENOSPC) && !errors.Is(err, unix.EDQUOT) {
			return j, err
		}
		for ; i < BallastCount && unix.Unlinkat(int(dir.Fd()), BallastName(i), 0) != nil; i++ {
		}
		if i >= BallastCount {
			return nil, err
		}
	}
}
