package history

import (
	"time"

	"latchfs/journal/history/internal/record"
)

// recordOf says of a version what the log is to keep.
func recordOf(v *Version) record.Record {
	return record.Record{
		Op: record.OpVersion, Path: record.Name(v.Path), To: record.Optional(v.To), From: record.Optional(v.From),
		Number: v.Number, Time: v.Time.UnixNano(), Base: v.Base, Event: string(v.Event),
		Operation: v.Operation, Actor: v.Actor, Program: v.Program, Session: v.Session,
		PID: v.PID, UID: v.UID, Token: v.Token, Content: v.Content,
		Ino: v.State.Ino, Size: v.State.Size, Mtime: v.State.Mtime,
		FileUID: v.Rights.UID, FileGID: v.Rights.GID, Mode: v.Rights.Mode, ACL: v.Rights.ACL,
	}
}

func versionOf(r *record.Record) Version {
	return Version{
		Path: string(r.Path), To: r.To.String(), From: r.From.String(),
		Number: r.Number, Time: time.Unix(0, r.Time).UTC(), Base: r.Base, Event: Event(r.Event),
		Operation: r.Operation, Actor: r.Actor, Program: r.Program, Session: r.Session,
		PID: r.PID, UID: r.UID, Token: r.Token, Content: r.Content,
		State:  stateOf(r),
		Rights: Rights{UID: r.FileUID, GID: r.FileGID, Mode: r.Mode, ACL: r.ACL},
	}
}

func stateOf(r *record.Record) State { return State{Ino: r.Ino, Size: r.Size, Mtime: r.Mtime} }

// userOf is in whose share a version counts: who made it. What was found, or was made by
// root, counts for the file's owner.
func userOf(r *record.Record) uint32 {
	if r.UID != 0 {
		return r.UID
	}
	return r.FileUID
}
