package report

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

// JSON renders what Text shows, for programs. Each lock
// is the answer to "is it locked" of SEED W8, on one line; `{"locked": false}`
// of an idle mount keeps its empty arrays, so that a filter needs no special case.
func (s *Status) JSON(v Viewer) []byte {
	w := printable.AppendTo(make([]byte, 0, 200+len(s.Held)*jsonLockSize+len(s.Waiting)*jsonWaiterSize), 2)
	w.Open("", '{')
	w.Bool("locked", len(s.Held) > 0)
	w.Int("held", int64(len(s.Held)))
	w.Int("waiting", int64(len(s.Waiting)))
	if s.Stopping {
		w.Bool("shutting_down", true)
	}
	w.Time("generated_at", s.At)
	w.Time("serving_since", s.Started)
	w.Open("locks", '[')
	for _, r := range s.Held {
		writeLock(&w, r, s.At, v)
	}
	w.Close(']')
	w.Open("queue", '[')
	place := 0
	for i, r := range s.Waiting {
		if i == 0 || !r.SameLock(s.Waiting[i-1]) {
			place = 0
		}
		place++
		w.Open("", '{')
		writeWaiter(&w, r, place, v)
		w.Seconds("waited_seconds", positive(s.At.Sub(r.Since)))
		w.Close('}')
	}
	w.Close(']')
	w.Close('}')
	return append(w.Bytes(), '\n')
}

// positive is d, or 0 where the clock was set back.
func positive(d time.Duration) time.Duration { return max(d, 0).Round(time.Millisecond) }
