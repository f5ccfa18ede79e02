package audit

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"
)

// FuzzTrail begins with any bytes as the files of the audit trail: it can be
// appended to, rotated and read, and what is written is there.
func FuzzTrail(f *testing.F) {
	line := []byte(`{"event":"commit","path":"a","stolen_by":{"uid":3},"uid":61001}` + "\n")
	f.Add(line, line, line)
	f.Add([]byte("\x00\x00"), []byte("no line"), []byte{})
	f.Add(bytes.Repeat(line, 100), []byte("{}\n\"uid\":99999999999999999999\n"), []byte("\n\n\"uid\":\n"))
	f.Fuzz(func(t *testing.T, kept, old, cur []byte) {
		s := newStage(t)
		s.max = 600
		for name, data := range map[string][]byte{keptName: kept, oldName: old, Name: cur} {
			check(t, os.WriteFile(s.path(name), data, 0o600))
		}
		trail := s.open()
		defer trail.Close()
		for i := range 20 {
			check(t, trail.Append(Event{Event: "commit", Path: fmt.Sprint("ours ", i), Detail: map[string]any{"uid": i % 3}}))
		}
		if log := readLog(t, trail.View()); !strings.Contains(log, `"ours 19"`) || !strings.HasSuffix(log, "\n") {
			t.Errorf("the trail ends with %q", log[max(0, len(log)-200):])
		}
	})
}
