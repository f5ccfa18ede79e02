package locksdir

import "time"

// Bytes that a lock and a waiting request take in status.json, roughly: what to
// allocate at once.
const (
	jsonLockSize   = 700
	jsonWaiterSize = 500
)

// statusJSON renders status.json: what status shows, for programs. Each lock
// is the answer to "is it locked" of SEED W8, on one line; `{"locked": false}`
// of an idle mount keeps its empty arrays, so that a filter needs no special case.
func (s *snapshot) statusJSON(started time.Time, v Viewer) []byte {
	w := jsonWriter{
		buf:    make([]byte, 0, 200+len(s.held)*jsonLockSize+len(s.waiting)*jsonWaiterSize),
		indent: 2,
	}
	w.open("", '{')
	w.bool("locked", len(s.held) > 0)
	w.int("held", int64(len(s.held)))
	w.int("waiting", int64(len(s.waiting)))
	w.time("generated_at", s.taken)
	w.time("serving_since", started)
	w.open("locks", '[')
	for _, r := range s.held {
		s.writeLock(&w, r, v)
	}
	w.close(']')
	w.open("queue", '[')
	place := 0
	for i, r := range s.waiting {
		if i == 0 || r.Path != s.waiting[i-1].Path {
			place = 0
		}
		place++
		w.open("", '{')
		writeWaiter(&w, r, place, v)
		w.seconds("waited_seconds", positive(s.taken.Sub(r.Since)))
		w.close('}')
	}
	w.close(']')
	w.close('}')
	return append(w.buf, '\n')
}

func (s *snapshot) writeLock(w *jsonWriter, r *Record, v Viewer) {
	w.open("", '{')
	w.lockName(r.Path)
	w.bool("locked", true)
	w.bool("is_stale", r.Stale)
	if r.Stale {
		w.string("stale_reason", r.staleReason(s.taken))
	}
	w.bool("we_hold_it", v.holds(r))
	w.seconds("age_seconds", positive(s.taken.Sub(r.Since)))
	w.open("holder", '{')
	writeRecord(w, r, v)
	w.close('}')
	w.close('}')
}

// jsonKey tells status.json for different viewers apart: by what they may see,
// and those who hold something themselves by their process.
func (s *snapshot) jsonKey(v Viewer) textKey {
	key := textKey{file: "status.json", privileged: v.Privileged, uid: v.UID}
	for _, r := range s.held {
		if v.holds(r) {
			key.pid = v.PID
			break
		}
	}
	return key
}

// positive is d, or 0 where the clock was set back.
func positive(d time.Duration) time.Duration { return max(d, 0).Round(time.Millisecond) }
