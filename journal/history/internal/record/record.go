// Package record is the language of the history's log: what its records say, and how they
// are written. It does no I/O, and what the records add up to it does not know.
//
// A record is one JSON object, without spaces, its fields in the order of Record and only
// those that are not zero, but for op and path. A name, which may be any bytes, is a string
// where it is valid UTF-8, else an array with the base64 of the bytes. So:
//
//	{"op":"version","path":"a/f","version":2,"time":…,"base":1,"event":"commit","content":"…",…}
//	{"op":"state","path":"a/f","ino":7,"bytes":12,"mtime":…}   the last version's file is so now
//	{"op":"move","path":"a","to":"b"}                          a directory was renamed
//	{"op":"exchange","path":"a","to":"b"}                      two have changed places
//	{"op":"forget","path":"b/f"}                               a path was dropped whole
//	{"op":"reach","path":"","content":"…","dirs":[[0,7,488]]}  who could reach a content
//
// Records with unknown fields, operations or events are refused, and so are those that miss
// what their operation needs: a history that does not know all that is said is to change
// nothing. Other spellings of the same JSON are read, but slowly.
package record

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
)

// The operations of log records.
const (
	OpVersion  = "version"  // a version was made
	OpState    = "state"    // the last version's state, as it is now
	OpMove     = "move"     // a directory was renamed, and all paths below it
	OpExchange = "exchange" // two directories changed places
	OpForget   = "forget"   // a path was dropped whole
	OpReach    = "reach"    // who could reach a content when it was kept
)

// The events of a version; see the history's own of these names.
const (
	EventCommit     = "commit"
	EventFound      = "found"
	EventDelete     = "delete"
	EventRenameAway = "rename-away"
)

// Record is one record of the log. Which fields a record has depends on its operation.
type Record struct {
	Op   string `json:"op"`
	Path Name   `json:"path"`
	To   *Name  `json:"to,omitempty"`
	From *Name  `json:"from,omitempty"`

	Number    uint64 `json:"version,omitempty"`
	Time      int64  `json:"time,omitempty"` // ns
	Base      uint64 `json:"base,omitempty"`
	Event     string `json:"event,omitempty"`
	Operation string `json:"operation,omitempty"`
	Actor     string `json:"actor,omitempty"`
	Program   string `json:"program,omitempty"`
	Session   string `json:"session,omitempty"`
	PID       int32  `json:"pid,omitempty"`
	UID       uint32 `json:"uid,omitempty"`
	Token     uint64 `json:"token,omitempty"`
	Content   string `json:"content,omitempty"`

	Ino   uint64 `json:"ino,omitempty"`
	Size  int64  `json:"bytes,omitempty"`
	Mtime int64  `json:"mtime,omitempty"` // ns
	Loose bool   `json:"loose,omitempty"` // OpState: size and mtime are in flux

	FileUID uint32 `json:"file_uid,omitempty"`
	FileGID uint32 `json:"file_gid,omitempty"`
	Mode    uint32 `json:"mode,omitempty"`
	ACL     bool   `json:"acl,omitempty"`

	Dirs [][3]uint32 `json:"dirs,omitempty"` // OpReach: owner, group, mode
}

// Name is a string of arbitrary bytes in JSON: a plain string where it is valid
// UTF-8, else an array with the base64 of the bytes.
type Name string

// UnmarshalJSON implements json.Unmarshaler.
func (r *Name) UnmarshalJSON(b []byte) error {
	if len(b) == 0 || b[0] != '[' {
		return json.Unmarshal(b, (*string)(r))
	}
	var bytes [1][]byte
	err := json.Unmarshal(b, &bytes)
	*r = Name(bytes[0])
	return err
}

// Optional is a name for a field that a record need not have: nil for "".
func Optional(s string) *Name {
	if s == "" {
		return nil
	}
	r := Name(s) // of its own: what has none allocates nothing
	return &r
}

// String is the name, "" if there is none.
func (r *Name) String() string {
	if r == nil {
		return ""
	}
	return string(*r)
}

// Decode reads a record, which may hold nothing unknown.
func Decode(b []byte) (Record, error) {
	var r Record
	if Parse(b, &r) {
		return r, r.check()
	}
	return decodeAny(b)
}

// decodeAny is Decode for a record that has another form than Encode gives it.
func decodeAny(b []byte) (Record, error) {
	var r Record
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(&r); err != nil {
		return r, fmt.Errorf("record does not decode: %w", err)
	}
	if d.InputOffset() != int64(len(b)) {
		return r, errors.New("more than one value in a record")
	}
	return r, r.check()
}

func (r *Record) check() error {
	switch r.Op {
	case OpVersion:
		switch r.Event {
		case EventCommit, EventFound:
			if !IsContentID(r.Content) {
				return fmt.Errorf("bad content id %q", r.Content)
			}
		case EventDelete, EventRenameAway:
			if r.Content != "" {
				return errors.New("content of a version that is no file")
			}
		default:
			return fmt.Errorf("unknown event %q", r.Event)
		}
		if r.Number == 0 {
			return errors.New("version 0")
		}
	case OpState:
		if r.Content != "" && !IsContentID(r.Content) {
			return fmt.Errorf("bad content id %q", r.Content)
		}
	case OpReach:
		if !IsContentID(r.Content) {
			return fmt.Errorf("bad content id %q", r.Content)
		}
	case OpForget:
	case OpMove, OpExchange:
		if r.To == nil || r.Path == "" {
			return errors.New("a directory is moved from or to nowhere")
		}
	default:
		return fmt.Errorf("unknown record %q", r.Op)
	}
	return nil
}

// IsContentID reports whether id has the form of a content id: 32 lower-case
// hexadecimal digits.
func IsContentID(id string) bool {
	if len(id) != 32 {
		return false
	}
	for _, c := range []byte(id) {
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}
