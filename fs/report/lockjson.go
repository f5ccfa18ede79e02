package report

import (
	"strconv"
	"time"

	"latchfs/fs/printable"
)

// AppendHolders appends held/PATH.lock or names/NAME.lock: the records of those who
// hold one lock, the lowest token first. There is at least one.
func AppendHolders(b []byte, group []*Record, v Viewer) []byte {
	w := printable.AppendTo(b, 2)
	w.Open("", '{')
	writeRecord(&w, group[0], v)
	writeStale(&w, group[0])
	if len(group) > 1 {
		w.Open("co_holders", '[')
		for _, r := range group[1:] {
			w.Open("", '{')
			writeRecord(&w, r, v)
			writeStale(&w, r)
			w.Close('}')
		}
		w.Close(']')
	}
	w.Close('}')
	return append(w.Bytes(), '\n')
}

// writeRecord writes the fields of a lock/v1 record (SEED T3) into the open
// object. The names up to ttl_seconds are the specification's; a request there
// is a session here, an intent an operation. No time moves with the clock but
// that of the heartbeat, whose width is fixed, so a record's size only changes
// when the lock does.
func writeRecord(w *printable.Writer, r *Record, v Viewer) {
	w.String("lock_version", "v1")
	w.Raw("lock_name", r.lockName())
	w.String("request_id", r.requestID())
	w.String("actor", r.actor())
	w.String("intent", r.Operation)
	w.String("intent_version", "v1")
	w.String("host_id", r.Host)
	w.Int("pid", int64(r.Owner.PID))
	w.Time("created_at", r.Since)
	w.Time("last_heartbeat_at", r.Heartbeat())
	w.Seconds("ttl_seconds", r.TTL)
	w.String("session", r.Session)
	w.String("operation", r.Operation)
	w.Uint("token", r.Token)
	w.String("mode", r.Mode)
	w.String("class", r.Class)
	writeScope(w, r)
	w.Int("waiters", int64(r.Waiters))
	w.Open("metadata", '{')
	writeProcess(w, r, v)
	w.Close('}')
}

// writeStale writes whether the lock is stale, and since when.
func writeStale(w *printable.Writer, r *Record) {
	w.Bool("is_stale", r.Stale)
	if r.Stale {
		w.Time("stale_since", r.staleSince())
	}
}

// writeScope writes what the lock covers, and where that is not what its name
// says: the file it was taken for, and the key under which it is one lock.
func writeScope(w *printable.Writer, r *Record) {
	switch {
	case r.Name != "":
		w.String("scope", "name")
	case r.Tree:
		w.String("scope", "tree")
	default:
		w.String("scope", "file")
	}
	if r.File != "" {
		w.Raw("file", r.File)
	}
	if r.Key != "" && r.Key != r.ID() {
		w.Raw("key", r.Key)
	}
}

// requestID is the session's id, or a name made of the token for a lock without
// a session: lock/v1 wants something unique.
func (r *Record) requestID() string {
	if r.Session != "" {
		return r.Session
	}
	return "token-" + strconv.FormatUint(r.Token, 10)
}

// writeProcess writes what is known about the owner's process; the command line
// and the working directory only for those who may see them.
func writeProcess(w *printable.Writer, r *Record, v Viewer) {
	w.String("program", r.Program)
	w.Uint("uid", uint64(r.UID))
	w.Uint("start", r.Owner.Start)
	if v.sees(r.UID) {
		w.Strings("command", r.Cmdline)
		w.String("cwd", r.Cwd)
	}
}

// AppendQueue appends waiting/PATH or names/NAME.queue: one line for each of those who
// wait for one lock, in turn.
func AppendQueue(b []byte, group []*Record, v Viewer) []byte {
	w := printable.AppendTo(b, 0)
	for i, r := range group {
		w.Open("", '{')
		writeWaiter(&w, r, i+1, v)
		w.Close('}')
		w.EndLine()
	}
	return w.Bytes()
}

// writeWaiter writes the fields of a waiting request into the open object.
// place counts from 1.
func writeWaiter(w *printable.Writer, r *Record, place int, v Viewer) {
	w.Raw("lock_name", r.lockName())
	w.Int("place", int64(place))
	w.String("actor", r.actor())
	w.String("host_id", r.Host)
	w.Int("pid", int64(r.Owner.PID))
	w.String("session", r.Session)
	w.String("operation", r.Operation)
	w.String("mode", r.Mode)
	w.String("class", r.Class)
	writeScope(w, r)
	w.Time("waiting_since", r.Since)
	w.Time("deadline", r.Deadline)
	w.Strings("waits_for", r.WaitsFor)
	w.Int("ahead", int64(r.ahead()))
	w.Open("metadata", '{')
	writeProcess(w, r, v)
	w.Close('}')
}

// AppendLock appends the answer to "is it locked" (SEED W8) for a held lock as
// it is at now: the object that status.json lists under "locks", on one line
// without a newline.
func AppendLock(b []byte, r *Record, now time.Time, v Viewer) []byte {
	w := printable.AppendTo(b, 0)
	writeLock(&w, r, now, v)
	return w.Bytes()
}

func writeLock(w *printable.Writer, r *Record, now time.Time, v Viewer) {
	w.Open("", '{')
	w.Raw("lock_name", r.lockName())
	w.Bool("locked", true)
	writeStale(w, r)
	if r.Stale {
		w.String("stale_reason", r.staleReason(now))
	}
	w.Bool("we_hold_it", v.Holds(r))
	w.Seconds("age_seconds", positive(now.Sub(r.Since)))
	w.Open("holder", '{')
	writeRecord(w, r, v)
	w.Close('}')
	w.Close('}')
}
