package transaction

import (
	"errors"
	"fmt"

	"latchfs/journal/commit"
)

// ErrOver refuses what a member does after its transaction has ended without it.
var ErrOver = errors.New("the transaction of this process is over: it was rolled back")

// RefusedError says why a transaction was not committed.
type RefusedError struct {
	Path   string // "" if it is about no file
	Reason string
}

func (e *RefusedError) Error() string {
	if e.Path == "" {
		return e.Reason
	}
	return fmt.Sprintf("%s: %s", e.Path, e.Reason)
}

// IsRefused reports whether an error of Commit says that nothing was published.
func IsRefused(err error) bool {
	var refused *RefusedError
	return errors.As(err, &refused)
}

// Commit publishes everything. A *RefusedError says that nothing was, and why; any other
// error that it was, but is not known to be on disk.
func (t *Txn) Commit() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.IsOver() {
		return &RefusedError{Reason: t.reason}
	}
	e := t.c.Engine
	err := t.judge()
	// No directory changes its path between what the journal says and what happens.
	e.HoldPaths()
	defer e.ReleasePaths()
	files := t.lastFiles()
	for _, f := range files {
		f.Lock()
	}
	if err == nil {
		err = t.publish(files)
	}
	refused := IsRefused(err)
	if refused {
		t.takeBack(files, err.Error())
	} else {
		t.endPublished(files, err)
	}
	for _, f := range files {
		f.Unlock()
	}
	t.end(!refused)
	return err
}

// Rollback takes everything back, unless the transaction is over. What was written is kept
// aside.
func (t *Txn) Rollback(reason string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.IsOver() {
		return
	}
	files := t.lastFiles()
	for _, f := range files {
		f.Lock()
	}
	t.takeBack(files, reason)
	for _, f := range files {
		f.Unlock()
	}
	t.end(false)
}

// judge asks the validators about everything that the transaction changes. They may take
// long, so no directory is kept from being renamed meanwhile: what is published has to be
// what they have seen.
func (t *Txn) judge() error {
	for _, f := range t.c.Engine.Files() {
		if err := f.Judge(); err != nil {
			return refusal(f, err)
		}
	}
	return nil
}

// lastFiles are the files of the transaction: it gets no others any more, for nobody would
// end them.
func (t *Txn) lastFiles() []File {
	t.become(deciding)
	return t.c.Engine.Files()
}

// publish checks everything, prepares it, and lets it happen. The files are locked.
func (t *Txn) publish(files []File) error {
	if !t.c.Engine.HasLock() || t.lost.Load() {
		return &RefusedError{Reason: "a lock of its was stolen"}
	}
	for _, f := range files {
		if err := f.Check(); err != nil {
			return refusal(f, err)
		}
	}
	if err := t.prepare(files); err != nil {
		return err
	}
	undo := make([]func(), 0, len(files)+1)
	for _, f := range files {
		undo = append(undo, f.MarkSaved())
	}
	undo = append(undo, t.c.Engine.MarkRenamed())
	err := t.c.Store.Commit()
	if errors.Is(err, commit.ErrRedoPending) && t.c.Store.Recover() == nil {
		err = nil
	}
	switch {
	case err == nil, errors.Is(err, commit.ErrNotDurable), errors.Is(err, commit.ErrRedoPending):
		return err
	}
	for _, u := range undo {
		u()
	}
	return &RefusedError{Reason: "commit failed: " + err.Error()}
}

// prepare hands everything to the store, and what is written in place last.
func (t *Txn) prepare(files []File) error {
	if err := prepareFiles(files, false); err != nil {
		return err
	}
	for _, n := range t.c.Engine.Names() {
		if !n.IsGone() || n.IsReplaced() {
			continue // what replaces it is prepared
		}
		if err := n.Prepare(); err != nil {
			return refusal(n, err)
		}
	}
	return prepareFiles(files, true)
}

// prepareFiles prepares the changed files that are written in place, or those that are not.
func prepareFiles(files []File, inPlace bool) error {
	for _, f := range files {
		if f.InPlace() != inPlace || !f.Changed() {
			continue
		}
		if err := f.Prepare(); err != nil {
			return refusal(f, err)
		}
	}
	return nil
}

// refusal refuses the transaction for the sake of one file or name.
func refusal(of interface{ Path() string }, err error) *RefusedError {
	return &RefusedError{Path: of.Path(), Reason: err.Error()}
}

// endPublished tells of what has happened, and ends the files. They are locked.
func (t *Txn) endPublished(files []File, err error) {
	for _, n := range t.c.Engine.Names() {
		n.Tell()
	}
	t.become(committed)
	for _, f := range files {
		f.EndPublished(err)
	}
}

// takeBack ends the files without a commit. They are locked.
func (t *Txn) takeBack(files []File, reason string) {
	t.reason = reason
	t.become(rolledBack)
	for _, f := range files {
		f.Rollback(reason)
	}
	if err := t.c.Store.Rollback(); err != nil {
		t.c.Engine.NotTakenBack(err)
	}
}

// end shows the names as they are now, gives the locks back and tells how it ended.
func (t *Txn) end(committed bool) {
	e := t.c.Engine
	if committed {
		e.FollowRenamed()
	}
	removed := 0
	for _, n := range e.Names() {
		if n.IsGone() {
			removed++
		}
		n.End(committed)
	}
	for _, l := range t.locks {
		e.Release(l)
	}
	t.locks = nil
	e.Ended(End{Committed: committed, Reason: t.reason, Removed: removed})
}
