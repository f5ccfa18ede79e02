package claimfile

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"latchfs/lockmgr/policy/lockfile"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

const (
	beadsText    = `{"holder":"bd-import","pid":4711,"hostname":"Alpha","started_at":"2026-03-01T12:00:00Z","version":"1.2"}`
	clawdbotText = `{"pid":4711,"session_id":"s-1","acquired_at":"2026-03-01T12:00:00+00:00","hostname":"alpha","operation":"sync"}`
	lockV1Text   = `{"lock_version":"v1","lock_name":"deploy_prod","request_id":"r-1","actor":"ci","intent":"deploy",` +
		`"intent_version":"v2","host_id":"alpha","pid":4711,"created_at":"2026-03-01T12:00:00Z",` +
		`"last_heartbeat_at":"2026-03-01T12:05:00Z","ttl_seconds":900,"metadata":{"a":[1]}}`
)

func TestParse(t *testing.T) {
	for name, c := range map[string]struct {
		format  lockfile.Format
		content Content
		want    Record
	}{
		"B1":             {lockfile.Beads, Content{Data: []byte(beadsText)}, Record{Identity: `"bd-import" "4711" "alpha"`, Holder: "bd-import", PID: 4711, Host: "Alpha", Since: noon, Version: "1.2"}},
		"B1 no version":  {lockfile.Beads, Content{Data: []byte(without(beadsText, `,"version":"1.2"`))}, Record{Identity: `"bd-import" "4711" "alpha"`, Holder: "bd-import", PID: 4711, Host: "Alpha", Since: noon}},
		"B1 zone":        {lockfile.Beads, Content{Data: []byte(replaced(beadsText, "12:00:00Z", "14:00:00+02:00"))}, Record{Identity: `"bd-import" "4711" "alpha"`, Holder: "bd-import", PID: 4711, Host: "Alpha", Since: noon, Version: "1.2"}},
		"W2":             {lockfile.Clawdbot, Content{Data: []byte(clawdbotText)}, Record{Identity: `"s-1" "4711"`, Holder: "s-1", PID: 4711, Host: "alpha", Since: noon, Operation: "sync"}},
		"W2 PowerShell":  {lockfile.Clawdbot, Content{Data: []byte("\ufeff" + clawdbotText + "\r\n")}, Record{Identity: `"s-1" "4711"`, Holder: "s-1", PID: 4711, Host: "alpha", Since: noon, Operation: "sync"}},
		"W2 no zone":     {lockfile.Clawdbot, Content{Data: []byte(replaced(clawdbotText, "+00:00", ".123456"))}, Record{Identity: `"s-1" "4711"`, Holder: "s-1", PID: 4711, Host: "alpha", Operation: "sync"}},
		"W2 seconds":     {lockfile.Clawdbot, Content{Data: []byte(replaced(clawdbotText, `"2026-03-01T12:00:00+00:00"`, "1772366400.5"))}, Record{Identity: `"s-1" "4711"`, Holder: "s-1", PID: 4711, Host: "alpha", Since: noon.Add(time.Second / 2), Operation: "sync"}},
		"T3":             {lockfile.LockV1, Content{Data: []byte(lockV1Text)}, Record{Identity: `"r-1"`, Name: "deploy_prod", Holder: "r-1", Actor: "ci", Operation: "deploy", IntentVersion: "v2", Host: "alpha", PID: 4711, Since: noon, Beat: noon.Add(5 * time.Minute), TTL: 15 * time.Minute}},
		"T4 no ttl":      {lockfile.LockV1, Content{Data: []byte(without(lockV1Text, `"ttl_seconds":900,`))}, Record{Identity: `"r-1"`, Name: "deploy_prod", Holder: "r-1", Actor: "ci", Operation: "deploy", IntentVersion: "v2", Host: "alpha", PID: 4711, Since: noon, Beat: noon.Add(5 * time.Minute)}},
		"M5":             {lockfile.OwnerDir, Content{Owner: []byte("worker-3\n"), HasOwner: true, Record: []byte(`{"reason":"edit","timestamp":"2026-03-01T12:00:00Z"}`), HasRecord: true}, Record{Identity: `"worker-3"`, Holder: "worker-3", Operation: "edit", Since: noon}},
		"M5 no record":   {lockfile.OwnerDir, Content{Owner: []byte("worker-3"), HasOwner: true}, Record{Identity: `"worker-3"`, Holder: "worker-3"}},
		"M5 record soon": {lockfile.OwnerDir, Content{Owner: []byte("worker-3"), HasOwner: true, HasRecord: true}, Record{Identity: `"worker-3"`, Holder: "worker-3"}},
		"C4":             {lockfile.Flock, Content{Data: []byte("whatever\x00")}, Record{}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Parse(c.format, c.content)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(&c.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func without(s, part string) string { return replaced(s, part, "") }

func replaced(s, old, with string) string {
	if strings.Count(s, old) != 1 {
		panic(old + " is not once in " + s)
	}
	return strings.Replace(s, old, with, 1)
}

func TestMalformed(t *testing.T) {
	for _, c := range []struct {
		format     lockfile.Format
		text, want string
	}{
		{lockfile.Beads, ``, "it is empty"},
		{lockfile.Beads, " \n", "it is empty"},
		{lockfile.Beads, `{"holder":"x"`, "it is not JSON"},
		{lockfile.Beads, `[1]`, "it is not a JSON object"},
		{lockfile.Beads, `null`, "it is not a JSON object"},
		{lockfile.Beads, beadsText + `{}`, "it is not JSON"},
		{lockfile.Beads, "{\"holder\":\"\xff\"}", "it is not UTF-8"},
		{lockfile.Beads, replaced(beadsText, `"pid":4711`, `"pid":4711,"pid":1`), "pid is there twice"},
		{lockfile.Beads, replaced(beadsText, `"version":"1.2"`, `"a\nb":1,"a\nb":2`), `a\nb is there twice`},
		{lockfile.Beads, replaced(beadsText, `"pid"`, `"PID"`), "pid is missing"},
		{lockfile.Beads, replaced(beadsText, `"bd-import"`, `""`), "holder is missing"},
		{lockfile.Beads, replaced(beadsText, `"bd-import"`, `" "`), "holder is missing"},
		{lockfile.Beads, replaced(beadsText, `"bd-import"`, `7`), "holder is not a text"},
		{lockfile.Beads, replaced(beadsText, `"Alpha"`, `null`), "hostname is missing"},
		{lockfile.Beads, replaced(beadsText, `4711`, `0`), "pid is not the id of a process"},
		{lockfile.Beads, replaced(beadsText, `4711`, `-1`), "pid is not the id of a process"},
		{lockfile.Beads, replaced(beadsText, `4711`, `4294967297`), "pid is not the id of a process"},
		{lockfile.Beads, replaced(beadsText, `4711`, `"4711"`), "pid is not the id of a process"},
		{lockfile.Beads, replaced(beadsText, `12:00:00Z`, `12:00:00`), "started_at is not a time with a zone"},
		{lockfile.Beads, replaced(beadsText, `2026-03-01T12:00:00Z`, `0001-01-01T00:00:00Z`), "started_at is not a time with a zone"},
		{lockfile.Beads, replaced(beadsText, `bd-import`, strings.Repeat("x", 1025)), "holder is longer than 1 KiB"},
		{lockfile.Beads, `{"x":"` + strings.Repeat("x", maxSize) + `"}`, "it is larger than 64 KiB"},
		{lockfile.Clawdbot, without(clawdbotText, `"acquired_at":"2026-03-01T12:00:00+00:00",`), "acquired_at is missing"},
		{lockfile.Clawdbot, replaced(clawdbotText, `2026-03-01T12:00:00+00:00`, "yesterday"), "acquired_at is not a time"},
		{lockfile.Clawdbot, replaced(clawdbotText, `"2026-03-01T12:00:00+00:00"`, "1e300"), "acquired_at is not a time"},
		{lockfile.Clawdbot, without(clawdbotText, `"session_id":"s-1",`), "session_id is missing"},
		{lockfile.LockV1, replaced(lockV1Text, `"v1"`, `"v2"`), "lock_version is not v1"},
		{lockfile.LockV1, replaced(lockV1Text, `"deploy_prod"`, `"../x"`), "lock_name is not 1 to 128"},
		{lockfile.LockV1, replaced(lockV1Text, `"deploy_prod"`, `"Deploy"`), "lock_name is not 1 to 128"},
		{lockfile.LockV1, replaced(lockV1Text, `"deploy_prod"`, `"deploy-"`), "lock_name is not 1 to 128"},
		{lockfile.LockV1, replaced(lockV1Text, `deploy_prod`, strings.Repeat("x", 129)), "lock_name is not 1 to 128"},
		{lockfile.LockV1, without(lockV1Text, `"actor":"ci",`), "actor is missing"},
		{lockfile.LockV1, without(lockV1Text, `"intent":"deploy",`), "intent is missing"},
		{lockfile.LockV1, without(lockV1Text, `"intent_version":"v2",`), "intent_version is missing"},
		{lockfile.LockV1, without(lockV1Text, `"host_id":"alpha",`), "host_id is missing"},
		{lockfile.LockV1, without(lockV1Text, `"request_id":"r-1",`), "request_id is missing"},
		{lockfile.LockV1, replaced(lockV1Text, `12:05:00Z`, `12:05:00+02:00`), "last_heartbeat_at is not in UTC"},
		{lockfile.LockV1, replaced(lockV1Text, `12:05:00Z`, `11:59:59Z`), "last_heartbeat_at is before created_at"},
		{lockfile.LockV1, replaced(lockV1Text, `900`, `0`), "ttl_seconds is not a number from 1 to"},
		{lockfile.LockV1, replaced(lockV1Text, `900`, `99999999999`), "ttl_seconds is not a number from 1 to"},
		{lockfile.Format("x"), `{}`, `no such format`},
	} {
		r, err := Parse(c.format, Content{Data: []byte(c.text)})
		if err == nil || !strings.HasPrefix(err.Error(), "malformed lock file: "+c.want) || r != nil {
			t.Errorf("%s %.300s:\n%v, want %q", c.format, c.text, err, c.want)
		}
	}
}

func TestMalformedOwnerDir(t *testing.T) {
	for _, c := range []struct {
		content Content
		want    string
	}{
		{Content{}, "it is empty"},
		{Content{HasOwner: true}, "it is empty"},
		{Content{Owner: []byte("\nx"), HasOwner: true}, "owner is missing"},
		{Content{Owner: []byte(strings.Repeat("x", 1025)), HasOwner: true}, "owner is longer than 1 KiB"},
		{Content{Owner: []byte("x"), HasOwner: true, Record: []byte("{"), HasRecord: true}, "it is not JSON"},
		{Content{Owner: []byte("x"), HasOwner: true, Record: []byte(`{"timestamp":"x"}`), HasRecord: true}, "timestamp is not a time"},
		{Content{Owner: []byte("x"), HasOwner: true, Record: make([]byte, maxSize+1), HasRecord: true}, "it is larger than 64 KiB"},
	} {
		if r, err := Parse(lockfile.OwnerDir, c.content); err == nil || err.Error() != "malformed lock file: "+c.want || r != nil {
			t.Errorf("%.100q: %v, want %q", c.content.Owner, err, c.want)
		}
	}
}

// What is being written is told apart from what is wrong.
func TestEmpty(t *testing.T) {
	for _, c := range []struct {
		format  lockfile.Format
		content Content
		want    bool
	}{
		{lockfile.Beads, Content{}, true}, {lockfile.Clawdbot, Content{}, true}, {lockfile.LockV1, Content{Data: []byte("\n")}, true}, {lockfile.OwnerDir, Content{}, true},
		{lockfile.OwnerDir, Content{HasOwner: true}, true}, {lockfile.Beads, Content{Data: []byte("{")}, false}, {lockfile.OwnerDir, Content{HasOwner: true, Owner: []byte(" ")}, false},
	} {
		if _, err := Parse(c.format, c.content); errors.Is(err, ErrEmpty) != c.want {
			t.Errorf("%s %q: %v", c.format, c.content.Data, err)
		}
	}
}

// Two texts of one record never run into those of another.
func TestIdentity(t *testing.T) {
	if a, b := identity("x", "1 y"), identity("x 1", "y"); a == b {
		t.Errorf("both are %s", a)
	}
	if a, b := identity(`x" "1`), identity("x", "1"); a == b {
		t.Errorf("both are %s", a)
	}
}

func FuzzParse(f *testing.F) {
	for _, text := range []string{beadsText, clawdbotText, lockV1Text, "", "{", `{"a":{}}`, "worker\n", "\xff"} {
		f.Add([]byte(text), []byte(text))
	}
	f.Fuzz(func(t *testing.T, data, record []byte) {
		for _, format := range []lockfile.Format{lockfile.Beads, lockfile.Clawdbot, lockfile.LockV1, lockfile.OwnerDir, lockfile.Flock} {
			r, err := Parse(format, Content{Data: data, Owner: data, HasOwner: true, Record: record, HasRecord: true})
			if (r == nil) != (err != nil) {
				t.Fatalf("%s: %v and %v", format, r, err)
			}
			rule := &lockfile.Convention{Format: format, TTL: time.Minute, ForeignTTL: time.Second, Malformed: lockfile.MalformedFree}
			look := &Look{Now: noon, Made: noon.Add(-time.Second), Boot: noon.Add(-time.Hour), Host: "alpha"}
			v := Judge(rule, r, look)
			lines := []string{LogLine(format, r, v), v.Reason}
			if err != nil {
				lines = append(lines, MalformedLine(format, err))
			}
			for _, line := range lines {
				checkLine(t, line)
			}
			checkDue(t, rule, r, look, v)
		}
	})
}
