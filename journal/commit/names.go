package commit

import (
	"golang.org/x/sys/unix"

	"latchfs/journal/commit/internal/disk"
	"latchfs/journal/commit/internal/keep"
	"latchfs/journal/commit/internal/lazy"
	"latchfs/journal/commit/internal/recovery"
	"latchfs/journal/commit/internal/rejected"
	"latchfs/journal/commit/internal/reserved"
	"latchfs/journal/commit/internal/tail"
)

// Whoever uses the package needs to know none of the rooms below: these are the names
// that cross their doors.

// Names in the data root and the state directory.
const (
	ReservedPrefix = disk.ReservedPrefix // begins every name that is not for users
	StateDirName   = disk.StateDirName   // the state directory at the data root
	LockName       = disk.LockName       // in it: whoever uses the data root holds a flock on this file
	IgnoreName     = disk.IgnoreName     // in it: keeps git away

	RejectedDir     = rejected.Dir     // in it: the rejected store, a directory for each ID
	RejectedContent = rejected.Content // in that: the bytes
	RejectedMeta    = rejected.Meta    // in that: what is known about them
)

// MaxKeptCopy is the size in bytes up to which content is copied into the
// history where its inode itself cannot go there.
const MaxKeptCopy = keep.MaxKeptCopy

type (
	// Version identifies one state of one file, as stat(2) tells it.
	Version = disk.Version
	// Inode identifies a file or a directory.
	Inode = disk.Inode
	// Runner runs a change of a user's data as that user.
	Runner = disk.Runner
	// Keep says what becomes of content that loses its name.
	Keep = keep.Keep
	// RenameOptions are the names of a rename(2) over an existing regular file.
	RenameOptions = keep.RenameOptions
	// LazyMove is a rename of a file that is not known to be on disk.
	LazyMove = lazy.Move
	// Tail is the end of a file to which records are appended.
	Tail = tail.Tail
	// TailOptions say which file is appended to.
	TailOptions = tail.Options
	// Announced is a shadow that is about to be secured: the journal knows, and its name is not
	// there.
	Announced = reserved.Announced
	// Pruned says what was removed from the rejected store, and why.
	Pruned = rejected.Pruned
	// Changed is a file that somebody has written since a crash cut its commit in place short.
	Changed = recovery.Changed
	// Synced is a file that its writer had synced, and not closed, when the daemon ended.
	Synced = recovery.Synced
	// Report says what a recovery has found and done.
	Report = recovery.Report
)

// VersionOf returns the version that st shows.
func VersionOf(st *unix.Stat_t) Version { return disk.VersionOf(st) }

// Reserved reports whether name is not for users.
func Reserved(name string) bool { return disk.Reserved(name) }

// OpenUnnoticed opens the file name in dir for a look that its users do not notice: it
// leaves the access time as it is, where it may.
func OpenUnnoticed(dir int, name string) (int, error) { return disk.OpenUnnoticed(dir, name) }
