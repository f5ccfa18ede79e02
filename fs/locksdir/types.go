package locksdir

import (
	"io"
	"time"

	"latchfs/fs/report"
)

// EventLog is the audit trail: one JSON object a line, growing at its end.
type EventLog interface {
	io.ReaderAt
	// Size is the number of bytes that can be read now.
	Size() int64
}

// Source is what the tree shows. Its methods may be called at any time from
// several goroutines, and never while they hold a lock that a caller of the
// Tree holds too.
type Source interface {
	// Generation rises whenever Held or Waiting would answer differently, also
	// when a lock becomes stale; a heartbeat alone need not raise it. It must be
	// cheap.
	Generation() uint64
	// Held lists the held locks, in any order; the caller keeps the slice.
	Held() []report.Record
	// Waiting lists the waiting requests, those for one lock in queue order;
	// the caller keeps the slice.
	Waiting() []report.Record
	// Why lists what was refused to the viewer's lineage, in any order; the
	// caller keeps the slice.
	Why(report.Viewer) []report.Refusal
	// Events is the audit trail.
	Events() EventLog
	// Policy is the policy in force, as TOML.
	Policy() []byte
	// Sight is what the viewer may know of; nil for one who may know of everything.
	Sight(report.Viewer) report.Sight
	// Programs says, for people, which programs have been learned to write back what
	// they read. Of others' programs the viewer sees the name alone.
	Programs(v report.Viewer) []byte
	// Rejected lists the kept bytes that the viewer may know of, sorted by ID;
	// the caller keeps the slice. The Tree shows of them what the viewer May
	// read.
	Rejected(report.Viewer) []Rejected
	// FindRejected is the one of Rejected that has this ID, which may be any
	// string. It must not cost more when there are many.
	FindRejected(id string, v report.Viewer) (Rejected, bool)
	Versions
	// Release ends the lock of the group, the records of all who hold it as
	// they were shown, on behalf of the viewer: its own, or a stale one. The
	// lock may have changed hands since; the tokens tell. Its error reaches the
	// caller of Tree.Remove unchanged.
	Release(group []report.Record, v report.Viewer) error
	// Stopping reports whether the mount is shutting down, and lets only those
	// write who do already. Generation rises when that begins.
	Stopping() bool
	// Started is when the mount began to serve.
	Started() time.Time
	// Now is the clock; its location is that of the times shown to people.
	Now() time.Time
}

// Entry describes one file or directory of the tree.
type Entry struct {
	// Name is the last component of the path, raw bytes; "" for the root.
	Name string
	Dir  bool
	// Mode holds the permission bits alone, without the file type.
	Mode uint32
	// UID owns the entry: a lock belongs to its holder's user, so that `ls -l`
	// shows whose it is; the rest belongs to 0.
	UID uint32
	// GID is the entry's group; 0 except in rejected/.
	GID uint32
	// Size in bytes; 0 for directories.
	Size  int64
	Mtime time.Time
}

// Content is an open file. It is a snapshot taken when it was opened, except
// for events.jsonl, which goes on growing. ReadAt follows io.ReaderAt.
type Content interface {
	io.ReaderAt
	io.Closer
	// Size is exact for the snapshot. While a file is open, attributes asked
	// for it are best answered with this size rather than with a new Stat,
	// whose rendering may be a newer one.
	Size() int64
}
