package claimfile

import (
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"latchfs/lockmgr/policy/lockfile"
)

// shared is what most of the looks have in common: Alpha at noon, where process 12345 is
// dead, and a claim of ten seconds.
func shared(change func(*Look)) *Look {
	l := &Look{Now: noon, Made: ago(10), Boot: ago(3600), Host: "alpha", Dead: func(pid int32) bool { return pid == 12345 }}
	if change != nil {
		change(l)
	}
	return l
}

func ago(s float64) time.Time { return noon.Add(-time.Duration(s * float64(time.Second))) }

func TestJudge(t *testing.T) {
	rules := map[lockfile.Format]*lockfile.Convention{
		lockfile.Beads:    {Format: lockfile.Beads, TTL: time.Second, Malformed: lockfile.MalformedFree},
		lockfile.Clawdbot: {Format: lockfile.Clawdbot, TTL: 30 * time.Second, ForeignTTL: 10 * time.Second, Malformed: lockfile.MalformedFree},
		lockfile.LockV1:   {Format: lockfile.LockV1, TTL: 900 * time.Second, Malformed: lockfile.MalformedLocked},
		lockfile.OwnerDir: {Format: lockfile.OwnerDir, TTL: 300 * time.Second, Malformed: lockfile.MalformedLocked},
		lockfile.Flock:    {Format: lockfile.Flock, TTL: time.Second, Malformed: lockfile.MalformedFree},
	}
	record := func(pid int32, host string, since float64) *Record {
		return &Record{Holder: "S", PID: pid, Host: host, Since: ago(since)}
	}
	heartbeat := func(age float64, ttl time.Duration) *Record {
		return &Record{Holder: "r-1", Name: "x", PID: 12345, Host: "alpha", Since: ago(5000), Beat: ago(age), TTL: ttl}
	}
	gone := func(l *Look) { l.Gone = true }
	for _, c := range []struct {
		name   string
		format lockfile.Format
		r      *Record
		look   func(*Look)
		stale  string  // the reason; "" for a claim that is not
		due    float64 // in so many seconds from noon, and a nanosecond; 0: never
	}{
		{"B3 alive", lockfile.Beads, record(1, "alpha", 9e6), nil, "", 0},
		{"B3 dead", lockfile.Beads, record(12345, "alpha", 5), nil, "process 12345 is dead", 0},
		{"B3 case of the host", lockfile.Beads, record(12345, "ALPHA", 5), nil, "process 12345 is dead", 0},
		{"B3 another host", lockfile.Beads, record(12345, "beta", 9e6), gone, "", 0},
		{"B3 a host without a name", lockfile.Beads, record(12345, "", 5), func(l *Look) { l.Host = "" }, "", 0},
		{"B3 nothing known of processes", lockfile.Beads, record(12345, "alpha", 5), func(l *Look) { l.Dead = nil }, "", 0},
		{"B2 malformed", lockfile.Beads, nil, func(l *Look) { l.Gone, l.Made = true, ago(9e6) }, "", 0},

		{"W5 alive", lockfile.Clawdbot, record(1, "alpha", 5), gone, "", 25},
		{"W5 dead", lockfile.Clawdbot, record(12345, "alpha", 5), nil, "process 12345 is dead", 0},
		{"W5 old", lockfile.Clawdbot, record(1, "alpha", 45.2), nil, "lock is 45.2s old (>30s)", 0},
		{"W5 at the limit", lockfile.Clawdbot, record(1, "alpha", 30), nil, "", 0.0},
		{"W5 old, but working", lockfile.Clawdbot, record(1, "alpha", 45.2), func(l *Look) { l.Progress = ago(1) }, "", 29},
		{"W5 old, no longer working", lockfile.Clawdbot, record(1, "alpha", 120), func(l *Look) { l.Progress = ago(31) }, "lock is 120.0s old, without progress for 31.0s (>30s)", 0},
		{"W5 another host", lockfile.Clawdbot, record(12345, "beta", 9), nil, "", 1},
		{"W5 another host, old", lockfile.Clawdbot, record(1, "beta", 12), nil, "lock is 12.0s old (>10s)", 0},
		{"W5 in the future", lockfile.Clawdbot, record(1, "alpha", -9e6), nil, "", 20},
		{"W5 in the future, long ago", lockfile.Clawdbot, record(1, "alpha", -9e6), func(l *Look) { l.Made = ago(31) }, "lock is 31.0s old (>30s)", 0},
		{"W5 made in the future, too", lockfile.Clawdbot, record(1, "alpha", -9e6), func(l *Look) { l.Made = ago(-9e6) }, "", 30},
		{"W5 no time", lockfile.Clawdbot, &Record{Holder: "S", PID: 1, Host: "alpha"}, nil, "", 20},
		{"W10 malformed, being written", lockfile.Clawdbot, nil, func(l *Look) { l.Made = ago(1) }, "", 9},
		{"W10 malformed", lockfile.Clawdbot, nil, func(l *Look) { l.Made = ago(10.5) }, "lock file is malformed for 10.5s (>10s)", 0},
		{"W10 malformed, writer gone", lockfile.Clawdbot, nil, func(l *Look) { l.Made, l.Gone = ago(0), true }, "lock file is malformed", 0},

		{"T7 fresh", lockfile.LockV1, heartbeat(899, 0), nil, "", 1},
		{"T7 at the limit", lockfile.LockV1, heartbeat(900, 0), nil, "", 0.0},
		{"T7 stale", lockfile.LockV1, heartbeat(901, 0), nil, "no heartbeat for 901s (ttl 900s)", 0},
		{"T4 the record's ttl", lockfile.LockV1, heartbeat(61, time.Minute), nil, "no heartbeat for 61s (ttl 60s)", 0},
		{"T13 pid and writer prove nothing", lockfile.LockV1, heartbeat(10, 0), gone, "", 890},
		{"T12 in the future", lockfile.LockV1, heartbeat(-9e6, 0), nil, "", 890},
		{"T12 in the future, long ago", lockfile.LockV1, heartbeat(-9e6, 0), func(l *Look) { l.Made = ago(901) }, "no heartbeat for 901s (ttl 900s)", 0},
		{"T12 malformed", lockfile.LockV1, nil, func(l *Look) { l.Made, l.Gone = ago(9e6), true }, "", 0},

		{"M5 its session lives", lockfile.OwnerDir, record(0, "", 9e6), nil, "", 0},
		{"M6 its session has ended", lockfile.OwnerDir, record(0, "", 3000), func(l *Look) { l.Gone, l.Progress = true, ago(100) }, "", 200},
		{"M6 long ago", lockfile.OwnerDir, record(0, "", 3000), func(l *Look) { l.Gone, l.Progress = true, ago(301) }, "its session has ended, without a sign of life for 301s (>300s)", 0},
		{"M5 before the boot", lockfile.OwnerDir, record(0, "", 10), func(l *Look) { l.Made = ago(3601) }, "lock was made before the last boot", 0},
		{"M5 malformed, before the boot", lockfile.OwnerDir, nil, func(l *Look) { l.Made = ago(3601) }, "lock was made before the last boot", 0},
		{"M6 malformed, its session has ended", lockfile.OwnerDir, nil, func(l *Look) { l.Gone, l.Progress, l.Made = true, ago(100), ago(150) }, "", 200},
		{"M6 malformed, long ago", lockfile.OwnerDir, nil, func(l *Look) { l.Gone, l.Progress, l.Made = true, ago(301), ago(400) }, "lock file is malformed, and its session has ended, 301s ago (>300s)", 0},

		{"C4", lockfile.Flock, record(12345, "alpha", 9e6), gone, "", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			rule, look := rules[c.format], shared(c.look)
			v := Judge(rule, c.r, look)
			if v.Stale != (c.stale != "") || v.Reason != c.stale {
				t.Errorf("stale %v: %q, want %q", v.Stale, v.Reason, c.stale)
			}
			limited := !v.Stale && (c.due != 0 || strings.HasSuffix(c.name, "at the limit"))
			if want := ago(-c.due).Add(1); limited != !v.Due.IsZero() || limited && !v.Due.Equal(want) {
				t.Errorf("due at %v, want %v %v", v.Due, limited, want)
			}
			checkDue(t, rule, c.r, look, v)
		})
	}
}

// A ttl of 0 never ends, and a malformed record without any ttl is free at once.
func TestNoTTL(t *testing.T) {
	old := &Record{Holder: "S", PID: 1, Host: "alpha", Since: ago(9e6), Beat: ago(9e6)}
	for _, format := range []lockfile.Format{lockfile.Clawdbot, lockfile.LockV1, lockfile.OwnerDir} {
		if v := Judge(&lockfile.Convention{Format: format}, old, shared(func(l *Look) { l.Gone = true })); v.Stale || !v.Due.IsZero() {
			t.Errorf("%s: %+v", format, v)
		}
	}
	if v := Judge(&lockfile.Convention{Format: lockfile.Clawdbot, Malformed: lockfile.MalformedFree}, nil, shared(nil)); !v.Stale {
		t.Errorf("malformed: %+v", v)
	}
}

// A verdict is stale when it said that it would be, and not before.
func checkDue(t *testing.T, rule *lockfile.Convention, r *Record, l *Look, v Verdict) {
	t.Helper()
	if v.Stale == !v.Due.IsZero() && v.Stale {
		t.Errorf("stale, and due at %v", v.Due)
	}
	if v.Due.IsZero() || r != nil && (r.Since.After(l.Now) || r.Beat.After(l.Now)) || l.Made.After(l.Now) {
		return // a time that is reached is believed
	}
	at := *l
	at.Now = v.Due
	if !Judge(rule, r, &at).Stale {
		t.Errorf("not stale at %v", v.Due)
	}
	at.Now = v.Due.Add(-1)
	if Judge(rule, r, &at).Stale {
		t.Errorf("stale before %v", v.Due)
	}
}

func TestStaleSince(t *testing.T) {
	rule := &lockfile.Convention{Format: lockfile.LockV1, TTL: 900 * time.Second}
	v := Judge(rule, &Record{Beat: ago(950)}, shared(nil))
	if want := ago(50); !v.StaleSince().Equal(want) || v.Age != 950*time.Second || v.Limit != rule.TTL {
		t.Errorf("%+v since %v, want %v", v, v.StaleSince(), want)
	}
	if v := Judge(&lockfile.Convention{Format: lockfile.Beads}, &Record{PID: 12345, Host: "alpha"}, shared(nil)); !v.Stale || !v.StaleSince().IsZero() {
		t.Errorf("%+v", v)
	}
}

func TestLines(t *testing.T) {
	evil := &Record{Holder: "X\n2026 level=error msg=\"gone\"\x00\u202e\\", Name: "n", Operation: "o\tp", Actor: strings.Repeat("é", 150)}
	dead := Verdict{Stale: true, Reason: "process 12345 is dead"}
	for _, c := range []struct {
		format lockfile.Format
		r      *Record
		v      Verdict
		want   string
	}{
		{lockfile.Beads, &Record{Holder: "X"}, Verdict{}, "Skipping database (locked by X)"},
		{lockfile.Beads, &Record{Holder: "X"}, dead, "Removed stale lock (X), proceeding with sync"},
		{lockfile.Beads, evil, Verdict{}, `Skipping database (locked by X\n2026 level=error msg="gone"\x00\u202e\\)`},
		{lockfile.Clawdbot, &Record{Holder: "S", Operation: "O"}, Verdict{}, "Held by session 'S' for operation 'O'"},
		{lockfile.Clawdbot, &Record{Holder: "S"}, Verdict{}, "Held by session 'S'"},
		{lockfile.Clawdbot, &Record{Holder: "S"}, dead, "Breaking stale lock: process 12345 is dead"},
		{lockfile.Clawdbot, nil, Verdict{Stale: true, Reason: "lock file is malformed"}, "Breaking stale lock: lock file is malformed"},
		{lockfile.Clawdbot, &Record{}, Verdict{Stale: true, Reason: "lock is 45.2s old (>30s)"}, "Breaking stale lock: lock is 45.2s old (>30s)"},
		{lockfile.LockV1, &Record{Name: "n", Holder: "r"}, Verdict{Stale: true, Reason: "no heartbeat for 901s (ttl 900s)"}, "Stale lock n of request r removed: no heartbeat for 901s (ttl 900s)"},
		{lockfile.LockV1, evil, Verdict{}, `Lock n is held by X\n2026 level=error msg="gone"\x00\u202e\\ (actor ` + strings.Repeat("é", 100) + `…, intent o\tp)`},
		{lockfile.OwnerDir, &Record{Holder: "w\xff"}, Verdict{Stale: true, Reason: "lock was made before the last boot"}, `Reclaimed lock of w\xff: lock was made before the last boot`},
		{lockfile.OwnerDir, &Record{Holder: "w"}, Verdict{}, "Locked by w"},
	} {
		got := LogLine(c.format, c.r, c.v)
		if got != c.want {
			t.Errorf("%s\nwant\n%s", got, c.want)
		}
		checkLine(t, got)
	}
	_, err := Parse(lockfile.Beads, Content{Data: []byte("{")})
	if got, want := MalformedLine(lockfile.Beads, err), "Skipping database (lock check failed: malformed lock file: it is not JSON)"; got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
	if got, want := MalformedLine(lockfile.LockV1, err), "Lock check failed: malformed lock file: it is not JSON"; got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
}

// checkLine fails the test if a line is not one line of printable text.
func checkLine(t *testing.T, line string) {
	t.Helper()
	unfit := func(r rune) bool { return r != ' ' && !unicode.IsPrint(r) }
	if !utf8.ValidString(line) || strings.ContainsFunc(line, unfit) || len(line) > 2000 {
		t.Errorf("not fit for a log: %q", line)
	}
}
