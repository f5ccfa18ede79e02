package main

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"latchfs/fs/control"
)

const (
	freeRecord   = `{"lock_name":"free","locked":false}`
	activeRecord = `{"lock_name":"src/a.json","locked":true,"is_stale":false,"we_hold_it":false,"age_seconds":310,"holder":{"lock_version":"v1","lock_name":"src/a.json","request_id":"s-17","actor":"agent-7","intent":"open","intent_version":"v1","host_id":"deimos","pid":4711,"created_at":"2025-11-21T11:54:50Z","last_heartbeat_at":"2025-11-21T11:59:56Z","ttl_seconds":900,"session":"s-17","operation":"open","token":17,"mode":"exclusive","class":"session","waiters":2,"metadata":{"program":"python3","uid":1000,"start":99}}}`
	staleRecord  = `{"lock_name":"b\u001b[2J","locked":true,"is_stale":true,"stale_reason":"last heartbeat is 45.2s old (>30s)","we_hold_it":true,"age_seconds":97200,"holder":{"request_id":"token-2","actor":"soffice.bin","intent":"","pid":600,"created_at":"2025-11-20T09:00:00Z","last_heartbeat_at":"2025-11-20T10:00:00Z","ttl_seconds":30,"session":"","operation":"","mode":"shared","metadata":{"program":"soffice.bin"}}}`
)

func locks(records ...string) func(control.Request) string {
	return always(`{"ok":true,"locks":[` + strings.Join(records, ",") + `]}`)
}

func TestCheck(t *testing.T) {
	d := newFakeDaemon(t, locks(freeRecord, activeRecord, staleRecord))
	t.Chdir(d.root)
	mustMkdir(t, "dir")
	got := d.run("check", "free\n", "--tree", "dir", "--name", "b")
	want := outcome{code: 1, stdout: `free\n: free
dir: locked by session 's-17' of python3[4711] as agent-7 for operation 'open', since 2025-11-21 11:54:50
b: locked by soffice.bin[600], since 2025-11-20 09:00:00, shared, STALE: last heartbeat is 45.2s old (>30s) (our own)
`}
	if got != want {
		t.Error(got)
	}
	asked := control.Request{Op: control.Check, Paths: []string{"free\n"}, Trees: []string{"dir"}, Names: []string{"b"}}
	if diff := cmp.Diff(asked, <-d.asked); diff != "" {
		t.Error(diff)
	}
}

func TestCheckFree(t *testing.T) {
	d := newFakeDaemon(t, locks(`{"locked":false}`))
	if got := d.run("check", d.file("free")); got != (outcome{stdout: d.file("free") + ": free\n"}) {
		t.Error(got)
	}
	if got := d.run("check", "--json", d.file("free")); got != (outcome{stdout: `{"locked":false}` + "\n"}) {
		t.Error(got)
	}
}

// The answer of SEED W8, one object for each name, with the names of W2 for the holder.
func TestCheckJSON(t *testing.T) {
	d := newFakeDaemon(t, locks(freeRecord, strings.Replace(activeRecord, `"token":17`, `"token":9007199254740993`, 1)))
	t.Chdir(d.root)
	want := outcome{code: 1, stdout: `{"lock_name":"free","locked":false}
{"held_seconds":310,"holder":{"acquired_at":"2025-11-21T11:54:50Z","actor":"agent-7","class":"session","created_at":"2025-11-21T11:54:50Z","host_id":"deimos","hostname":"deimos","intent":"open","intent_version":"v1","last_heartbeat_at":"2025-11-21T11:59:56Z","lock_name":"src/a.json","lock_version":"v1","metadata":{"program":"python3","start":99,"uid":1000},"mode":"exclusive","operation":"open","pid":4711,"request_id":"s-17","session":"s-17","session_id":"agent-7","token":9007199254740993,"ttl_seconds":900,"waiters":2},"is_stale":false,"lock_name":"src/a.json","locked":true,"stale_reason":null,"we_hold_it":false}
`}
	if got := d.run("check", "--json", "free", "a"); got != want {
		t.Errorf("%v\n%s", got, cmp.Diff(want.stdout, got.stdout))
	}
}

// A name that nobody asked about but one is free as SEED W8 has it, and a daemon's
// warning is none of the answer.
func TestCheckJSONFree(t *testing.T) {
	d := newFakeDaemon(t, always(`{"ok":true,"warning":"w","locks":[`+freeRecord+`]}`))
	want := outcome{stdout: `{"locked":false}` + "\n", stderr: "latchfs check: warning: w\n"}
	if got := d.run("check", "--json", d.file("free")); got != want {
		t.Error(got)
	}
}

// The answer about a stale lock is also the object of SEED T7.
func TestCheckJSONStale(t *testing.T) {
	var r lockRecord
	if err := json.Unmarshal([]byte(staleRecord), &r); err != nil {
		t.Fatal(err)
	}
	object, err := r.checked([]byte(staleRecord), "b", time.Date(2025, 11, 20, 10, 1, 0, 0, time.UTC))
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	if err := printJSON(&b, object); err != nil {
		t.Fatal(err)
	}
	want := `{"age_seconds":60,"error":"lock_stale","held_by":{"request_id":"token-2","actor":"soffice.bin","intent":"","created_at":"2025-11-20T09:00:00Z","last_heartbeat_at":"2025-11-20T10:00:00Z","pid":600},"held_seconds":97200,` +
		`"holder":{"acquired_at":"2025-11-20T09:00:00Z","actor":"soffice.bin","created_at":"2025-11-20T09:00:00Z","hostname":"","intent":"","last_heartbeat_at":"2025-11-20T10:00:00Z","metadata":{"program":"soffice.bin"},"mode":"shared","operation":"","pid":600,"request_id":"token-2","session":"","session_id":"token-2","ttl_seconds":30},` +
		`"is_stale":true,"lock_name":"b\u001b[2J","locked":true,"stale_reason":"last heartbeat is 45.2s old (\u003e30s)","stale_since":"2025-11-20T10:00:30Z","suggestion":"` + "`latchfs steal --force`" + ` with the same arguments ends it.","ttl_seconds":30,"we_hold_it":true}
`
	if diff := cmp.Diff(want, b.String()); diff != "" {
		t.Error(diff)
	}
}

// What is not said to be free is not free.
func TestCheckUnreadable(t *testing.T) {
	for _, reply := range []string{`{"ok":true}`, `{"ok":true,"locks":[null]}`, `{"ok":true,"locks":[{}]}`,
		`{"ok":true,"locks":[{"locked":true}]}`, `{"ok":true,"locks":[{"locked":false},{"locked":false}]}`} {
		d := newFakeDaemon(t, always(reply))
		if got := d.run("check", d.file("a")); got.code != 1 || got.stdout != "" || !strings.Contains(got.stderr, "cannot be read") {
			t.Errorf("%s: %v", reply, got)
		}
	}
}

func TestList(t *testing.T) {
	d := newFakeDaemon(t, locks(activeRecord, staleRecord))
	got := d.run("list", d.root)
	want := outcome{stdout: `FILE        HOLDER                    OPERATION  MODE       SINCE                HEARTBEAT
src/a.json  python3[4711] as agent-7  open       exclusive  2025-11-21 11:54:50  2025-11-21 11:59:56
b\x1b[2J    soffice.bin[600]          -          shared     2025-11-20 09:00:00  STALE since 2025-11-20 10:00:30
`}
	if got != want {
		t.Errorf("%v", cmp.Diff(want.stdout, got.stdout))
	}
	if diff := cmp.Diff(control.Request{Op: control.List}, <-d.asked); diff != "" {
		t.Error(diff)
	}
}

// Whether everything is released can be asked (SEED M8).
func TestListMine(t *testing.T) {
	d := newFakeDaemon(t, always(`{"ok":true}`))
	for _, args := range [][]string{{"list", "--mine", "--for", "12"}, {"list", "--for", "12", d.root}} {
		if got := d.run(args...); got != (outcome{}) {
			t.Error(got)
		}
		if diff := cmp.Diff(control.Request{Op: control.List, Mine: true, Holder: 12}, <-d.asked); diff != "" {
			t.Error(diff)
		}
	}
}

// Without --force a steal only says what it would do (SEED T7).
func TestStealUnforced(t *testing.T) {
	d := newFakeDaemon(t, locks(freeRecord, activeRecord, staleRecord))
	t.Chdir(d.root)
	got := d.run("steal", "--json", "free", "src", "b")
	want := `latchfs steal: warning: free: not locked
The lock on src is active, and no active lock is stolen
Held by session 's-17' of python3[4711] as agent-7 for operation 'open', since 2025-11-21 11:54:50; its lease runs until 2025-11-21 12:14:56, longer if the holder shows life
It ends with its holder, or when that is done: ` + "`ps -fp 4711`" + ` shows it. With --force, root and the owner of the files end active locks of other users.
The lock on b is stale: last heartbeat is 45.2s old (>30s)
Held by soffice.bin[600], since 2025-11-20 09:00:00
The same command with --force ends it.
`
	if got.code != 8 || got.stderr != want {
		t.Errorf("%v\n%s", got, cmp.Diff(want, got.stderr))
	}
	objects := strings.Split(got.stdout, "\n")
	if len(objects) != 3 || !strings.HasPrefix(objects[0], `{"error":"lock_blocked",`) || !strings.HasPrefix(objects[1], `{"error":"lock_stale",`) {
		t.Fatal(got.stdout)
	}
	for _, field := range []string{`"lock_name":"b\u001b[2J"`, `"stale_since":"2025-11-20T10:00:30Z"`, `"age_seconds":`, `"ttl_seconds":30`,
		`"held_by":{"request_id":"token-2","actor":"soffice.bin","intent":"","created_at":"2025-11-20T09:00:00Z","last_heartbeat_at":"2025-11-20T10:00:00Z","pid":600}`,
		`"suggestion":`} {
		if !strings.Contains(objects[1], field) {
			t.Errorf("%s is not in %s", field, objects[1])
		}
	}
	for _, req := range d.received() {
		if req.Op != control.Check {
			t.Errorf("it asked to %s", req.Op)
		}
	}
}

func TestStealNothing(t *testing.T) {
	d := newFakeDaemon(t, locks(freeRecord))
	if got := d.run("steal", d.file("free")); got.code != 0 || !strings.Contains(got.stderr, "not locked") {
		t.Error(got)
	}
}

func TestStealForced(t *testing.T) {
	for reply, want := range map[string]outcome{
		`{"ok":true,"stolen":1}`:                   {stdout: "1 lock ended\n"},
		`{"ok":true,"stolen":2,"warning":"w"}`:     {stdout: "2 locks ended\n", stderr: "latchfs steal: warning: w\n"},
		`{"ok":true}`:                              {stderr: "latchfs steal: warning: nothing was locked\n"},
		`{"ok":true,"warning":"a was not locked"}`: {stderr: "latchfs steal: warning: a was not locked\n"},
	} {
		d := newFakeDaemon(t, always(reply))
		if got := d.run("steal", "--force", d.file("a")); got != want {
			t.Errorf("%s: %v", reply, got)
		}
		if diff := cmp.Diff(control.Request{Op: control.Steal, Force: true, Paths: []string{"a"}}, <-d.asked); diff != "" {
			t.Error(diff)
		}
	}
}

// To break a lock is to steal it (SEED W9), and that of an active holder stays.
func TestBreak(t *testing.T) {
	d := newFakeDaemon(t, always(`{"ok":true,"stolen":1}`))
	if got := d.run("break", d.file("a")); got != (outcome{stdout: "1 lock ended\n"}) {
		t.Error(got)
	}
	if diff := cmp.Diff(control.Request{Op: control.Steal, Force: true, Paths: []string{"a"}}, <-d.asked); diff != "" {
		t.Error(diff)
	}
	d = newFakeDaemon(t, always(blocked))
	if got := d.run("break", "--json", d.file("a")); got.code != 8 || !strings.HasPrefix(got.stdout, `{"error":"lock_blocked",`) {
		t.Error(got)
	}
}

// An active lock is never stolen (SEED T8).
func TestStealActive(t *testing.T) {
	d := newFakeDaemon(t, always(blocked))
	got := d.run("steal", "--force", d.file("a"))
	if got.code != 8 || !strings.HasSuffix(got.stderr, "\nHeld since 2025-11-21 11:54:50; its lease has not expired\n") {
		t.Error(got)
	}
}

// The age of a stale lock is that of its last heartbeat (SEED T7).
func TestStaleAge(t *testing.T) {
	var r lockRecord
	if err := json.Unmarshal([]byte(staleRecord), &r); err != nil {
		t.Fatal(err)
	}
	no := r.refusal("b", time.Date(2025, 11, 20, 10, 1, 0, 0, time.UTC))
	if *no.AgeSeconds != 60 || no.StaleSince != "2025-11-20T10:00:30Z" {
		t.Errorf("%v since %s", *no.AgeSeconds, no.StaleSince)
	}
}
