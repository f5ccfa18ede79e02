package commit

import (
	"errors"
	"fmt"

	"latchfs/journal/commit/internal/disk"
)

// Sentinels for errors.Is.
var (
	// ErrConflict: the name does not hold the base version any more.
	ErrConflict = errors.New("the file has changed underneath")
	// ErrCannotPreserve: the shadow cannot take the file's place, because the
	// directory may not be written or the file's owner, attributes or ACLs
	// could not be given to it. Commit with InPlace.
	ErrCannotPreserve = errors.New("the file cannot be replaced")
	// ErrNotDurable: the new version is published and visible, but it is not
	// known to be on disk.
	ErrNotDurable = errors.New("published, but not known to be on disk")
	// ErrRedoPending: the target is half written; the redo record stands, and
	// Recover finishes the commit.
	ErrRedoPending = errors.New("the commit in place is unfinished")
)

// ConflictError says what was found instead of the base version.
type ConflictError struct {
	Name  string        // in its directory
	Base  *disk.Version // nil: the name was expected to be free
	Found *disk.Version // nil: the name is gone
}

func (e *ConflictError) Error() string {
	switch {
	case e.Base == nil:
		return fmt.Sprintf("%q exists already", e.Name)
	case e.Found == nil:
		return fmt.Sprintf("%q is gone", e.Name)
	case e.Found.Ino != e.Base.Ino || e.Found.Dev != e.Base.Dev:
		return fmt.Sprintf("%q was replaced by another file", e.Name)
	default:
		return fmt.Sprintf("%q was changed", e.Name)
	}
}

// Is makes every ConflictError match ErrConflict.
func (e *ConflictError) Is(target error) bool { return target == ErrConflict }

// kinded is an error of one of the sentinel kinds with its cause.
type kinded struct {
	kind error
	what string
	err  error
}

func (e *kinded) Error() string   { return fmt.Sprintf("%v: %s: %v", e.kind, e.what, e.err) }
func (e *kinded) Unwrap() []error { return []error{e.kind, e.err} }
