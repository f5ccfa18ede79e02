package journal

import (
	"os"
	"slices"

	"latchfs/journal/audit"
	"latchfs/journal/statedir"
)

// beforeSegment are the names in a state directory that come before the first segment: what
// opens it makes the lock, and hides it from git.
var beforeSegment = []string{"daemon.lock", ".gitignore", newSegment}

// missesSegment is an error if the state directory dir, in which there is no segment, has had
// one: everything else that a daemon keeps there is made after it, and no rotation is ever
// without one.
func missesSegment(dir *os.File) error {
	names, err := readNames(dir)
	if err != nil {
		return err
	}
	for _, name := range names {
		if slices.Contains(beforeSegment, name) || name == audit.Name && isEmpty(dir, name) {
			continue
		}
		return noSegmentError(name)
	}
	return nil
}

// isEmpty reports whether a file is there and holds nothing.
func isEmpty(dir *os.File, name string) bool {
	f, err := statedir.File(dir, name, os.O_RDONLY)
	if err != nil {
		return false
	}
	defer f.Close()
	st, err := f.Stat()
	return err == nil && st.Size() == 0
}

// noSegmentError names something beside which a journal is missing.
type noSegmentError string

func (e noSegmentError) Error() string {
	return "the journal is missing beside " + string(e) + ", which no crash explains (nothing was changed)"
}

// Is makes it match ErrCorrupt.
func (e noSegmentError) Is(target error) bool { return target == ErrCorrupt }
