package integration

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// lockV1 is a record of the lock/v1 specification.
func lockV1(request string, beat time.Time) string {
	at := beat.UTC().Format(time.RFC3339)
	return fmt.Sprintf(`{"lock_version": "v1", "lock_name": "web", "request_id": %q, "actor": "ann", "intent": "deploy", "intent_version": "3",`+
		`"host_id": "deimos", "pid": 4711, "created_at": %q, "last_heartbeat_at": %q, "ttl_seconds": 900}`, request, at, at)
}

// answerT7 is what `check --json` says of a stale lock: requirements W8 and T7.
type answerT7 struct {
	Locked            bool
	IsStale           bool `json:"is_stale"`
	WeHoldIt          bool `json:"we_hold_it"`
	Error, Suggestion string
	StaleSince        time.Time `json:"stale_since"`
	Age               float64   `json:"age_seconds"`
	TTL               float64   `json:"ttl_seconds"`
	Reason            string    `json:"stale_reason"`
	HeldBy            struct {
		Request string    `json:"request_id"`
		Host    string    `json:"host_id"`
		Beat    time.Time `json:"last_heartbeat_at"`
		Actor   string
		Intent  string
	} `json:"held_by"`
	Holder struct {
		Session   string `json:"session_id"`
		Hostname  string
		Operation string
	}
}

// The answers about a claim say what its record says: who, since when, and since when it
// is stale (requirements T5, T7).
func TestAnswersOfARecord(t *testing.T) {
	alongside(t)
	needsLatchfs(t)
	forEachMount(t, func(t *testing.T, m *Mount) {
		// The claims are those of a shell that is nobody's parent here.
		sh := m.LaunchBash(t, `mkdir locks; while read -r record; do printf '%s' "$record" > locks/web.lock && echo "ready $((++n))"; done`)
		beat := time.Now().Add(-10 * time.Second).Truncate(time.Second)
		sh.Send(lockV1("r-1", beat))
		sh.AwaitLine("ready 1")
		o := m.Latchfs(t, "guard", "--json", "--wait", "0", "--name", "web", "--", "true")
		mustEndWith(t, o, 8, "Held by session 'r-1' for operation 'deploy'")
		for _, field := range []string{`"error":"lock_blocked"`, `"request_id":"r-1"`, `"actor":"ann"`, `"intent":"deploy"`,
			`"last_heartbeat_at":"` + beat.UTC().Format(time.RFC3339) + `"`} {
			if !strings.Contains(o.Stdout, field) {
				t.Errorf("no %s in %s", field, o.Stdout)
			}
		}

		sh.Send(lockV1("r-1", beat.Add(-time.Hour)))
		sh.AwaitLine("ready 2")
		m.AwaitStale(t, "locks/web.lock")
		o = m.Latchfs(t, "check", "--json", "--name", "web")
		mustEndWith(t, o, 1)
		var got answerT7
		m.decode(o.Stdout, &got)
		stale := beat.Add(-time.Hour)
		if got.Error != "lock_stale" || got.HeldBy.Request != "r-1" || got.HeldBy.Host != "deimos" || got.HeldBy.Actor != "ann" ||
			got.HeldBy.Intent != "deploy" || !got.HeldBy.Beat.Equal(stale) || !got.StaleSince.Equal(stale.Add(15*time.Minute)) ||
			got.TTL != 900 || got.Age < 3600 || got.Suggestion == "" || !got.Locked || !got.IsStale || got.WeHoldIt || got.Holder.Hostname != "deimos" ||
			!strings.HasPrefix(got.Reason, "no heartbeat for 36") {
			t.Errorf("%+v\nin %s", got, o.Stdout)
		}
		mustEndWith(t, m.Latchfs(t, "break", "--name", "web"), 0)
		if o := m.Latchfs(t, "check", "--json", "--name", "web"); o.Code != 0 || strings.TrimSpace(o.Stdout) != `{"locked":false}` {
			t.Errorf("afterwards: %+v", o)
		}
		sh.Close()
		sh.Wait()
	}, withArgs("--preset", "tower-fleet"))
}
