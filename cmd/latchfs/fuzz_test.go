package main

import (
	"strings"
	"testing"
	"time"
	"unicode"
)

// FuzzTrail reads any line as one of the audit trail and of a history, and shows it.
func FuzzTrail(f *testing.F) {
	for _, s := range []string{
		`{"event":"commit","bytes":120,"records":1,"operation":"append","path":"run.log","pid":4713,"timestamp":"2026-03-01T09:00:03Z"}`,
		`{"event":"lock_stolen","actor":"so","path":"b","pid":600,"previous_lock":{},"stolen_by":{"pid":601,"program":"cron"},"timestamp":"2026-03-01T09:00:12Z"}`,
		`{"event":"refusal","path":"\u202e","held_by":[1],"reason":"\n","more":3,"timestamp":"2026-03-01T09:00:12Z"}`,
		`{"event":"txn_committed","files":["a",1],"removed":{},"timestamp":"2026-03-01T09:00:12Z"}`,
		`{"version":1,"path":"a","path_base64":"/w==","event":"commit","time":"2026-03-01T09:00:12Z"}`,
		`{"event":"recovery","timestamp":"2026-03-01T09:00:12Z","pid":"x","uid":-1,"path":7}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		if e, ok := parseEvent(line); ok {
			text := string(e.appendLine(nil))
			if i := strings.IndexFunc(strings.TrimRight(text, "\n"), unicode.IsControl); i >= 0 {
				t.Errorf("%q is shown as %q", line, text)
			}
			e.paths()
		}
		parseVersion(line)
	})
}

// FuzzMoment reads any text as a point in time.
func FuzzMoment(f *testing.F) {
	for _, s := range []string{"1d2h", "2026-01-02", "15:04", "65535d2562047h", "-1h", "d"} {
		f.Add(s)
	}
	now := time.Date(2026, 3, 1, 9, 0, 0, 0, time.UTC)
	f.Fuzz(func(t *testing.T, s string) {
		if d, err := parseAge(s); err == nil && d < 0 {
			t.Errorf("%q is %v", s, d)
		}
		_, _ = parseMoment(s, now)
	})
}
