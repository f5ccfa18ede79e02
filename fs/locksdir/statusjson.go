package locksdir

import (
	"time"

	"latchfs/fs/printable"
)

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
	w := printable.AppendTo(make([]byte, 0, 200+len(s.held)*jsonLockSize+len(s.waiting)*jsonWaiterSize), 2)
	w.Open("", '{')
	w.Bool("locked", len(s.held) > 0)
	w.Int("held", int64(len(s.held)))
	w.Int("waiting", int64(len(s.waiting)))
	if s.stopping {
		w.Bool("shutting_down", true)
	}
	w.Time("generated_at", s.taken)
	w.Time("serving_since", started)
	w.Open("locks", '[')
	for _, r := range s.held {
		writeLock(&w, r, s.taken, v)
	}
	w.Close(']')
	w.Open("queue", '[')
	place := 0
	for i, r := range s.waiting {
		if i == 0 || !r.sameLock(s.waiting[i-1]) {
			place = 0
		}
		place++
		w.Open("", '{')
		writeWaiter(&w, r, place, v)
		w.Seconds("waited_seconds", positive(s.taken.Sub(r.Since)))
		w.Close('}')
	}
	w.Close(']')
	w.Close('}')
	return append(w.Bytes(), '\n')
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

// jsonKey tells status.json for different viewers apart: by what they may see,
// and those who hold something themselves by their process.
func (s *snapshot) jsonKey(v Viewer) textKey {
	key := textKey{file: "status.json", privileged: v.Privileged, uid: v.UID}
	for _, r := range s.held {
		if v.Holds(r) {
			key.pid = v.PID
			break
		}
	}
	return key
}

// positive is d, or 0 where the clock was set back.
func positive(d time.Duration) time.Duration { return max(d, 0).Round(time.Millisecond) }
