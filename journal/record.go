package journal

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
)

// The kinds of intents. What has to be done about each after a crash is
// specified in journal/commit.
const (
	KindShadow  = "shadow"  // a named shadow exists; it goes if nobody finishes, unless it is Synced
	KindReplace = "replace" // a shadow has, or gets, a name and is renamed over the target
	KindInPlace = "inplace" // the target is being overwritten from a shadow that is on disk
	KindAppend  = "append"  // records are being appended to the target
	KindLazy    = "lazy"    // Dir may hold markers of commits that are not on disk

	// Those of transactions. An intent with a Txn happens if that one is decided
	// (its KindTxn is there), and is undone otherwise.
	KindTxn    = "txn"    // the transaction Txn is decided: all of it happens
	KindMade   = "made"   // Name was made for a transaction and is to go without it
	KindRemove = "remove" // Name is to be removed
)

// Intent is one change that was begun. Directories are relative to the data
// root, with "" or "." for the root itself; they and the names may hold any
// bytes that file names may hold.
type Intent struct {
	ID    uint64 // given by Begin
	Kind  string // one of the kinds above
	Token uint64 // fencing token of the session, 0 if none
	Txn   uint64 // the transaction that it is part of, 0 if none

	Dir  string // directory of the target
	Name string // the target's name in Dir

	ShadowDir string // directory of the shadow
	InState   bool   // it is the state directory, and ShadowDir means nothing
	Shadow    string // the shadow's reserved name there, unique for all time
	ShadowIno uint64 // KindReplace, or Synced: its inode, so that it can be told from what it was exchanged for
	Synced    bool   // fsync has acknowledged the shadow's bytes: they stay, if only aside
	Appears   bool   // KindShadow and Synced: the shadow gets the name Name, if nothing has that

	// Which file is overwritten, appended to, made or removed; KindReplace: the inode that is
	// replaced. KindShadow and Synced: the directory that the shadow lies in. Birth is
	// its time of birth in nanoseconds since the epoch, 0 where
	// the filesystem keeps none.
	TargetDev, TargetIno uint64
	TargetBirth          int64

	// Keep is the content id under which the replaced inode goes into the
	// history, "" if it is not kept.
	Keep string

	// KindAppend: up to where the file needs no looking at, in bytes, and which
	// boot and mount saw the file being written. Known moves Size on.
	Size  int64
	Epoch string

	// KindInPlace. Size is that of the old version, and Sums are the checksums of its
	// sectors, "" if they were not recorded: by these a recovery tells half of a commit
	// from what somebody has written since.
	Sums     string
	Meta     bool  // the shadow's extended attributes and ACLs are the target's too
	Mode     int64 // mode bits to set on the target, -1 to leave them
	UID, GID int64 // owner to give to the target, -1 to leave it
}

// text is a string of arbitrary bytes in JSON: a plain string where it is valid
// UTF-8, else {"b64":"..."}.
type text string

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
	Token       uint64 `json:"token,omitempty"`
	Txn         uint64 `json:"txn,omitempty"`
	Dir         text   `json:"dir"`
	Name        text   `json:"name"`
	ShadowDir   *text  `json:"shadow_dir,omitempty"` // missing: as dir
	InState     bool   `json:"in_state,omitempty"`
	Shadow      text   `json:"shadow"`
	ShadowIno   uint64 `json:"shadow_ino,omitempty"`
	Synced      bool   `json:"synced,omitempty"`
	Appears     bool   `json:"appears,omitempty"`
	TargetDev   uint64 `json:"target_dev,omitempty"`
	TargetIno   uint64 `json:"target_ino,omitempty"`
	TargetBirth int64  `json:"target_birth,omitempty"`
	Size        int64  `json:"size,omitempty"`
	Epoch       string `json:"epoch,omitempty"`
	Meta        bool   `json:"meta,omitempty"`
	Mode        int64  `json:"mode,omitempty"`
	UID         int64  `json:"uid,omitempty"`
	GID         int64  `json:"gid,omitempty"`
	Keep        string `json:"keep,omitempty"`
	Sums        []byte `json:"sums,omitempty"`
}

// wire is the intent as a record has it, which shares it.
func (in *Intent) wire() intentJSON {
	w := intentJSON{
		Kind: in.Kind, Token: in.Token, Txn: in.Txn, Dir: text(in.Dir), Name: text(in.Name),
		InState: in.InState, Shadow: text(in.Shadow),
		TargetDev: in.TargetDev, TargetIno: in.TargetIno, TargetBirth: in.TargetBirth,
		Meta: in.Meta, Mode: in.Mode, UID: in.UID, GID: in.GID, ShadowIno: in.ShadowIno, Keep: in.Keep,
		Size: in.Size, Epoch: in.Epoch, Synced: in.Synced, Appears: in.Appears, Sums: []byte(in.Sums),
	}
	if in.ShadowDir != in.Dir {
		w.ShadowDir = (*text)(&in.ShadowDir)
	}
	return w
}

func (x *intentJSON) intent(id uint64) Intent {
	in := Intent{
		ID: id, Kind: x.Kind, Token: x.Token, Txn: x.Txn, Dir: string(x.Dir), Name: string(x.Name),
		ShadowDir: string(x.Dir), InState: x.InState, Shadow: string(x.Shadow),
		TargetDev: x.TargetDev, TargetIno: x.TargetIno, TargetBirth: x.TargetBirth,
		Meta: x.Meta, Mode: x.Mode, UID: x.UID, GID: x.GID, ShadowIno: x.ShadowIno, Keep: x.Keep,
		Size: x.Size, Epoch: x.Epoch, Synced: x.Synced, Appears: x.Appears, Sums: string(x.Sums),
	}
	if x.ShadowDir != nil {
		in.ShadowDir = string(*x.ShadowDir)
	}
	return in
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
	At      int64       `json:"at,omitempty"`
	Len     int64       `json:"len,omitempty"`
	CRC     uint32      `json:"crc,omitempty"`
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
	tails   map[uint64][]Append // of the open intents of KindAppend
}

// apply adds one record. Its errors mean that the segment is corrupt.
func (s *state) apply(payload []byte) error {
	var r record
	if err := strict(payload, &r); err != nil {
		return foreignError("record does not decode: " + err.Error())
	}
	if s.started == (r.Op == "start") {
		return fmt.Errorf("a segment has one start record, and it comes first (found %q)", r.Op)
	}
	switch r.Op {
	case "start":
		*s = state{
			started: true, next: r.Next, tokens: r.Tokens, clean: r.Clean, running: true,
			carried: r.Carried, open: map[uint64]Intent{}, tails: map[uint64][]Append{},
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
		s.finish(r.ID)
	case "append", "known":
		return s.applyTail(r)
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
		return foreignError(fmt.Sprintf("unknown record %q", r.Op))
	}
	return nil
}

// lost says what of its beginning a segment has lost, nil if it has all of it. That was
// on disk before the segment got its name, so no crash explains it.
func (s *state) lost() error {
	switch {
	case !s.started:
		return errors.New("the beginning is missing, which was safely on disk")
	case s.carried > 0:
		return fmt.Errorf("%d intents are missing that it began with, which were safely on disk", s.carried)
	}
	return nil
}

// finish forgets an intent.
func (s *state) finish(id uint64) {
	delete(s.open, id)
	delete(s.tails, id)
}

// appendTo appends the frames that a segment with the state s begins with.
func (s *state) appendTo(b []byte) []byte {
	var payload []byte
	add := func(r record) {
		payload = r.appendTo(payload[:0])
		b = appendFrame(b, 0, payload)
	}
	add(record{Op: "start", Next: s.next, Tokens: s.tokens, Clean: s.clean, Carried: len(s.open)})
	for _, id := range slices.Sorted(maps.Keys(s.open)) {
		in := s.open[id]
		w := in.wire()
		add(record{Op: "begin", ID: id, Intent: &w})
		for _, a := range s.tails[id] {
			add(a.record(id))
		}
	}
	return b
}
