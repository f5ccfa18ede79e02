package history

import (
	"time"

	"latchfs/journal/history/internal/record"

	"golang.org/x/sys/unix"
)

// Event says how a version came to be.
type Event string

// The events.
const (
	// Commit: the content came through the mount, or another path's did by a
	// rename.
	Commit Event = record.EventCommit
	// Found: a state that latchfs did not make, or does not remember to have made.
	Found Event = record.EventFound
	// Delete: the path holds no file any more.
	Delete Event = record.EventDelete
	// RenameAway: as Delete; the file has gone to another path.
	RenameAway Event = record.EventRenameAway
)

// gone reports whether a path with such a last version holds nothing.
func (e Event) gone() bool { return e == Delete || e == RenameAway }

// State is how stat(2) tells one content of a file from another.
type State struct {
	Ino   uint64
	Size  int64
	Mtime int64 // nanoseconds since the epoch
}

// StateOf returns the state that st shows.
func StateOf(st *unix.Stat_t) State {
	return State{Ino: st.Ino, Size: st.Size, Mtime: st.Mtim.Nano()}
}

// Rights are what decides who may read a version.
type Rights struct {
	UID, GID uint32
	Mode     uint32 // permission bits
	ACL      bool   // there is one, of which Mode does not tell all
}

// Version is one version of a path.
type Version struct {
	Path   string // relative to the data root, raw bytes
	Number uint64 // from 1; given by Add
	Time   time.Time
	Base   uint64 // the version that it was made from, 0 if none
	Event  Event

	// Who made it, as far as that is known.
	Operation, Actor, Program, Session string
	PID                                int32
	UID                                uint32
	Token                              uint64

	From, To string // other paths of a rename
	State    State  // of the content, as it was last known
	Rights   Rights // of the file
	// Content is the content id, "" of a version that is no file; Add makes one
	// where a file has none.
	Content string

	// Computed when it is shown.
	Reach   Reach // of what is kept
	Kept    bool  // its content can be opened
	Current bool  // it is the path's last one
}
