package main

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"latchfs/fs/control"
	"latchfs/fs/printable"
	"latchfs/fs/report"
)

// lockRecord is what status.json says about one lock (SEED W8).
type lockRecord struct {
	LockName string `json:"lock_name"`
	// LockNameBase64 is there when LockName is not the name itself but its
	// displayed form.
	LockNameBase64 string      `json:"lock_name_base64"`
	Locked         *bool       `json:"locked"`
	IsStale        bool        `json:"is_stale"`
	StaleReason    string      `json:"stale_reason"`
	WeHoldIt       bool        `json:"we_hold_it"`
	Holder         *lockHolder `json:"holder"`
}

// lockHolder is the lock/v1 record in it (SEED T3), as far as the commands
// need it.
type lockHolder struct {
	control.HeldBy
	Operation  string  `json:"operation"`
	Mode       string  `json:"mode"`
	Session    string  `json:"session"`
	TTLSeconds float64 `json:"ttl_seconds"`
	Metadata   struct {
		Program string `json:"program"`
	} `json:"metadata"`
}

// name is the lock's name for a terminal.
func (r *lockRecord) name() string {
	if r.LockNameBase64 != "" {
		return r.LockName
	}
	return printable.Line(cmp.Or(r.LockName, "."))
}

// who names the holder as .locks/status does: "python3[4711] as agent-7".
func (h *lockHolder) who() string {
	owner := report.Record{Asker: report.Asker{Program: h.Metadata.Program, Owner: report.Process{PID: h.PID}}}
	if h.Actor == "" || h.Actor == h.Metadata.Program {
		return owner.Who()
	}
	return owner.Who() + " as " + printable.Line(h.Actor)
}

// held says by whom and for what a lock is held, in the words of SEED W7.
func (h *lockHolder) held() string {
	who := h.who()
	if h.Session != "" {
		who = "session '" + printable.Line(h.Session) + "' of " + who
	}
	if h.Operation != "" {
		who += " for operation '" + printable.Line(h.Operation) + "'"
	}
	return who + ", since " + localTime(h.CreatedAt)
}

// describe is the line of `latchfs check` about one lock, after its name.
func (r *lockRecord) describe() string {
	if !*r.Locked {
		return "free"
	}
	s := "locked by " + r.Holder.held()
	if m := r.Holder.Mode; m != "" && m != "exclusive" {
		s += ", " + printable.Line(m)
	}
	if r.IsStale {
		s += ", STALE"
		if r.StaleReason != "" {
			s += ": " + printable.Line(r.StaleReason)
		}
	}
	if r.WeHoldIt {
		s += " (our own)"
	}
	return s
}

// heartbeat is what the table says about the lease: nothing without one.
func (r *lockRecord) heartbeat() string {
	switch {
	case r.IsStale:
		if t, err := expiry(&r.Holder.HeldBy, r.Holder.TTLSeconds); err == nil {
			return "STALE since " + t.Local().Format(time.DateTime)
		}
		return "STALE"
	case r.Holder.TTLSeconds == 0:
		return "-"
	default:
		return localTime(r.Holder.LastHeartbeatAt)
	}
}

// refusal is why a lock is not stolen unasked: it is stale and could be
// (SEED T7), or it is not and will not be (SEED T5, T8).
func (r *lockRecord) refusal(name string, now time.Time) *control.Refusal {
	h := r.Holder
	no := &control.Refusal{LockName: r.LockName, HeldBy: &h.HeldBy, TTLSeconds: &h.TTLSeconds}
	if !r.IsStale {
		no.Error = control.Blocked
		no.Message = fmt.Sprintf("The lock on %s is active, and no active lock is stolen\nHeld by %s; %s", name, h.held(), leaseEnd(&h.HeldBy, &h.TTLSeconds))
		no.Suggestion = "It ends with its holder, or when that is done"
		if h.PID != 0 {
			no.Suggestion += fmt.Sprintf(": `ps -fp %d` shows it", h.PID)
		}
		no.Suggestion += ". With --force, root and the owner of the files end active locks of other users."
		return no
	}
	no.Error = control.Stale
	no.Message = fmt.Sprintf("The lock on %s is stale: %s\nHeld by %s",
		name, cmp.Or(printable.Line(r.StaleReason), "its lease has expired"), h.held())
	no.Suggestion = "The same command with --force ends it."
	if t, err := expiry(&h.HeldBy, h.TTLSeconds); err == nil {
		age := now.Sub(t).Round(time.Millisecond).Seconds() + h.TTLSeconds
		no.AgeSeconds = &age
		no.StaleSince = t.UTC().Format(time.RFC3339)
	}
	return no
}

// leaseEnd says until when an active lock cannot be stolen.
func leaseEnd(h *control.HeldBy, ttl *float64) string {
	switch {
	case ttl == nil:
		return "its lease has not expired"
	case *ttl == 0:
		return "it has no lease that could expire"
	}
	t, err := expiry(h, *ttl)
	if err != nil {
		return "its lease has not expired"
	}
	return "its lease runs until " + t.Local().Format(time.DateTime) + ", longer if the holder shows life"
}

// expiry is when a lease of ttl seconds ends, or ended, without another sign of
// life.
func expiry(h *control.HeldBy, ttl float64) (time.Time, error) {
	seen, err := time.Parse(time.RFC3339, h.LastHeartbeatAt)
	return seen.Add(time.Duration(ttl * float64(time.Second))), err
}

// localTime writes a time of a record for people.
func localTime(stamp string) string {
	t, err := time.Parse(time.RFC3339, stamp)
	if err != nil {
		return cmp.Or(printable.Line(stamp), "?")
	}
	return t.Local().Format(time.DateTime)
}

// orDash fills an empty column.
func orDash(s string) string {
	return cmp.Or(strings.TrimSpace(printable.Line(s)), "-")
}
