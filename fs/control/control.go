package control

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// MaxLine is the longest request, in bytes, with its newline.
const MaxLine = 1 << 20

// MaxLabel is the length of the longest label of a request or a process, in bytes: it
// is written down for people with everything that the lock or the process does.
const MaxLabel = 256

// SessionEnv names the environment variable by which a process that is no
// descendant of a holder (started by a job server, in a container) says whose
// heir it is: the value is the id of the lock.
const SessionEnv = "LATCHFS_SESSION"

// The operations.
const (
	Acquire  = "acquire"
	Release  = "release"
	Check    = "check"
	List     = "list"
	Steal    = "steal"
	Commit   = "commit"
	Rollback = "rollback"
	Label    = "label"
	Forget   = "forget"
	Pin      = "pin"
	Unpin    = "unpin"
)

// What "error" says in a refusal.
const (
	Blocked     = "lock_blocked"
	Stale       = "lock_stale"
	Deadlock    = "deadlock"
	Fenced      = "fenced"
	NotHolder   = "not_holder"
	NoSuchLock  = "no_such_lock"
	Invalid     = "invalid"
	NotAllowed  = "not_allowed"
	NotKept     = "not_kept"
	Refused     = "transaction_refused"
	Unavailable = "unavailable"
	// Of forget: there is no such earlier version, or content is kept that it does not reach.
	NoSuchVersion = "no_such_version"
	StillKept     = "still_kept"
)

// Duration is a time span, written as in time.ParseDuration ("30s", "0s") or as
// "forever".
type Duration time.Duration

// Forever is a wait without end.
const Forever = Duration(-1)

// MarshalJSON writes the duration as a string.
func (d Duration) MarshalJSON() ([]byte, error) {
	if d < 0 {
		return []byte(`"forever"`), nil
	}
	return json.Marshal(time.Duration(d).String())
}

// UnmarshalJSON reads what MarshalJSON writes, and nothing negative.
func (d *Duration) UnmarshalJSON(b []byte) error {
	var s string
	if err := json.Unmarshal(b, &s); err != nil {
		return errors.New(`a duration is a string as in "30s", "0s" or "forever"`)
	}
	if s == "forever" {
		*d = Forever
		return nil
	}
	v, err := time.ParseDuration(s)
	if err != nil || v < 0 {
		return fmt.Errorf(`bad duration %q: it is written as in "30s", "0s" or "forever"`, s)
	}
	*d = Duration(v)
	return nil
}

// Request is one line written to the control file. Fields that an operation
// does not know are ignored.
type Request struct {
	Op string `json:"op"`
	// ID comes back in the reply.
	ID string `json:"id,omitempty"`

	Paths []string `json:"paths,omitempty"`
	// PathsBase64 are more of them, which need not be UTF-8. Parse appends them to Paths.
	// Only forget knows them: what is locked by name has a name that JSON can tell.
	PathsBase64 [][]byte `json:"paths_base64,omitempty"`
	Trees       []string `json:"trees,omitempty"`
	Names       []string `json:"names,omitempty"`
	// Lock is the id of a lock, from the reply to its acquire.
	Lock string `json:"lock,omitempty"`
	// All releases everything that the conversation or the holder has.
	All bool `json:"all,omitempty"`

	// Mode is "exclusive" (the default), "update" or "shared".
	Mode string `json:"mode,omitempty"`
	// Wait is how long to queue; without it the policy's wait for the first
	// path holds.
	Wait *Duration `json:"wait,omitempty"`
	// TTL is the lease; without it the policy's for the first path holds. "0s"
	// is a lock that never goes stale.
	TTL *Duration `json:"ttl,omitempty"`
	// Operation says what the lock is for, Actor who takes it: labels for
	// people. The operation label gives Actor to a process.
	Operation string `json:"operation,omitempty"`
	Actor     string `json:"actor,omitempty"`
	// Holder is the process to which the lock belongs: the requester's or an
	// ancestor's id, as the requester's pid namespace has it. 0: whoever opened
	// the conversation.
	Holder int32 `json:"holder,omitempty"`
	// Steal takes the lock from holders whose lease has expired, if all who
	// are in the way are such.
	Steal bool `json:"steal,omitempty"`
	// Force is needed to steal: without it the reply says what would be stolen.
	Force bool `json:"force,omitempty"`
	// Txn begins a transaction with the lock: what the holder and its heirs write
	// from now on is published by commit, all of it, or not at all.
	Txn bool `json:"txn,omitempty"`
	// Reason says why a transaction is rolled back.
	Reason string `json:"reason,omitempty"`
	// Version is the one version to pin, or to forget; 0: all that are kept, and the
	// refused bytes.
	Version uint64 `json:"version,omitempty"`
	// Mine lists only what the conversation, or the holder, has.
	Mine bool `json:"mine,omitempty"`
}

// Reply is one line read from the control file.
type Reply struct {
	OK bool   `json:"ok"`
	ID string `json:"id,omitempty"`

	// Lock and Token are those of the lock that was taken or changed.
	Lock  string `json:"lock,omitempty"`
	Token uint64 `json:"token,omitempty"`
	// Released and Stolen count locks that were ended.
	Released int `json:"released,omitempty"`
	Stolen   int `json:"stolen,omitempty"`
	// Versions and Rejected count what was forgotten, Bytes is the size of it; of what was
	// pinned Versions is 1.
	Versions int   `json:"versions,omitempty"`
	Rejected int   `json:"rejected,omitempty"`
	Bytes    int64 `json:"bytes,omitempty"`
	// Warning says what was odd about a request that was done.
	Warning string `json:"warning,omitempty"`
	// Locks answers check, with one record for each thing asked about, and
	// list, where it may be empty. Each is as in .locks/status.json (requirement W8).
	Locks []json.RawMessage `json:"locks,omitzero"`

	*Refusal
}

// Refusal is the part of a reply that says why not. The fields after Message are
// those of requirements T5 and T7.
type Refusal struct {
	Error      string   `json:"error"`
	Message    string   `json:"message"`
	LockName   string   `json:"lock_name,omitempty"`
	StaleSince string   `json:"stale_since,omitempty"`
	AgeSeconds *float64 `json:"age_seconds,omitempty"`
	TTLSeconds *float64 `json:"ttl_seconds,omitempty"`
	HeldBy     *HeldBy  `json:"held_by,omitempty"`
	Suggestion string   `json:"suggestion,omitempty"`
}

// HeldBy is who is in the way.
type HeldBy struct {
	RequestID       string `json:"request_id"`
	Actor           string `json:"actor"`
	Intent          string `json:"intent"`
	CreatedAt       string `json:"created_at"`
	LastHeartbeatAt string `json:"last_heartbeat_at"`
	HostID          string `json:"host_id,omitempty"`
	PID             int32  `json:"pid,omitempty"`
}

// Parse reads one request. A key that is not known is an error: a misspelled
// "wait" must not wait for the default time.
func Parse(line []byte) (Request, error) {
	var r Request
	// JSON would make another file's name of it.
	if !utf8.Valid(line) || bytes.ContainsRune(line, utf8.RuneError) {
		return r, errors.New("not a request: it is no UTF-8, or has a character that stands for what was none")
	}
	dec := json.NewDecoder(bytes.NewReader(line))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&r); err != nil {
		return Request{ID: r.ID}, fmt.Errorf("not a request: %w", err)
	}
	if _, err := dec.Token(); err != io.EOF {
		return Request{ID: r.ID}, errors.New("not a request: one JSON object a line is wanted")
	}
	for _, s := range slices.Concat(r.Paths, r.Trees) {
		if strings.ContainsRune(s, utf8.RuneError) {
			return r, errors.New("not a request: half of a surrogate pair is no character")
		}
	}
	if len(r.PathsBase64) > 0 && !r.IsOfVersions() {
		return r, errors.New("paths_base64 is for forget, pin and unpin")
	}
	for _, p := range r.PathsBase64 {
		r.Paths = append(r.Paths, string(p))
	}
	r.PathsBase64 = nil
	return r, r.validate()
}

// IsOfVersions reports whether the request is about what is kept of a file, whose path need
// not be UTF-8.
func (r *Request) IsOfVersions() bool { return r.Op == Forget || r.Op == Pin || r.Op == Unpin }

func (r *Request) validate() error {
	switch r.Op {
	case Acquire, Check, Steal:
		if len(r.Paths)+len(r.Trees)+len(r.Names) == 0 {
			return fmt.Errorf("%s: neither paths nor trees nor names are given", r.Op)
		}
	case Release:
		if r.Lock == "" && !r.All && len(r.Paths)+len(r.Trees)+len(r.Names) == 0 {
			return errors.New("release: neither a lock nor paths nor trees nor names are given, nor all")
		}
	case Forget, Pin, Unpin:
		switch {
		case len(r.Paths) != 1 || len(r.Trees)+len(r.Names) > 0:
			return fmt.Errorf("%s: one path is wanted", r.Op)
		case r.Op != Forget && r.Version == 0:
			return fmt.Errorf("%s: a version is wanted", r.Op)
		}
	case Commit, Rollback:
		if r.Lock == "" {
			return fmt.Errorf("%s: the lock of the transaction is needed", r.Op)
		}
	case Label:
		if err := checkLabel(r.Actor); err != nil {
			return fmt.Errorf("label: %w", err)
		}
	case List:
	default:
		return fmt.Errorf("unknown op %q", r.Op)
	}
	switch {
	case r.Txn && r.Op != Acquire:
		return errors.New("txn is for acquire")
	case r.Txn && (r.Holder != 0 || r.Mode != "" && r.Mode != "exclusive"):
		return errors.New("a transaction's lock is exclusive, and belongs to the conversation")
	}
	for _, l := range []struct{ name, value string }{
		{"id", r.ID}, {"operation", r.Operation}, {"actor", r.Actor}, {"reason", r.Reason}, {"lock", r.Lock},
	} {
		if len(l.value) > MaxLabel {
			return fmt.Errorf("%s is too long: %d bytes, and at most %d are kept", l.name, len(l.value), MaxLabel)
		}
	}
	switch r.Mode {
	case "", "shared", "update", "exclusive":
	default:
		return fmt.Errorf("bad mode %q: it is shared, update or exclusive", r.Mode)
	}
	for _, n := range r.Names {
		if !ValidName(n) {
			return fmt.Errorf("bad name %q: 1 to 128 of a-z, 0-9, - and _, without - or _ at either end", n)
		}
	}
	return nil
}

// ValidName reports whether a named lock may have this name (requirement T2).
func ValidName(s string) bool {
	if len(s) < 1 || len(s) > 128 {
		return false
	}
	for i, c := range []byte(s) {
		alnum := c >= 'a' && c <= 'z' || c >= '0' && c <= '9'
		edge := i == 0 || i == len(s)-1
		if !alnum && (edge || c != '-' && c != '_') {
			return false
		}
	}
	return true
}

// Append renders a reply as one line.
func (r *Reply) Append(b []byte) []byte {
	line, err := json.Marshal(r)
	if err != nil { // a record that is no JSON: a bug, and not the reader's
		line = []byte(`{"ok":false,"error":"unavailable","message":"the reply cannot be written"}`)
	}
	return append(append(b, line...), '\n')
}

// checkLabel judges the label of a process: it is shown in lists, one line each.
func checkLabel(name string) error {
	switch {
	case strings.TrimSpace(name) == "":
		return errors.New("the label is empty")
	case len(name) > MaxLabel:
		return fmt.Errorf("the label has %d bytes, and %d are allowed", len(name), MaxLabel)
	case strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) }):
		return errors.New("the label has characters that cannot be printed")
	}
	return nil
}
