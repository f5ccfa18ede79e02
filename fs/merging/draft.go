package merging

import (
	"fmt"

	"latchfs/fs/bases"
	"latchfs/fs/lostupdate"
)

// Draft is what the writer of a session has written.
type Draft interface {
	// Theirs is the file that it is to replace, as it is now.
	Theirs() File
	// InPlace reports whether it is to be written into that file.
	InPlace() bool
	// FD is a descriptor of the content, open for reading and writing.
	FD() int
	// Rewrite runs a change of the content on behalf of the writer, again if it found no room
	// and some could be made.
	Rewrite(do func() error) error
}

// Join makes the draft the joined content, and reports whether that is another than what was
// written. The error is a *lostupdate.NotMerged if the two cannot be joined.
func Join(g *lostupdate.Merge, d Draft) (changed bool, err error) {
	theirs, err := d.Theirs().Read()
	if err != nil {
		return false, fmt.Errorf("the file cannot be read, to be merged with: %w", err)
	}
	mine, _, err := bases.Read(d.FD())
	if err != nil {
		return false, fmt.Errorf("what was written cannot be read, to be merged: %w", err)
	}
	merged, err := g.Join(theirs, mine)
	if d.InPlace() {
		err = g.Refuse(lostupdate.KeepsInode)
	}
	if err != nil || g.Mine() == nil {
		return false, err
	}
	if err := d.Rewrite(func() error { return Write(d.FD(), merged) }); err != nil {
		return false, fmt.Errorf("the merged content cannot be written: %w", err)
	}
	return true, nil
}

// TakeBack gives the draft behind fd back what its writer has written, if it was joined with
// anything. g may be nil.
func TakeBack(g *lostupdate.Merge, fd int) error {
	if g == nil || g.Mine() == nil {
		return nil
	}
	return Write(fd, g.TakeMine())
}
