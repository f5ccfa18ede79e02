package report

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// AppendLock is what Status.JSON lists.
func TestAppendLock(t *testing.T) {
	status := Status{Held: held(), At: noon, Started: noon}
	text := string(status.JSON(alice))
	for _, r := range status.Held {
		line := string(AppendLock([]byte("    "), r, noon, alice))
		if !strings.Contains(text, "\n"+line) || strings.Contains(line, "\n") {
			t.Errorf("not a line of status.json: %s", line)
		}
	}
}

// The answers of SEED T5 and T7, field by field.
func TestBlocked(t *testing.T) {
	deploy, backup := deploy(), backup()
	tests := map[string]*Record{
		"blocked.json": &deploy, "blocked-stale.json": &backup,
		"blocked-stale-tree.json": {Path: "a\xff", Tree: true, Stale: true, Since: noon.Add(-time.Hour), Operation: "\x9b"},
	}
	for name, r := range tests {
		b, err := json.Marshal(r.Refused(noon))
		if err != nil {
			t.Fatal(err)
		}
		golden(t, name, append(b, '\n'))
	}
}

// A program that reads the answer with the same type gets it back.
func TestBlockedIsReadBack(t *testing.T) {
	for _, r := range held() {
		r.Since = r.Since.Truncate(time.Second) // what is told of times
		want := r.Refused(noon)
		b, err := json.Marshal(want)
		if err != nil {
			t.Fatal(err)
		}
		var got Blocked
		if err := json.Unmarshal(b, &got); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", b, diff)
		}
	}
}

// The command that the suggestion names can be pasted into a shell, in any directory.
func TestTarget(t *testing.T) {
	for want, r := range map[string]Record{
		"--name deploy":                        {Name: "deploy"},
		"--mount '/srv/my data' --name deploy": {Name: "deploy", Mountpoint: "/srv/my data"},
		"/m":                                   {Mountpoint: "/m"},
		"/m/a/b":                               {Mountpoint: "/m", Path: "a/b"},
		"'/m/a b'":                             {Mountpoint: "/m", Path: "a", File: "a b"},
		"/m/-rf":                               {Mountpoint: "/m", Path: "-rf"},
		`$'/m/a\n'`:                            {Mountpoint: "/m", Path: "a\n"},
		`'/my m/a'`:                            {Mountpoint: "/my m", Path: "a"},
	} {
		if got := r.target(); got != want {
			t.Errorf("%+v: %s, want %s", r, got, want)
		}
	}
}

// Who knows better than the lease why a lock is stale says so; of one that is not there is
// no reason.
func TestStaleReason(t *testing.T) {
	for want, r := range map[string]Record{
		"":                                 {StaleReason: "process 7 is dead"},
		"process 7 is dead":                {Stale: true, StaleReason: "process 7 is dead", Since: noon, TTL: time.Second},
		"last heartbeat is 2.0s old (>1s)": {Stale: true, Since: noon.Add(-2 * time.Second), TTL: time.Second},
	} {
		if got := r.staleReason(noon); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// What can be done about a lock that is another's: to run the command again cannot help.
func TestHowToEnd(t *testing.T) {
	active := Record{Mountpoint: "/m", Path: "-f", Asker: Asker{Program: "sh", Owner: Process{PID: 7}}, TTL: 90 * time.Second}
	stale, endless := active, active
	stale.Stale, endless.TTL = true, 0
	shows := " `ps -fp 7` shows it; its locks end with it."
	for _, c := range []struct {
		r         *Record
		now, ever bool
		want      string
	}{
		{&active, true, true, "You may take the lock away from it: `latchfs steal --force /m/-f`." + shows},
		{&active, false, true, "Its holder alone can release it. When that has shown no sign of life for 1m30s, `latchfs steal --force /m/-f` takes the lock away from it." + shows},
		{&endless, false, true, "Its holder alone can release it." + shows},
		{&stale, true, false, "Its holder alone can release it." + shows},
		{&stale, true, true, "The holder shows no sign of life: `latchfs steal --force /m/-f` takes the lock away from it."},
	} {
		if got := c.r.HowToEnd(c.now, c.ever); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}
