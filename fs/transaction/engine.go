package transaction

import "latchfs/lockmgr"

// Engine is the filesystem of one transaction. It has the files and names of that alone.
type Engine interface {
	// HasLock reports whether the claim has its lock still.
	HasLock() bool
	// HoldPaths keeps all directories where they are, until ReleasePaths.
	HoldPaths()
	ReleasePaths()
	// Files are those that the members write, in the order in which they were begun. None may
	// be added that was begun when the transaction took no more files (Txn.TakesFiles).
	Files() []File
	// Names are what the members have removed and made, in the order in which they did it.
	Names() []Name
	// MarkRenamed notes which files are about to be published under other names. undo is for
	// a commit that fails.
	MarkRenamed() (undo func())
	// FollowRenamed lets those who have such files open follow them, after a commit.
	FollowRenamed()
	// Release gives a lock back that the transaction has kept.
	Release(l *lockmgr.Lock)
	// Ended is told how the transaction ended, at its very end.
	Ended(e End)
	// NotTakenBack is told that the store has not taken back everything.
	NotTakenBack(err error)
}

// End is how a transaction has ended.
type End struct {
	Committed bool
	Reason    string // why it was rolled back
	Removed   int    // how many names the members had removed
}

// File is a file that members write, and that they alone see as it will be. Path may be
// called at any time and Judge before Lock; all other methods are called between Lock and
// Unlock.
type File interface {
	// Path is where the file is, for people.
	Path() string
	// Judge asks the validators whether the content may be published.
	Judge() error
	Lock()
	Unlock()
	// Check says why the file must not be published, nil if it may be.
	Check() error
	// InPlace reports whether it is written in place.
	InPlace() bool
	// Changed reports whether there is anything to publish.
	Changed() bool
	// Prepare hands what is changed to the store.
	Prepare() error
	// MarkSaved marks the file as one that is about to be replaced. undo is for a commit that
	// fails.
	MarkSaved() (undo func())
	// EndPublished ends the file, which is published; err says that it is not known to be
	// on disk.
	EndPublished(err error)
	// Rollback ends the file without a commit, and keeps aside what was written.
	Rollback(reason string)
}

// Name is a name that members have removed, or given to something that is no File.
type Name interface {
	// Path is the name, for people.
	Path() string
	// IsGone reports whether it was removed, rather than made.
	IsGone() bool
	// IsReplaced reports whether a File is to take the place of what was removed.
	IsReplaced() bool
	// Prepare hands the removal to the store.
	Prepare() error
	// Tell tells what has become of it, once it is committed.
	Tell()
	// End shows the name to everybody as it is now.
	End(committed bool)
}

// Store publishes what was prepared, all or nothing; *commit.Txn says what each method
// answers.
type Store interface {
	Commit() error
	// Recover finishes what Commit has decided and not done (commit.ErrRedoPending).
	Recover() error
	Rollback() error
}
