package locksdir

import "strconv"

// appendHeld renders held/PATH.lock and names/NAME.lock: the records of those
// who hold one lock, the lowest token first.
func appendHeld(b []byte, group []*Record, v Viewer) []byte {
	w := jsonWriter{buf: b, indent: 2}
	w.open("", '{')
	writeRecord(&w, group[0], v)
	writeStale(&w, group[0])
	if len(group) > 1 {
		w.open("co_holders", '[')
		for _, r := range group[1:] {
			w.open("", '{')
			writeRecord(&w, r, v)
			writeStale(&w, r)
			w.close('}')
		}
		w.close(']')
	}
	w.close('}')
	return append(w.buf, '\n')
}

// writeRecord writes the fields of a lock/v1 record (SEED T3) into the open
// object. The names up to ttl_seconds are the specification's; a request there
// is a session here, an intent an operation. No time moves with the clock but
// that of the heartbeat, whose width is fixed, so a record's size only changes
// when the lock does.
func writeRecord(w *jsonWriter, r *Record, v Viewer) {
	w.string("lock_version", "v1")
	w.raw("lock_name", r.lockName())
	w.string("request_id", r.requestID())
	w.string("actor", r.actor())
	w.string("intent", r.Operation)
	w.string("intent_version", "v1")
	w.string("host_id", r.Host)
	w.int("pid", int64(r.Owner.PID))
	w.time("created_at", r.Since)
	w.time("last_heartbeat_at", r.heartbeat())
	w.seconds("ttl_seconds", r.TTL)
	w.string("session", r.Session)
	w.string("operation", r.Operation)
	w.uint("token", r.Token)
	w.string("mode", r.Mode)
	w.string("class", r.Class)
	writeScope(w, r)
	w.int("waiters", int64(r.Waiters))
	w.open("metadata", '{')
	writeProcess(w, r, v)
	w.close('}')
}

// writeStale writes whether the lock is stale, and since when.
func writeStale(w *jsonWriter, r *Record) {
	w.bool("is_stale", r.Stale)
	if r.Stale {
		w.time("stale_since", r.staleSince())
	}
}

// writeScope writes what the lock covers, and where that is not what its name
// says: the file it was taken for, and the key under which it is one lock.
func writeScope(w *jsonWriter, r *Record) {
	switch {
	case r.Name != "":
		w.string("scope", "name")
	case r.Tree:
		w.string("scope", "tree")
	default:
		w.string("scope", "file")
	}
	if r.File != "" {
		w.raw("file", r.File)
	}
	if r.Key != "" && r.Key != r.id() {
		w.raw("key", r.Key)
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
func writeProcess(w *jsonWriter, r *Record, v Viewer) {
	w.string("program", r.Program)
	w.uint("uid", uint64(r.UID))
	w.uint("start", r.Owner.Start)
	if v.sees(r.UID) {
		w.strings("command", r.Cmdline)
		w.string("cwd", r.Cwd)
	}
}

// appendQueue renders waiting/PATH and names/NAME.queue: one line for each waiter, in turn.
func appendQueue(b []byte, group []*Record, v Viewer) []byte {
	w := jsonWriter{buf: b}
	for i, r := range group {
		w.open("", '{')
		writeWaiter(&w, r, i+1, v)
		w.close('}')
		w.buf = append(w.buf, '\n')
		w.comma = false
	}
	return w.buf
}

// writeWaiter writes the fields of a waiting request into the open object.
// place counts from 1.
func writeWaiter(w *jsonWriter, r *Record, place int, v Viewer) {
	w.raw("lock_name", r.lockName())
	w.int("place", int64(place))
	w.string("actor", r.actor())
	w.string("host_id", r.Host)
	w.int("pid", int64(r.Owner.PID))
	w.string("session", r.Session)
	w.string("operation", r.Operation)
	w.string("mode", r.Mode)
	w.string("class", r.Class)
	writeScope(w, r)
	w.time("waiting_since", r.Since)
	w.time("deadline", r.Deadline)
	w.strings("waits_for", r.WaitsFor)
	w.int("ahead", int64(r.ahead()))
	w.open("metadata", '{')
	writeProcess(w, r, v)
	w.close('}')
}
