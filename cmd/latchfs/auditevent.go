package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"latchfs/fs/printable"
)

// auditEvent is a line of the audit trail.
type auditEvent struct {
	named
	author
	Timestamp time.Time `json:"timestamp"`
	Event     string    `json:"event"`

	fields map[string]any // all of it
}

// parseEvent reads a line; false if it is no event. What else is in it may be
// anything: events of later versions are shown, too.
func parseEvent(line []byte) (*auditEvent, bool) {
	e := &auditEvent{}
	dec := json.NewDecoder(bytes.NewReader(line))
	dec.UseNumber()
	if dec.Decode(&e.fields) != nil || dec.More() {
		return nil, false
	}
	// A field of another type than we know is shown and nothing else.
	_ = json.Unmarshal(line, e)
	return e, e.Event != "" && !e.Timestamp.IsZero()
}

// paths are the files that it is about.
func (e *auditEvent) paths() []string {
	var paths []string
	for _, p := range []any{e.real(), e.fields["from"], e.fields["to"]} {
		if p, ok := p.(string); ok && p != "" {
			paths = append(paths, p)
		}
	}
	return paths
}

// kind is the name of the event for a terminal.
func (e *auditEvent) kind() string { return printable.Line(e.Event) }

// subject is what it is about: a file, or the name of a lock.
func (e *auditEvent) subject() string {
	if p := e.real(); p != "" {
		return printable.Line(p)
	}
	return e.str("lock_name")
}

// eventTexts say in words what the fields of an event of each kind mean. Those of
// a kind that is not here are listed.
var eventTexts = map[string]func(*auditEvent) string{
	"auto_live":    (*auditEvent).reason,
	"bypass":       (*auditEvent).reason,
	"commit":       (*auditEvent).commitText,
	"delete":       func(e *auditEvent) string { return "deleted" + e.ofTransaction() },
	eventMakeDir:   func(e *auditEvent) string { return "directory made" + e.ofTransaction() },
	eventMakeLink:  func(e *auditEvent) string { return "symbolic link made" + e.ofTransaction() },
	eventDeleteDir: func(e *auditEvent) string { return "directory removed" + e.ofTransaction() },
	eventDeleteLink: func(e *auditEvent) string {
		return "symbolic link to " + e.str("target") + " removed" + e.ofTransaction()
	},
	"events_lost": func(e *auditEvent) string {
		return amount(e.count("count"), "event") + " could not be written since " + e.str("since") + ": " + e.str("reason")
	},
	"forget": func(e *auditEvent) string {
		return "erased: " + amount(e.count("versions"), "version") + ", " + amount(e.count("rejected"), "refused write")
	},
	"heartbeat_failed": func(*auditEvent) string { return "the holder shows no sign of life: the lock is stale" },
	"late":             (*auditEvent).reason,
	"lock_acquired":    (*auditEvent).acquiredText,
	"lock_released":    (*auditEvent).releasedText,
	"lock_stolen":      (*auditEvent).stolenText,
	"mount":            (*auditEvent).mountText,
	"not_durable":      func(e *auditEvent) string { return "NOT known to be on disk: " + e.str("reason") },
	"recovery":         (*auditEvent).recoveryText,
	"refusal":          (*auditEvent).refusalText,
	"rejected_removed": (*auditEvent).removedText,
	"rollback":         (*auditEvent).rollbackText,
	"txn_committed":    (*auditEvent).transactionText,
	"txn_rolled_back":  (*auditEvent).transactionText,
	"unmount":          func(*auditEvent) string { return "" },
}

// listedEvents are the kinds whose fields say what happened.
var listedEvents = []string{"actor", "claim_ignored", "conflict", "lost_update", "merge", "put_back"}

// text says what happened.
func (e *auditEvent) text() string {
	if text, ok := eventTexts[e.Event]; ok {
		return text(e)
	}
	return e.listed()
}

// str is a field as text for a terminal; "" if it is not there.
func (e *auditEvent) str(key string) string { return display(e.fields[key]) }

func display(v any) string {
	switch v := v.(type) {
	case nil:
		return ""
	case string:
		return printable.Line(v)
	case json.Number, bool:
		return printable.Line(fmt.Sprint(v))
	}
	b, err := json.Marshal(v)
	if err != nil {
		return "?"
	}
	return printable.Line(string(b))
}

// count is how much a field says: a number, or the length of a list.
func (e *auditEvent) count(key string) int64 {
	switch v := e.fields[key].(type) {
	case json.Number:
		n, err := v.Int64()
		if err == nil {
			return n
		}
	case []any:
		return int64(len(v))
	}
	return 0
}

// told are the fields that every line shows, or that say nothing to people.
var told = []string{"timestamp", "event", "path", "path_base64", "session", "actor", "program", "pid", "uid", "token", "reason", "lock_name", "lock_path"}

// listed is what an event of an unknown kind says.
func (e *auditEvent) listed() string {
	parts := []string{}
	if r := e.str("reason"); r != "" {
		parts = append(parts, r)
	}
	for _, key := range slices.Sorted(maps.Keys(e.fields)) {
		if !slices.Contains(told, key) {
			parts = append(parts, printable.Line(key)+"="+e.str(key))
		}
	}
	return strings.Join(parts, " ")
}

func (e *auditEvent) reason() string { return e.str("reason") }

// amount is "1 byte" or "2 bytes".
func amount(n int64, unit string) string {
	if n == 1 {
		return "1 " + unit
	}
	return fmt.Sprintf("%d %s", n, strings.Replace(unit+"s", "ys", "ies", 1))
}

// holder names a process in a field.
func (e *auditEvent) holder(key string) string {
	m, ok := e.fields[key].(map[string]any)
	if !ok {
		return ""
	}
	in := &auditEvent{fields: m}
	who := program(in.str("program"), int32(in.count("pid")))
	if op := in.str("operation"); op != "" {
		who += " for '" + op + "'"
	}
	return who
}

func (e *auditEvent) commitText() string {
	text := amount(e.count("bytes"), "byte")
	switch op := e.str("operation"); op {
	case "open", "":
	case opAppend:
		text = amount(e.count("records"), "record") + " appended, " + text
	case "rename":
		if from := e.str("from"); from != "" {
			text += ", renamed from " + from
		}
	default:
		text += " by " + op
	}
	text += e.ofTransaction()
	if why := e.str("not_durable"); why != "" {
		text += ", NOT known to be on disk: " + why
	}
	return text
}

// ofTransaction names the transaction that an event is part of.
func (e *auditEvent) ofTransaction() string {
	if t := e.str("transaction"); t != "" {
		return ", in transaction " + t
	}
	return ""
}

func (e *auditEvent) transactionText() string {
	text := "transaction " + e.str("transaction")
	if r := e.str("reason"); r != "" {
		text += ": " + r
	}
	return text
}

func (e *auditEvent) rollbackText() string {
	text := cmp.Or(e.str("reason"), "rolled back")
	if errno := e.str("errno"); errno != "" {
		text += " (" + errno + ")"
	}
	if id := e.str("kept"); id != "" {
		return text + "; kept as " + id
	}
	return text + "; nothing was kept"
}

func (e *auditEvent) refusalText() string {
	text := cmp.Or(e.str("operation"), "operation") + " refused with " + cmp.Or(e.str("errno"), "an error")
	if r := e.str("reason"); r != "" {
		text += ": " + r
	}
	if who := e.holder("held_by"); who != "" {
		text += ", held by " + who
	}
	return text
}

func (e *auditEvent) acquiredText() string {
	var parts []string
	if op := e.str("operation"); op != "" {
		parts = append(parts, "for '"+op+"'")
	}
	if ttl := e.count("ttl_seconds"); ttl > 0 {
		parts = append(parts, "with a lease of "+(time.Duration(ttl)*time.Second).String())
	}
	return strings.Join(parts, " ")
}

func (e *auditEvent) releasedText() string {
	if held := e.str("held_duration_seconds"); held != "" {
		return "after " + held + "s"
	}
	return ""
}

func (e *auditEvent) stolenText() string {
	text := "stolen"
	if by := e.holder("stolen_by"); by != "" {
		text += " by " + by
	}
	if e.str("reason") == "active_lock_forced" {
		return text + ", though its holder was active"
	}
	return text + ": the holder had shown no sign of life for longer than its lease"
}

func (e *auditEvent) mountText() string {
	return "at " + e.str("mountpoint") + ", latchfs " + e.str("version")
}

func (e *auditEvent) recoveryText() string {
	if r := e.str("reason"); r != "" {
		if id := e.str("kept"); id != "" {
			r += "; kept as " + id
		}
		return r
	}
	return e.counted([][2]string{
		{"undone", "replacement undone|replacements undone"}, {"redone", "commit in place finished|commits in place finished"},
		{"cut", "unfinished record cut off|unfinished records cut off"},
		{"removed", "orphaned shadow removed|orphaned shadows removed"}, {"salvaged", "kept aside|kept aside"},
	})
}

func (e *auditEvent) removedText() string {
	return amount(e.count("removed"), "entry") + " with " + amount(e.count("bytes"), "byte") + ": " + e.counted([][2]string{
		{"too_old", "too old|too old"}, {"too_many_bytes", "over the limit|over the limit"},
		{"disk_full", "given up on a full disk|given up on a full disk"}, {"half_removed", "half removed before|half removed before"},
	})
}

// counted says of which there were how many: pairs of a field and of words for one
// and for more.
func (e *auditEvent) counted(of [][2]string) string {
	var parts []string
	for _, x := range of {
		one, more, _ := strings.Cut(x[1], "|")
		switch n := e.count(x[0]); n {
		case 0:
		case 1:
			parts = append(parts, "1 "+one)
		default:
			parts = append(parts, fmt.Sprintf("%d %s", n, more))
		}
	}
	return strings.Join(parts, ", ")
}
