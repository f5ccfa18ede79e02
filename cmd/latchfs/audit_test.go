package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// auditTrail has an event of each kind, and what else may be in a trail.
const auditTrail = `{"event":"mount","mountpoint":"/srv/data","timestamp":"2026-03-01T09:00:00Z","version":"1.2"}
{"event":"commit","bytes":1,"operation":"open","path":"src/a.json","pid":4711,"program":"python3","session":"x-1","timestamp":"2026-03-01T09:00:01.5Z","token":7}
{"event":"commit","bytes":12,"operation":"rename","from":"src/a.tmp","path":"src/b.json","pid":4712,"program":"mv","timestamp":"2026-03-01T09:00:02Z"}
{"event":"commit","bytes":120,"records":1,"operation":"append","path":"run.log","pid":4713,"program":"sh","actor":"agent-7","timestamp":"2026-03-01T09:00:03Z"}
{"event":"commit","bytes":5,"operation":"truncate","not_durable":"EIO","path":"x\u001b[2J","path_base64":"eBtbMko=","pid":4714,"program":"sh","timestamp":"2026-03-01T09:00:04Z"}
{"event":"refusal","errno":"EBUSY","held_by":{"operation":"import","pid":99,"program":"bash","session":"s"},"operation":"open","path":"src/a.json","pid":4715,"program":"vim","reason":"","timestamp":"2026-03-01T09:00:05Z"}
{"event":"refusal","errno":"EDEADLK","operation":"rename","path":"src/a.json","pid":4715,"program":"vim","reason":"deadlock","timestamp":"2026-03-01T09:00:06Z"}
{"event":"rollback","errno":"EINTR","kept":"ID-1","path":"src/a.json","pid":4716,"program":"sh","reason":"the writer was killed by SIGKILL","timestamp":"2026-03-01T09:00:07Z"}
{"event":"rollback","kept":"","path":"src/a.json","pid":4716,"timestamp":"2026-03-01T09:00:08Z"}
{"event":"lock_acquired","actor":"sh","lock_name":"deploy","lock_path":"names/deploy.lock","operation":"import","pid":4717,"request_id":"r","timestamp":"2026-03-01T09:00:09Z","token":8,"ttl_seconds":900}
{"event":"lock_released","actor":"agent-7","held_duration_seconds":1.25,"lock_name":"src","path":"src","operation":"","pid":4717,"request_id":"r","result":"success","timestamp":"2026-03-01T09:00:10Z"}
{"event":"heartbeat_failed","actor":"soffice","lock_name":"b","path":"b","pid":600,"timestamp":"2026-03-01T09:00:11Z"}
{"event":"lock_stolen","actor":"soffice","path":"b","pid":600,"previous_lock":{},"stolen_by":{"pid":601,"program":"cron"},"timestamp":"2026-03-01T09:00:12Z"}
{"event":"bypass","path":"b","pid":600,"program":"sh","reason":"\"b\" was changed","timestamp":"2026-03-01T09:00:13Z"}
{"event":"recovery","undone":1,"redone":2,"removed":[".latchfs-1"],"salvaged":null,"timestamp":"2026-03-01T09:00:14Z"}
{"event":"rejected_removed","removed":1,"bytes":4096,"ids":["x"],"too_old":1,"timestamp":"2026-03-01T09:00:15Z"}
{"event":"delete","path":"old/c","pid":4718,"program":"rm","transaction":"x-c2","timestamp":"2026-03-01T09:00:15.2Z"}
{"event":"txn_committed","pid":4719,"program":"latchfs","transaction":"x-c2","removed":1,"timestamp":"2026-03-01T09:00:15.4Z"}
{"event":"txn_rolled_back","pid":4719,"program":"latchfs","transaction":"x-c3","reason":"the command ended with exit status 3","timestamp":"2026-03-01T09:00:15.6Z"}

not JSON
{"event":"half
[1,2]
{"event":"no time"}
{"event":"t\u0007xn","path":"b","pid":"odd","actor":"agent-7","reason":"because","files":["a","b"],"n":3,"timestamp":"2026-03-01T09:00:16Z"}
{"event":"unmount","timestamp":"2026-03-01T09:00:17Z"}
`

func auditLines(lines ...string) string { return strings.Join(lines, "\n") + "\n" }

func TestAudit(t *testing.T) {
	d := fakeFiles(t)
	d.write(".locks/events.jsonl", auditTrail)
	got := d.run("audit")
	want := auditLines(
		`2026-03-01 09:00:00  mount             -                       at /srv/data, latchfs 1.2`,
		`2026-03-01 09:00:01  commit            python3[4711]           src/a.json: 1 byte`,
		`2026-03-01 09:00:02  commit            mv[4712]                src/b.json: 12 bytes, renamed from src/a.tmp`,
		`2026-03-01 09:00:03  commit            sh[4713] as agent-7     run.log: 1 record appended, 120 bytes`,
		`2026-03-01 09:00:04  commit            sh[4714]                x\x1b[2J: 5 bytes by truncate, NOT known to be on disk: EIO`,
		`2026-03-01 09:00:05  refusal           vim[4715]               src/a.json: open refused with EBUSY, held by bash[99] for 'import'`,
		`2026-03-01 09:00:06  refusal           vim[4715]               src/a.json: rename refused with EDEADLK: deadlock`,
		`2026-03-01 09:00:07  rollback          sh[4716]                src/a.json: the writer was killed by SIGKILL (EINTR); kept as ID-1`,
		`2026-03-01 09:00:08  rollback          ?[4716]                 src/a.json: rolled back; nothing was kept`,
		`2026-03-01 09:00:09  lock_acquired     sh[4717]                deploy: for 'import' with a lease of 15m0s`,
		`2026-03-01 09:00:10  lock_released     agent-7[4717]           src: after 1.25s`,
		`2026-03-01 09:00:11  heartbeat_failed  soffice[600]            b: the holder shows no sign of life: the lock is stale`,
		`2026-03-01 09:00:12  lock_stolen       soffice[600]            b: stolen by cron[601]: the holder had shown no sign of life for longer than its lease`,
		`2026-03-01 09:00:13  bypass            sh[600]                 b: "b" was changed`,
		`2026-03-01 09:00:14  recovery          -                       1 replacement undone, 2 commits in place finished, 1 orphaned shadow removed`,
		`2026-03-01 09:00:15  rejected_removed  -                       1 entry with 4096 bytes: 1 too old`,
		`2026-03-01 09:00:15  delete            rm[4718]                old/c: deleted, in transaction x-c2`,
		`2026-03-01 09:00:15  txn_committed     latchfs[4719]           transaction x-c2`,
		`2026-03-01 09:00:15  txn_rolled_back   latchfs[4719]           transaction x-c3: the command ended with exit status 3`,
		`2026-03-01 09:00:16  t\x07xn           agent-7[?]              b: because files=["a","b"] n=3`,
		`2026-03-01 09:00:17  unmount           -`,
	)
	if got.stdout != want || got.code != 0 {
		t.Errorf("%d\n%s", got.code, cmp.Diff(want, got.stdout))
	}
	if got.stderr != "latchfs audit: warning: 5 lines that are no events were left out\n" {
		t.Error(got.stderr)
	}
}

func TestAuditFilters(t *testing.T) {
	d := fakeFiles(t)
	d.write(".locks/events.jsonl", auditTrail)
	for args, want := range map[string]int{
		"src":                                  7,
		"src/a.json":                           5,
		"src/a.tmp":                            1, // renamed away
		"sr":                                   0,
		"src run.log":                          8,
		".":                                    21,
		"--event commit":                       4,
		"--event commit,mount --event unmount": 6,
		"--actor agent-7":                      3,
		"--actor vim":                          2,
		"--actor sh":                           4,
		"--since 2026-03-01T09:00:16Z":         2,
		"--until 2026-03-01T09:00:00.999Z":     1,
		"--since 2026-03-01T10:00:10+01:00 --until=2026-03-01T09:00:10Z": 1,
	} {
		got := d.run(append([]string{"audit"}, strings.Fields(args)...)...)
		if n := strings.Count(got.stdout, "\n"); n != want || got.code != 0 {
			t.Errorf("%s: %d lines, want %d: %v", args, n, want, got)
		}
	}
	got := d.run("audit", "--json", "--event", "late,bypass")
	if want := strings.Split(auditTrail, "\n")[13] + "\n"; got.stdout != want {
		t.Errorf("%v\nwant %s", got, want)
	}
}

// An event that does not exist is a mistake, and not something that has not happened.
func TestAuditUnknownEvent(t *testing.T) {
	d := fakeFiles(t)
	d.write(".locks/events.jsonl", auditTrail)
	for _, args := range []string{"--event comit", "--event commit,comit", "--event commit --event comit -f"} {
		got := d.run(append([]string{"audit"}, strings.Fields(args)...)...)
		if got.code != 2 || got.stdout != "" || !strings.Contains(got.stderr, "--event comit: there is no such event") || !strings.Contains(got.stderr, "commit, conflict, ") {
			t.Errorf("%s: %v", args, got)
		}
	}
	if got := d.run("audit", "--event", strings.Join(knownEvents(), ",")); got.code != 0 || strings.Count(got.stdout, "\n") != 20 {
		t.Errorf("all events: %v", got)
	}
}

// The trail of a directory that is not mounted.
func TestAuditOffline(t *testing.T) {
	d := fakeFiles(t)
	data := t.TempDir()
	mustMkdir(t, filepath.Join(data, ".latchfs"))
	mustMkdir(t, filepath.Join(data, "src"))
	t.Chdir(filepath.Join(data, "src"))
	sys := fakeSystem(nil, nil) // with no mount at all
	run := func(args ...string) outcome {
		var stdout, stderr strings.Builder
		code := executeOn(sys, args, &stdout, &stderr)
		return outcome{code, stdout.String(), stderr.String()}
	}
	if got := run("audit", "src"); got != (outcome{}) {
		t.Errorf("without a trail: %v", got)
	}
	half := strings.Index(auditTrail, `{"event":"refusal"`)
	mustWrite(t, filepath.Join(data, ".latchfs", "events.jsonl.1"), auditTrail[:half], 0o600)
	mustWrite(t, filepath.Join(data, ".latchfs", "events.jsonl"), auditTrail[half:]+`{"event":"commit","times`, 0o600)
	got := run("audit", "--event", "commit")
	if got.code != 0 || strings.Count(got.stdout, "\n") != 4 || !strings.Contains(got.stderr, "6 lines") {
		t.Errorf("from below: %v", got)
	}
	if got := run("audit", data); strings.Count(got.stdout, "\n") != 21 {
		t.Errorf("of all: %v", got)
	}
	if got := run("audit", "-f"); got.code != 1 || !strings.Contains(got.stderr, "not mounted") {
		t.Errorf("followed: %v", got)
	}
	if got := run("audit", data, d.root); got.code != 1 || !strings.Contains(got.stderr, "not in a latchfs mount") {
		t.Errorf("of no data directory: %v", got)
	}
	other := t.TempDir()
	mustMkdir(t, filepath.Join(other, ".latchfs"))
	if got := run("audit", data, other); got.code != 2 {
		t.Errorf("of two: %v", got)
	}
}

func TestParseMoment(t *testing.T) {
	zone := time.FixedZone("", 3600)
	now := time.Date(2026, 3, 2, 12, 0, 0, 0, zone)
	for s, want := range map[string]time.Time{
		"2h":                      now.Add(-2 * time.Hour),
		"0s":                      now,
		"1d":                      now.Add(-24 * time.Hour),
		"2d12h":                   now.Add(-60 * time.Hour),
		"2026-03-01T09:00:00Z":    time.Date(2026, 3, 1, 9, 0, 0, 0, time.UTC),
		"2026-03-01T09:00:00.25Z": time.Date(2026, 3, 1, 9, 0, 0, 250e6, time.UTC),
		"2026-03-01T09:00-05:00":  time.Date(2026, 3, 1, 14, 0, 0, 0, time.UTC),
		"2026-03-01 09:00:07":     time.Date(2026, 3, 1, 9, 0, 7, 0, zone),
		"2026-03-01T09:00":        time.Date(2026, 3, 1, 9, 0, 0, 0, zone),
		"2026-03-01":              time.Date(2026, 3, 1, 0, 0, 0, 0, zone),
		"09:30":                   time.Date(2026, 3, 2, 9, 30, 0, 0, zone),
		"09:30:01":                time.Date(2026, 3, 2, 9, 30, 1, 0, zone),
	} {
		if got, err := parseMoment(s, now); err != nil || !got.Equal(want) {
			t.Errorf("%s: %v, %v, want %v", s, got, err, want)
		}
	}
	for _, s := range []string{"", "soon", "-2h", "d", "1d-2h", "-1d", "2026-13-01", "25:00"} {
		if got, err := parseMoment(s, now); err == nil {
			t.Errorf("%q: %v", s, got)
		}
	}
}

func TestActorMatches(t *testing.T) {
	me, other := os.Getuid(), os.Getuid()+1
	for _, test := range []struct {
		a    author
		name string
		want bool
	}{
		{author{Actor: "agent-7", Program: "bash", UID: &me}, "agent-7", true},
		{author{Actor: "agent-7", Program: "bash", UID: &me}, "bash", false},
		{author{Actor: "bash", Program: "bash"}, "bash", true},
		{author{Program: "bash"}, "bash", true},
		{author{Program: "bash"}, "root", false},
		{author{Program: "bash", UID: new(int)}, "root", true},
		{author{Program: "bash", UID: &other}, "root", false},
		{author{Program: "bash", UID: new(int)}, "0", true},
	} {
		var f actorFlag
		if err := f.Set(test.name); err != nil || f.matches(&test.a) != test.want {
			t.Errorf("%+v is %q: %v, want %v", test.a, test.name, !test.want, test.want)
		}
	}
}
