package claimfile

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"latchfs/lockmgr/policy/lockfile"
)

// Content is what a claim consists of: the data of a file, or the two files of an
// owner-dir.
type Content struct {
	Data []byte // of a file

	Owner, Record       []byte // of the files `owner` and `record.json` in an owner-dir
	HasOwner, HasRecord bool   // whether they are there
}

// Record is what a claim says of itself. All of it is the word of a user.
type Record struct {
	Identity  string // two records with the same are one claim; "" for flock
	Holder    string // the program, session, request or owner that has the claim
	Operation string // what for; "" where the format does not say
	PID       int32  // 0 where the format does not say
	Host      string // "" where the format does not say

	Since time.Time     // when it was taken; zero: it does not say
	Beat  time.Time     // the last heartbeat, of lock/v1 alone
	TTL   time.Duration // how long a heartbeat lasts, of lock/v1; 0: it does not say

	Name          string // of the lock, of lock/v1 alone
	Actor         string // who asked for it, of lock/v1 alone
	IntentVersion string // of lock/v1 alone
	Version       string // of the program, of beads alone
}

// maxSize bounds a claim file, maxText a text in it, maxTTL what a record may ask for.
const (
	maxSize = 64 << 10
	maxText = 1 << 10
	maxTTL  = 366 * 24 * time.Hour
)

// ErrEmpty is in the chain of the error of Parse for a claim that has no content yet.
var ErrEmpty = errors.New("it is empty")

// Parse reads a claim. The error is what the systems say after "lock check failed: "
// (B4), and has nothing in it that could not stand in a log.
func Parse(format lockfile.Format, c Content) (*Record, error) {
	if len(c.Data) > maxSize || len(c.Owner) > maxSize || len(c.Record) > maxSize {
		return nil, malformed(errors.New("it is larger than 64 KiB"))
	}
	r, err := parse(format, c)
	if err != nil {
		return nil, malformed(err)
	}
	return r, nil
}

func malformed(err error) error { return fmt.Errorf("malformed lock file: %w", err) }

func parse(format lockfile.Format, c Content) (*Record, error) {
	switch format {
	case lockfile.Flock:
		return &Record{}, nil
	case lockfile.OwnerDir:
		return parseOwnerDir(c)
	case lockfile.Beads, lockfile.Clawdbot, lockfile.LockV1:
	default:
		return nil, fmt.Errorf("no such format: %q", format)
	}
	f, err := readFields(c.Data)
	if err != nil {
		return nil, err
	}
	var r *Record
	switch format {
	case lockfile.Beads:
		r = f.beads()
	case lockfile.Clawdbot:
		r = f.clawdbot()
	default:
		r = f.lockV1()
	}
	if f.err != nil {
		return nil, f.err
	}
	return r, nil
}

// beads reads the record of a tool that has a database to itself (B1).
func (f *fields) beads() *Record {
	r := &Record{
		Holder: f.text("holder"), PID: f.pid("pid"), Host: f.text("hostname"), Since: f.time("started_at"),
		Version: f.optionalText("version"),
	}
	r.Identity = identity(r.Holder, pidText(r.PID), strings.ToLower(r.Host))
	return r
}

// clawdbot reads the record of a session that has a directory to itself (W2).
func (f *fields) clawdbot() *Record {
	if !f.has("acquired_at") {
		f.fail("acquired_at is missing")
	}
	r := &Record{
		Holder: f.text("session_id"), PID: f.pid("pid"), Host: f.text("hostname"),
		Since: f.looseTime("acquired_at"), Operation: f.optionalText("operation"),
	}
	r.Identity = identity(r.Holder, pidText(r.PID))
	return r
}

// lockV1 reads the record of a request (T3).
func (f *fields) lockV1() *Record {
	if v := f.text("lock_version"); f.err == nil && v != "v1" {
		f.fail("lock_version is not v1")
	}
	r := &Record{
		Name: f.text("lock_name"), Holder: f.text("request_id"), Actor: f.text("actor"), Operation: f.text("intent"),
		IntentVersion: f.text("intent_version"), Host: f.text("host_id"), PID: f.pid("pid"),
		Since: f.utc("created_at"), Beat: f.utc("last_heartbeat_at"), TTL: f.seconds("ttl_seconds"),
	}
	switch {
	case f.err != nil:
	case !validName(r.Name):
		f.fail("lock_name is not 1 to 128 of a-z, 0-9, '-' and '_', without '-' or '_' at either end")
	case r.Beat.Before(r.Since):
		f.fail("last_heartbeat_at is before created_at")
	}
	r.Identity = identity(r.Holder)
	return r
}

// parseOwnerDir reads the two files of an owner-dir (M5). The record is written after the
// owner, so that a claim without one has a holder already.
func parseOwnerDir(c Content) (*Record, error) {
	line, _, _ := bytes.Cut(c.Owner, []byte("\n"))
	owner := string(bytes.TrimSpace(line))
	switch {
	case !c.HasOwner, len(c.Owner) == 0:
		return nil, ErrEmpty
	case owner == "":
		return nil, errors.New("owner is missing")
	case len(owner) > maxText:
		return nil, errors.New("owner is longer than 1 KiB")
	}
	r := &Record{Holder: owner, Identity: identity(owner)}
	if !c.HasRecord || len(c.Record) == 0 {
		return r, nil
	}
	f, err := readFields(c.Record)
	if err != nil {
		return nil, err
	}
	r.Operation, r.Since = f.optionalText("reason"), f.looseTime("timestamp")
	if f.err != nil {
		return nil, f.err
	}
	return r, nil
}

// identity joins texts so that no two lists of texts give the same.
func identity(parts ...string) string {
	quoted := make([]string, len(parts))
	for i, p := range parts {
		quoted[i] = strconv.Quote(p)
	}
	return strings.Join(quoted, " ")
}

func pidText(pid int32) string { return strconv.FormatInt(int64(pid), 10) }

// validName reports whether a lock may have this name (T2).
func validName(name string) bool {
	for _, c := range []byte(name) {
		if (c < 'a' || 'z' < c) && (c < '0' || '9' < c) && c != '-' && c != '_' {
			return false
		}
	}
	return 1 <= len(name) && len(name) <= 128 && strings.Trim(name, "-_") == name
}
