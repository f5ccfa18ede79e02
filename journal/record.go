package journal

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"unicode/utf8"
)

// The kinds of intents. What has to be done about each after a crash is
// specified in journal/commit.
const (
	KindShadow  = "shadow"  // a named shadow exists; it goes if nobody finishes
	KindReplace = "replace" // a shadow has, or gets, a name and is renamed over the target
	KindInPlace = "inplace" // the target is being overwritten from a shadow that is on disk
)

// Intent is one change that was begun. Dir is relative to the data root, with
// "" or "." for the root itself; Dir, Name and Shadow may hold any bytes that
// file names may hold.
type Intent struct {
	ID      uint64 // given by Begin
	Kind    string // KindShadow, KindReplace or KindInPlace
	Dir     string // directory of the target
	Name    string // the target's name in Dir
	Shadow  string // the shadow's reserved name, in Dir
	InState bool   // the shadow lies in the state directory instead of Dir
	Token   uint64 // fencing token of the session, 0 if none

	// The inode of the shadow, so that recovery never takes another file for it.
	ShadowIno uint64
	// KindInPlace: which file is overwritten. Birth is its time of birth in
	// nanoseconds since the epoch, 0 where the filesystem keeps none.
	TargetDev, TargetIno uint64
	TargetBirth          int64
	// KindInPlace: the shadow's owner, attributes and ACLs belong to the
	// target too, not only its bytes, mode bits and times.
	Meta bool
	// KindInPlace: mode bits to set on the target, -1 to leave them.
	Mode int64
}

// text is a string of arbitrary bytes in JSON: a plain string where it is valid
// UTF-8, else {"b64":"..."}.
type text string

func (t text) MarshalJSON() ([]byte, error) {
	if utf8.ValidString(string(t)) {
		return json.Marshal(string(t))
	}
	return json.Marshal(struct {
		B64 []byte `json:"b64"`
	}{[]byte(t)})
}

func (t *text) UnmarshalJSON(b []byte) error {
	if len(b) > 0 && b[0] == '{' {
		var raw struct {
			B64 []byte `json:"b64"`
		}
		err := strict(b, &raw)
		*t = text(raw.B64)
		return err
	}
	return json.Unmarshal(b, (*string)(t))
}

// intentJSON is Intent as it stands in a record.
type intentJSON struct {
	Kind        string `json:"kind"`
	Dir         text   `json:"dir"`
	Name        text   `json:"name"`
	Shadow      text   `json:"shadow"`
	InState     bool   `json:"in_state,omitempty"`
	Token       uint64 `json:"token,omitempty"`
	ShadowIno   uint64 `json:"shadow_ino,omitempty"`
	TargetDev   uint64 `json:"target_dev,omitempty"`
	TargetIno   uint64 `json:"target_ino,omitempty"`
	TargetBirth int64  `json:"target_birth,omitempty"`
	Meta        bool   `json:"meta,omitempty"`
	Mode        int64  `json:"mode,omitempty"`
}

func (in Intent) wire() *intentJSON {
	return &intentJSON{
		Kind: in.Kind, Dir: text(in.Dir), Name: text(in.Name), Shadow: text(in.Shadow),
		InState: in.InState, Token: in.Token, ShadowIno: in.ShadowIno,
		TargetDev: in.TargetDev, TargetIno: in.TargetIno, TargetBirth: in.TargetBirth,
		Meta: in.Meta, Mode: in.Mode,
	}
}

func (w *intentJSON) intent(id uint64) Intent {
	return Intent{
		ID: id, Kind: w.Kind, Dir: string(w.Dir), Name: string(w.Name), Shadow: string(w.Shadow),
		InState: w.InState, Token: w.Token, ShadowIno: w.ShadowIno,
		TargetDev: w.TargetDev, TargetIno: w.TargetIno, TargetBirth: w.TargetBirth,
		Meta: w.Meta, Mode: w.Mode,
	}
}

// record is the payload of a frame.
type record struct {
	Op      string      `json:"op"`
	ID      uint64      `json:"id,omitempty"`
	Intent  *intentJSON `json:"intent,omitempty"`
	Next    uint64      `json:"next,omitempty"`
	Tokens  uint64      `json:"tokens,omitempty"`
	Clean   bool        `json:"clean,omitempty"`
	Carried int         `json:"carried,omitempty"`
}

func (r record) encode() []byte {
	if r.Op == "done" { // the most frequent one, by hand
		return append(strconv.AppendUint([]byte(`{"op":"done","id":`), r.ID, 10), '}')
	}
	b, err := json.Marshal(r)
	if err != nil {
		panic(fmt.Sprintf("journal: record does not encode: %v", err)) // plain data always does
	}
	return b
}

// strict decodes JSON that may hold nothing but what v knows.
func strict(b []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		return err
	}
	if d.InputOffset() != int64(len(b)) {
		return errors.New("more than one value")
	}
	return nil
}

// state is what the records of a segment add up to.
type state struct {
	started bool
	next    uint64 // the next intent's ID
	tokens  uint64 // the highest fencing token that may be in use
	clean   bool   // nothing is left over from an unclean stop
	running bool   // no "close" has come yet
	carried int    // intents of the start record that have not come yet
	open    map[uint64]Intent
}

// apply adds one record. Its errors mean that the segment is corrupt.
func (s *state) apply(payload []byte) error {
	var r record
	if err := strict(payload, &r); err != nil {
		return fmt.Errorf("record does not decode: %w", err)
	}
	if s.started == (r.Op == "start") {
		return fmt.Errorf("a segment has one start record, and it comes first (found %q)", r.Op)
	}
	switch r.Op {
	case "start":
		*s = state{
			started: true, next: r.Next, tokens: r.Tokens, clean: r.Clean, running: true,
			carried: r.Carried, open: map[uint64]Intent{},
		}
	case "begin":
		if r.Intent == nil || r.ID == 0 {
			return errors.New("begin record without an intent")
		}
		if _, twice := s.open[r.ID]; twice {
			return fmt.Errorf("intent %d begins twice", r.ID)
		}
		s.open[r.ID] = r.Intent.intent(r.ID)
		s.next = max(s.next, r.ID+1)
		s.carried = max(s.carried-1, 0)
	case "done":
		if _, ok := s.open[r.ID]; !ok {
			return fmt.Errorf("done record for intent %d, which is not open", r.ID)
		}
		delete(s.open, r.ID)
	case "tokens":
		if r.Tokens < s.tokens {
			return fmt.Errorf("fencing tokens fall from %d to %d", s.tokens, r.Tokens)
		}
		s.tokens = r.Tokens
	case "settled":
		s.clean = true
	case "close":
		s.running = false
	default:
		return fmt.Errorf("unknown record %q", r.Op)
	}
	return nil
}

// appendTo appends the frames that a segment with the state s begins with.
func (s *state) appendTo(b []byte) []byte {
	add := func(r record) { b = appendFrame(b, 0, r.encode()) }
	add(record{Op: "start", Next: s.next, Tokens: s.tokens, Clean: s.clean, Carried: len(s.open)})
	for _, id := range slices.Sorted(maps.Keys(s.open)) {
		in := s.open[id]
		add(record{Op: "begin", ID: id, Intent: in.wire()})
	}
	return b
}
