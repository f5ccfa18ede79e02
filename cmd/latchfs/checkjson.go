package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"time"

	"github.com/spf13/cobra"
)

// printChecked prints the answer about each label: one object, on a line of its own.
func (s *selectors) printChecked(cmd *cobra.Command, a *answer, records []lockRecord, files []string) error {
	if a.Warning != "" {
		warn(cmd, "%s", a.Warning)
	}
	labels := s.labels(files)
	for i := range records {
		object, err := records[i].checked(a.Locks[i], labels[i], time.Now())
		if err != nil {
			return err
		}
		if len(records) == 1 && !*records[i].Locked {
			object = map[string]any{"locked": false} // SEED W8
		}
		if err := printJSON(cmd.OutOrStdout(), object); err != nil {
			return err
		}
	}
	return nil
}

// checked is the answer about one lock in the words of SEED W8, of which the record in
// raw has most. The holder has the names of SEED W2 beside those of the lock/v1 record,
// and of a stale lock there is the object of SEED T7 as well.
func (r *lockRecord) checked(raw json.RawMessage, name string, now time.Time) (map[string]any, error) {
	object := map[string]any{}
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber() // a token is more than a float holds
	if err := dec.Decode(&object); err != nil || !*r.Locked {
		return object, err
	}
	holder, ok := object["holder"].(map[string]any)
	if !ok {
		return nil, errors.New("the reply cannot be read: it does not say by whom something is locked")
	}
	holder["session_id"], holder["acquired_at"], holder["hostname"] = r.Holder.sessionID(), r.Holder.CreatedAt, r.Holder.HostID
	object["is_stale"], object["we_hold_it"], object["stale_reason"] = r.IsStale, r.WeHoldIt, nil
	if held, ok := object["age_seconds"]; ok { // of the lock, while that of T7 is of its heartbeat
		object["held_seconds"] = held
		delete(object, "age_seconds")
	}
	if !r.IsStale {
		return object, nil
	}
	object["stale_reason"] = r.StaleReason
	no := r.refusal(name, now)
	object["error"], object["held_by"], object["ttl_seconds"] = no.Error, no.HeldBy, no.TTLSeconds
	object["suggestion"] = "`latchfs steal --force` with the same arguments ends it."
	if no.AgeSeconds != nil {
		object["stale_since"], object["age_seconds"] = no.StaleSince, *no.AgeSeconds
	}
	return object, nil
}

// sessionID is the label that the holder has given itself (SEED W11), or else the id of
// its session.
func (h *lockHolder) sessionID() string {
	switch {
	case h.Actor != "" && h.Actor != h.Metadata.Program:
		return h.Actor
	case h.Session != "":
		return h.Session
	}
	return h.RequestID
}
