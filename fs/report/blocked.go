package report

import (
	"path"
	"time"

	"latchfs/fs/printable"
)

// The two reasons of a Blocked.
const (
	LockBlocked = "lock_blocked" // the holder is alive (SEED T5)
	LockStale   = "lock_stale"   // the lock can be stolen (SEED T7)
)

// Blocked is the answer to a request for a lock that is held, in the words of
// SEED T5 and T7. It is marshalled as they say: what concerns a stale lock alone
// is left out for any other, and nothing unprintable gets through.
type Blocked struct {
	Error    string `json:"error"`
	LockName string `json:"lock_name"`
	// StaleSince and what follows are of a stale lock.
	StaleSince time.Time `json:"stale_since,omitzero"`
	// AgeSeconds is how old the last heartbeat is: more than TTLSeconds.
	AgeSeconds float64 `json:"age_seconds,omitempty"`
	TTLSeconds float64 `json:"ttl_seconds,omitempty"`
	HeldBy     HeldBy  `json:"held_by"`
	// Suggestion is what to do, for people.
	Suggestion string `json:"suggestion"`
}

// HeldBy is the holder in a Blocked.
type HeldBy struct {
	RequestID       string    `json:"request_id"`
	Actor           string    `json:"actor"`
	Intent          string    `json:"intent"`
	CreatedAt       time.Time `json:"created_at"`
	LastHeartbeatAt time.Time `json:"last_heartbeat_at"`
	// HostID and PID are of a stale lock.
	HostID string `json:"host_id,omitempty"`
	PID    int32  `json:"pid,omitempty"`
}

// Refused is what to answer at now to a request that the held lock r keeps out.
func (r *Record) Refused(now time.Time) Blocked {
	b := Blocked{
		Error:    LockBlocked,
		LockName: r.lockName(),
		HeldBy: HeldBy{
			RequestID: r.requestID(), Actor: r.actor(), Intent: r.Operation,
			CreatedAt: r.Since, LastHeartbeatAt: r.Heartbeat(),
		},
		Suggestion: "Run it again when the holder is done." + findHolder(r),
	}
	if r.Stale {
		b.Error = LockStale
		b.StaleSince = r.staleSince()
		b.AgeSeconds = positive(now.Sub(r.Heartbeat())).Seconds()
		b.TTLSeconds = r.TTL.Seconds()
		b.HeldBy.HostID, b.HeldBy.PID = r.Host, r.Owner.PID
		b.Suggestion = "The holder shows no sign of life: run it again with --steal, or `latchfs steal --force " +
			r.target() + "`, to take the lock away from it."
	}
	return b
}

// HowToEnd says what ends the lock, which is not the reader's to release. The reader may steal
// it now, or ever: when the holder has shown no sign of life for the lock's lease.
func (r *Record) HowToEnd(now, ever bool) string {
	steal := "`latchfs steal --force " + r.target() + "`"
	switch {
	case !ever:
		return "Its holder alone can release it." + findHolder(r)
	case r.Stale:
		return "The holder shows no sign of life: " + steal + " takes the lock away from it."
	case now:
		return "You may take the lock away from it: " + steal + "." + findHolder(r)
	case r.TTL <= 0:
		return "Its holder alone can release it." + findHolder(r)
	}
	return "Its holder alone can release it. When that has shown no sign of life for " + waited(r.TTL) + ", " + steal + " takes the lock away from it." + findHolder(r)
}

// target is what a command line calls the lock, in whatever directory it is typed.
func (r *Record) target() string {
	switch {
	case r.Name != "" && r.Mountpoint != "":
		return "--mount " + printable.Word(r.Mountpoint) + " --name " + printable.Word(r.Name)
	case r.Name != "":
		return "--name " + printable.Word(r.Name)
	case r.File != "":
		return printable.Word(path.Join(r.Mountpoint, r.File))
	default:
		return printable.Word(path.Join(r.Mountpoint, r.Path))
	}
}

// MarshalJSON implements json.Marshaler.
func (b Blocked) MarshalJSON() ([]byte, error) {
	stale := b.Error == LockStale
	var w printable.Writer
	w.Open("", '{')
	w.String("error", b.Error)
	w.Raw("lock_name", b.LockName)
	if stale {
		w.Time("stale_since", b.StaleSince)
		w.Float("age_seconds", b.AgeSeconds)
		w.Float("ttl_seconds", b.TTLSeconds)
	}
	w.Open("held_by", '{')
	w.String("request_id", b.HeldBy.RequestID)
	w.String("actor", b.HeldBy.Actor)
	w.String("intent", b.HeldBy.Intent)
	w.Time("created_at", b.HeldBy.CreatedAt)
	w.Time("last_heartbeat_at", b.HeldBy.LastHeartbeatAt)
	if stale {
		w.String("host_id", b.HeldBy.HostID)
		w.Int("pid", int64(b.HeldBy.PID))
	}
	w.Close('}')
	w.String("suggestion", b.Suggestion)
	w.Close('}')
	return w.Bytes(), nil
}
