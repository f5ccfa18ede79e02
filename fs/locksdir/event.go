package locksdir

import (
	"encoding/base64"
	"encoding/json"
	"slices"

	"latchfs/fs/printable"
	"latchfs/fs/report"
)

// verdict is what a viewer may see of an event.
type verdict uint8

const (
	eventShown verdict = 1 << iota // anything at all
	eventOwn                       // it is the viewer's own
	eventFrom                      // the path in "from", likewise below
	eventTo
	eventSource
)

// eventPaths are the fields besides path that hold a path of their own.
var eventPaths = map[string]verdict{"from": eventFrom, "to": eventTo, "source": eventSource}

// strangersFields are what others than its user see of an event: what happened to the
// file, and which process of which user did it. Labels, reasons, which may name other
// files, sums of contents, and records of others are not among them; a field of a later
// version is not, either.
var strangersFields = []string{
	"base", "bytes", "changed_by", "count", "current", "cut", "errno", "event", "file_gid", "file_uid", "from",
	"held_by", "held_duration_seconds", "kind", "lock_name", "lock_path", "mode", "mountpoint", "operation",
	"path", "path_base64", "pid", "program", "read_at", "read_by", "records", "redone", "rejected", "removed", "request_id",
	"result", "session", "since", "stolen_by", "target", "target_base64", "timestamp", "to", "token", "transaction",
	"ttl_seconds", "uid", "undone", "version", "versions", "waited_seconds",
}

// processFields are what anybody sees of a process that an event names.
var processFields = []string{"operation", "pid", "program", "session", "uid"}

// processes are the fields that name another process than the event's own.
var processes = []string{"changed_by", "held_by", "stolen_by"}

// plainReasons are the events whose reason latchfs words without naming anybody.
var plainReasons = []string{"auto_live", "bypass", "events_lost", "not_durable", "put_back", "recovery"}

type eventFields map[string]json.RawMessage

func (m eventFields) str(key string) string {
	var s string
	if json.Unmarshal(m[key], &s) != nil {
		return ""
	}
	return s
}

// path is the path that the event is about.
func (m eventFields) path() string {
	if b, err := base64.StdEncoding.DecodeString(m.str("path_base64")); err == nil && len(b) > 0 {
		return string(b)
	}
	return m.str("path")
}

// nobodysUID is no user's: see setreuid(2).
const nobodysUID = ^uint32(0)

func (m eventFields) uid() uint32 {
	uid := nobodysUID
	if json.Unmarshal(m["uid"], &uid) != nil {
		return nobodysUID
	}
	return uid
}

// judge decides what a viewer may see of a line, and renders it.
func judge(line []byte, v report.Viewer, sight report.Sight) (verdict, []byte) {
	var m eventFields
	if json.Unmarshal(line, &m) != nil || m == nil {
		return 0, nil
	}
	d, uid := eventShown, m.uid()
	if uid == v.UID {
		d |= eventOwn
	}
	if path := m.path(); path != "" && !sight.Sees(path, uid) {
		return 0, nil
	}
	for key, bit := range eventPaths {
		if path := m.str(key); path != "" && sight.Sees(path, uid) {
			d |= bit
		}
	}
	return d, d.renderFields(m)
}

// render renders a line of which that was decided.
func (d verdict) render(line []byte) []byte {
	var m eventFields
	if d&eventShown == 0 || json.Unmarshal(line, &m) != nil {
		return nil
	}
	return d.renderFields(m)
}

func (d verdict) renderFields(m eventFields) []byte {
	reasons := slices.Contains(plainReasons, m.str("event"))
	for key, value := range m {
		bit, isPath := eventPaths[key]
		isPath = isPath && len(value) > 0 && value[0] == '"'
		switch {
		case isPath && d&bit == 0:
			delete(m, key)
		case slices.Contains(processes, key):
			m[key] = processOnly(value)
		case key == "reason":
			// A deadlock's names what the others in the circle wait for.
			if d&eventOwn == 0 && !reasons || m.str("errno") == "EDEADLK" {
				delete(m, key)
			}
		case d&eventOwn != 0:
		case !slices.Contains(strangersFields, key) || len(value) > 0 && (value[0] == '{' || value[0] == '['):
			delete(m, key)
		}
	}
	b, err := json.Marshal(m)
	if err != nil {
		return nil
	}
	return append(printable.JSON(b), '\n')
}

// processOnly is what anybody sees of a process that an event names.
func processOnly(value json.RawMessage) json.RawMessage {
	var m eventFields
	if json.Unmarshal(value, &m) != nil {
		return json.RawMessage("null")
	}
	for key := range m {
		if !slices.Contains(processFields, key) {
			delete(m, key)
		}
	}
	b, err := json.Marshal(m)
	if err != nil {
		return json.RawMessage("null")
	}
	return b
}
