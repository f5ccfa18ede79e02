package audit

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Events that could not be written are counted, and the count precedes the next that could.
func TestEventsLost(t *testing.T) {
	s := newStage(t)
	trail := s.open()
	check(t, trail.Append(Event{Event: "first"}))
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for range 2 { // a gap that was told is not told again
		cur := trail.cur
		trail.cur = must[*os.File](t)(os.Open(filepath.Join(s.dir.Name(), Name))) // it cannot be written
		for i := range 3 {
			if err := trail.Append(Event{Event: "lost", Time: at.Add(time.Duration(i) * time.Second)}); err == nil {
				t.Error("an event that was not written has no error")
			}
		}
		check(t, trail.cur.Close())
		trail.cur = cur
		check(t, trail.Append(Event{Event: "next"}))
		check(t, trail.Append(Event{Event: "after"}))
	}
	var got []string
	for line := range strings.Lines(readLog(t, trail.View())) {
		var e struct {
			Event, Since, Reason string
			Count                int
		}
		check(t, json.Unmarshal([]byte(line), &e))
		got = append(got, e.Event)
		if e.Event == EventsLost && (e.Count != 3 || e.Since != "2026-01-02T03:04:05Z" || !strings.Contains(e.Reason, "bad file descriptor")) {
			t.Errorf("the gap is told as %s", line)
		}
	}
	if s := strings.Join(got, " "); s != "first events_lost next after events_lost next after" {
		t.Errorf("the events are %q", s)
	}
}
