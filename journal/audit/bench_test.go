package audit

import (
	"testing"
	"time"
)

// commitEvent is what a save writes to the audit trail.
func commitEvent() Event {
	return Event{
		Time: time.Now(), Event: "commit", Path: "work/project/src/state.json", Session: "0123abcd-17", Actor: "agent-7", PID: 4711, Token: 17,
		Detail: map[string]any{"program": "python3", "uid": uint32(1000), "bytes": int64(4096), "operation": "open"},
	}
}

func BenchmarkAppend(b *testing.B) {
	trail := newStage(b).open()
	b.ReportAllocs()
	for b.Loop() {
		if err := trail.Append(commitEvent()); err != nil {
			b.Fatal(err)
		}
	}
}
