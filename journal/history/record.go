package history

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// The operations of log records.
const (
	opVersion  = "version"  // a version was made
	opState    = "state"    // the last version's state, as it is now
	opMove     = "move"     // a directory was renamed, and all paths below it
	opExchange = "exchange" // two directories changed places
	opForget   = "forget"   // a path was dropped whole
	opReach    = "reach"    // who could reach a content when it was kept
)

// record is one record of the log.
type record struct {
	Op   string `json:"op"`
	Path raw    `json:"path"`
	To   *raw   `json:"to,omitempty"`
	From *raw   `json:"from,omitempty"`

	Number    uint64 `json:"version,omitempty"`
	Time      int64  `json:"time,omitempty"` // ns
	Base      uint64 `json:"base,omitempty"`
	Event     Event  `json:"event,omitempty"`
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
	Loose bool   `json:"loose,omitempty"` // opState: size and mtime are in flux

	FileUID uint32 `json:"file_uid,omitempty"`
	FileGID uint32 `json:"file_gid,omitempty"`
	Mode    uint32 `json:"mode,omitempty"`
	ACL     bool   `json:"acl,omitempty"`

	Dirs [][3]uint32 `json:"dirs,omitempty"` // opReach: owner, group, mode
}

// raw is a string of arbitrary bytes in JSON: a plain string where it is valid
// UTF-8, else an array with the base64 of the bytes.
type raw string

// UnmarshalJSON implements json.Unmarshaler.
func (r *raw) UnmarshalJSON(b []byte) error {
	if len(b) == 0 || b[0] != '[' {
		return json.Unmarshal(b, (*string)(r))
	}
	var bytes [1][]byte
	err := json.Unmarshal(b, &bytes)
	*r = raw(bytes[0])
	return err
}

func rawPtr(s string) *raw {
	if s == "" {
		return nil
	}
	r := raw(s) // of its own: what has none allocates nothing
	return &r
}

func (r *raw) string() string {
	if r == nil {
		return ""
	}
	return string(*r)
}

func recordOf(v *Version) record {
	return record{
		Op: opVersion, Path: raw(v.Path), To: rawPtr(v.To), From: rawPtr(v.From),
		Number: v.Number, Time: v.Time.UnixNano(), Base: v.Base, Event: v.Event,
		Operation: v.Operation, Actor: v.Actor, Program: v.Program, Session: v.Session,
		PID: v.PID, UID: v.UID, Token: v.Token, Content: v.Content,
		Ino: v.State.Ino, Size: v.State.Size, Mtime: v.State.Mtime,
		FileUID: v.Rights.UID, FileGID: v.Rights.GID, Mode: v.Rights.Mode, ACL: v.Rights.ACL,
	}
}

func (r *record) version() Version {
	return Version{
		Path: string(r.Path), To: r.To.string(), From: r.From.string(),
		Number: r.Number, Time: time.Unix(0, r.Time).UTC(), Base: r.Base, Event: r.Event,
		Operation: r.Operation, Actor: r.Actor, Program: r.Program, Session: r.Session,
		PID: r.PID, UID: r.UID, Token: r.Token, Content: r.Content,
		State:  r.state(),
		Rights: Rights{UID: r.FileUID, GID: r.FileGID, Mode: r.Mode, ACL: r.ACL},
	}
}

func (r *record) state() State { return State{Ino: r.Ino, Size: r.Size, Mtime: r.Mtime} }

// user is in whose share a version counts: who made it. What was found, or was made by
// root, counts for the file's owner.
func (r *record) user() uint32 {
	if r.UID != 0 {
		return r.UID
	}
	return r.FileUID
}

// decode reads a record, which may hold nothing unknown.
func decode(b []byte) (record, error) {
	var r record
	if parse(b, &r) {
		return r, r.check()
	}
	return decodeAny(b)
}

// decodeAny is decode for a record that has another form than encode gives it.
func decodeAny(b []byte) (record, error) {
	var r record
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

func (r *record) check() error {
	switch r.Op {
	case opVersion:
		switch r.Event {
		case Commit, Found:
			if !IsContentID(r.Content) {
				return fmt.Errorf("bad content id %q", r.Content)
			}
		case Delete, RenameAway:
			if r.Content != "" {
				return errors.New("content of a version that is no file")
			}
		default:
			return fmt.Errorf("unknown event %q", r.Event)
		}
		if r.Number == 0 {
			return errors.New("version 0")
		}
	case opState:
		if r.Content != "" && !IsContentID(r.Content) {
			return fmt.Errorf("bad content id %q", r.Content)
		}
	case opReach:
		if !IsContentID(r.Content) {
			return fmt.Errorf("bad content id %q", r.Content)
		}
	case opForget:
	case opMove, opExchange:
		if r.To == nil || r.Path == "" {
			return errors.New("a directory is moved from or to nowhere")
		}
	default:
		return fmt.Errorf("unknown record %q", r.Op)
	}
	return nil
}
