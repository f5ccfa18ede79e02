package main

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"latchfs/fs/control"
)

const blocked = `{"ok":false,"error":"lock_blocked","message":"Failed to acquire lock (timeout after 5s)\nCould not acquire lock within 5s. Held by session 's-17' for operation 'open'","lock_name":"a","held_by":{"request_id":"s-17","actor":"agent-7","intent":"open","created_at":"2025-11-21T11:54:50Z","last_heartbeat_at":"2025-11-21T11:59:56Z"},"suggestion":"Run it again."}`

func TestAcquireRequest(t *testing.T) {
	d := newFakeDaemon(t, granting)
	t.Chdir(d.root)
	mustMkdir(t, "sub")
	parent := int32(os.Getppid())
	wait, forever, ttl, never := control.Duration(5*time.Second), control.Forever, control.Duration(time.Minute), control.Duration(0)
	for _, tt := range []struct {
		args string
		want control.Request
	}{
		{"a sub/b", control.Request{Paths: []string{"a", "sub/b"}, Holder: parent, Mode: "exclusive"}},
		{"--tree sub --tree . --name x", control.Request{Trees: []string{"sub", "."}, Names: []string{"x"}, Holder: parent, Mode: "exclusive"}},
		{". --for 12 --mode shared", control.Request{Paths: []string{"."}, Holder: 12, Mode: "shared"}},
		{"a --wait 5s --ttl 1m", control.Request{Paths: []string{"a"}, Holder: parent, Mode: "exclusive", Wait: &wait, TTL: &ttl}},
		{"a --wait forever --ttl 0", control.Request{Paths: []string{"a"}, Holder: parent, Mode: "exclusive", Wait: &forever, TTL: &never}},
		{"a --wait 0 --operation o --actor p --steal",
			control.Request{Paths: []string{"a"}, Holder: parent, Mode: "exclusive", Wait: &never, Operation: "o", Actor: "p", Steal: true}},
	} {
		tt.want.Op = control.Acquire
		if got := d.run(append([]string{"acquire"}, strings.Fields(tt.args)...)...); got != (outcome{stdout: "L1\n"}) {
			t.Errorf("acquire %s: %v", tt.args, got)
		}
		select {
		case got := <-d.asked:
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("acquire %s: %s", tt.args, diff)
			}
		default:
			t.Errorf("acquire %s: nothing was asked", tt.args)
		}
	}
}

func TestAcquireJSON(t *testing.T) {
	d := newFakeDaemon(t, always(`{"ok":true,"lock":"L1","token":7,"new":[1]}`))
	if got := d.run("acquire", "--json", d.file("a")); got != (outcome{stdout: `{"ok":true,"lock":"L1","token":7,"new":[1]}` + "\n"}) {
		t.Error(got)
	}
}

// The texts of SEED C7 and W7 reach the user as they are; for programs there is
// the object of T5.
func TestAcquireRefused(t *testing.T) {
	d := newFakeDaemon(t, always(blocked))
	const text = "Failed to acquire lock (timeout after 5s)\n" +
		"Could not acquire lock within 5s. Held by session 's-17' for operation 'open'\nRun it again.\n"
	if got := d.run("acquire", d.file("a")); got != (outcome{code: 8, stderr: text}) {
		t.Error(got)
	}
	got := d.run("acquire", "--json", d.file("a"))
	want := strings.Replace(blocked, `"ok":false,`, "", 1) + "\n"
	if got != (outcome{code: 8, stdout: want, stderr: text}) {
		t.Errorf("%v, want %s", got, want)
	}
}

func TestRefusalExitCodes(t *testing.T) {
	for refusal, want := range map[string]outcome{
		control.Stale:       {code: 8, stderr: "m\n"},
		control.Deadlock:    {code: 8, stderr: "m\n"},
		control.Invalid:     {code: 2, stderr: "latchfs acquire: m\nTry 'latchfs acquire --help'.\n"},
		control.Fenced:      {code: 1, stderr: "latchfs acquire: m\n"},
		control.NotHolder:   {code: 1, stderr: "latchfs acquire: m\n"},
		control.NoSuchLock:  {code: 1, stderr: "latchfs acquire: m\n"},
		control.NotAllowed:  {code: 1, stderr: "latchfs acquire: m\n"},
		control.Unavailable: {code: 1, stderr: "latchfs acquire: m\n"},
		"something_new":     {code: 1, stderr: "latchfs acquire: m\n"},
	} {
		d := newFakeDaemon(t, always(`{"ok":false,"error":"`+refusal+`","message":"m"}`))
		if got := d.run("acquire", d.file("a")); got != want {
			t.Errorf("%s: %v", refusal, got)
		}
	}
}

func TestUnreadableReplies(t *testing.T) {
	for _, reply := range []string{
		`{}`, `[]`, `no`, `{"ok":true}`, `{"ok":true,"lock":"L1"}`, `{"ok":true,"token":7}`, `{"ok":false}`, `{"ok":false,"message":"m"}`,
		`{"ok":true,"lock":"L1","token":7,"error":"lock_blocked"}`, `{"ok":true,"lock":"L1","token":-1}`,
		`{"ok":true,"lock":"L1","token":7} {}`, hangUp,
	} {
		d := newFakeDaemon(t, always(reply))
		got := d.run("acquire", d.file("a"))
		want := "the reply cannot be read"
		if reply == hangUp {
			want = "the conversation ended without a reply"
		}
		if got.code != 1 || got.stdout != "" || !strings.Contains(got.stderr, d.file(".locks/control")+": "+want) {
			t.Errorf("%s: %v", reply, got)
		}
	}
}

func TestTooMuchForOneRequest(t *testing.T) {
	d := newFakeDaemon(t, granting)
	if got := d.run("acquire", strings.Repeat("x", control.MaxLine)); got.code != 2 || !strings.Contains(got.stderr, "too many names") {
		t.Error(got)
	}
}

func TestRelease(t *testing.T) {
	d := newFakeDaemon(t, always(`{"ok":true,"warning":"a was not locked"}`))
	parent := int32(os.Getppid())
	for _, tt := range []struct {
		args []string
		want control.Request
	}{
		{[]string{d.file("a"), "--tree", d.root, "--name", "x"},
			control.Request{Paths: []string{"a"}, Trees: []string{"."}, Names: []string{"x"}, Holder: parent}},
		{[]string{"--lock", "L1"}, control.Request{Lock: "L1", Holder: parent}},
		{[]string{"--all", "--for", "12"}, control.Request{All: true, Holder: 12}},
	} {
		tt.want.Op = control.Release
		got := d.run(append([]string{"release"}, tt.args...)...)
		if got != (outcome{stderr: "latchfs release: warning: a was not locked\n"}) {
			t.Errorf("release %q: %v", tt.args, got)
		}
		if diff := cmp.Diff(tt.want, <-d.asked); diff != "" {
			t.Errorf("release %q: %s", tt.args, diff)
		}
	}
}

func TestReleaseOfAnothersLock(t *testing.T) {
	d := newFakeDaemon(t, always(`{"ok":false,"error":"not_holder","message":"a is held by vim[12]"}`))
	got := d.run("release", "--json", d.file("a"))
	if got.code != 1 || got.stdout != `{"error":"not_holder","message":"a is held by vim[12]"}`+"\n" ||
		got.stderr != "latchfs release: a is held by vim[12]\n" {
		t.Error(got)
	}
}

func mustMkdir(t *testing.T, dir string) {
	t.Helper()
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
}

func mustWrite(t *testing.T, name, content string, mode os.FileMode) {
	t.Helper()
	if err := os.WriteFile(name, []byte(content), mode); err != nil {
		t.Fatal(err)
	}
}
