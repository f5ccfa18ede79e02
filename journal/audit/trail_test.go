package audit

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func readLog(t testing.TB, l *View) string {
	t.Helper()
	b, err := io.ReadAll(io.NewSectionReader(l, 0, l.Size()))
	check(t, err)
	return string(b)
}

func TestEventLine(t *testing.T) {
	trail := newStage(t).open()
	check(t, trail.Append(Event{
		Time: time.Date(2026, 1, 2, 3, 4, 5, 6000, time.FixedZone("", 3600)), Event: "commit", Path: "a/b\xff",
		Session: "s1", Actor: "me", PID: 42, Token: 7, Detail: map[string]any{"bytes": 12, "event": "mine"},
	}))
	check(t, trail.Append(Event{Event: "start"}))
	lines := strings.Split(readLog(t, trail.View()), "\n")
	var got map[string]any
	check(t, json.Unmarshal([]byte(lines[0]), &got))
	want := map[string]any{
		"timestamp": "2026-01-02T02:04:05.000006Z", "event": "commit", "path": "a/b\ufffd", "path_base64": "YS9i/w==",
		"session": "s1", "actor": "me", "pid": 42.0, "token": 7.0, "bytes": 12.0,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	clear(got)
	check(t, json.Unmarshal([]byte(lines[1]), &got))
	if len(got) != 2 || got["timestamp"] == "" {
		t.Errorf("an event with nothing set: %s", lines[1])
	}
}

func TestViewIsStableAcrossRotation(t *testing.T) {
	s := newStage(t)
	s.max = 1000
	trail := s.open()
	view := trail.View()
	var followed []byte
	for i := range 100 {
		check(t, trail.Append(Event{Event: "commit", Token: uint64(i + 1)}))
		b := make([]byte, view.Size()-int64(len(followed)))
		must[int](t)(view.ReadAt(b, int64(len(followed))))
		followed = append(followed, b...)
	}
	if n := strings.Count(string(followed), "\n"); n != 100 {
		t.Errorf("a follower has seen %d of 100 events", n)
	}
	if _, err := view.ReadAt(make([]byte, 1), 0); !errors.Is(err, ErrRotated) {
		t.Errorf("reading what is gone: %v", err)
	}
	if _, err := view.ReadAt(make([]byte, 1), view.Size()); err != io.EOF {
		t.Errorf("reading at the end: %v", err)
	}
	tail := readLog(t, trail.View())
	if !strings.HasSuffix(string(followed), tail) || len(tail) < 1000 {
		t.Errorf("a new view has %d bytes, not the end of the log", len(tail))
	}
	files := s.files()
	if files[keptName]+files[oldName]+files[Name] != tail {
		t.Error("the view differs from the files")
	}
	check(t, trail.Close())
	if got := readLog(t, s.open().View()); got != tail {
		t.Error("the view differs after a restart")
	}
}

// Whoever does most loses the oldest events first; the others keep theirs, in order.
func TestEventsAreSharedByUser(t *testing.T) {
	const alice, bob = 61001, 61002
	s := newStage(t)
	s.max = 4000
	trail := s.open()
	event := func(uid int, path string) {
		t.Helper()
		check(t, trail.Append(Event{Event: "commit", Path: path, Detail: map[string]any{
			"uid": uid, "stolen_by": map[string]any{"uid": 7}, "reason": `"uid":9`,
		}}))
	}
	for i := range 5 {
		event(alice, fmt.Sprint("alice ", i))
	}
	follower := trail.View()
	for i := range 1000 {
		event(bob, fmt.Sprint("bob ", i))
	}
	for _, restarted := range []bool{false, true} {
		log := readLog(t, trail.View())
		if len(log) > 11_000 {
			t.Errorf("%d bytes are kept", len(log))
		}
		for i := range 5 {
			if !strings.Contains(log, fmt.Sprintf(`"path":"alice %d"`, i)) {
				t.Errorf("restarted %v: event %d of the other user is gone", restarted, i)
			}
		}
		at := 0
		for line := range strings.Lines(log) {
			var e struct{ Path string }
			check(t, json.Unmarshal([]byte(line), &e))
			n, bobs := 0, false
			if _, err := fmt.Sscanf(e.Path, "bob %d", &n); err == nil {
				bobs = true
			}
			if bobs && n < at {
				t.Errorf("%s comes behind number %d", line, at)
			}
			at = max(at, n)
		}
		if at != 999 {
			t.Errorf("the newest is number %d", at)
		}
		if !restarted {
			if _, err := follower.ReadAt(make([]byte, 10), 0); !errors.Is(err, ErrRotated) {
				t.Errorf("a view from before: %v", err)
			}
			check(t, trail.Close())
			trail = s.open()
		}
	}
}

// No event is longer than a bound, whatever somebody has put into it.
func TestLongEventsAreShortened(t *testing.T) {
	trail := newStage(t).open()
	long := strings.Repeat("x", 1<<20)
	check(t, trail.Append(Event{Event: "refusal", Path: "p", Actor: long, Detail: map[string]any{
		"uid": uint32(5), "operation": long, "files": []string{long},
	}}))
	line := readLog(t, trail.View())
	var got map[string]any
	check(t, json.Unmarshal([]byte(line), &got))
	if len(line) > maxLine || got["shortened"] != true || got["uid"] != 5.0 || got["path"] != "p" || userOf([]byte(line)) != 5 {
		t.Errorf("%d bytes: %.300s", len(line), line)
	}
}

// The bound is one of what is written, in which a byte of an event may be six.
func TestEscapedEventsAreBounded(t *testing.T) {
	for name, e := range map[string]Event{
		"grows":         {Event: "e", Detail: map[string]any{"uid": 5, "reason": strings.Repeat("\u0085", 32_000)}},
		"stays long":    {Event: "e", Path: strings.Repeat("\xff", 8<<10), Actor: strings.Repeat("\x01", 8<<10), Detail: map[string]any{"uid": 5, "reason": strings.Repeat("\x01", 8<<10)}},
		"many keys":     {Event: "e", Detail: map[string]any{"uid": 5}},
		"long key":      {Event: "e", Detail: map[string]any{"uid": 5, strings.Repeat("k", maxLine): 1}},
		"other fields":  {Event: strings.Repeat("\x01", 32<<10), Session: strings.Repeat("\x01", 32<<10), Detail: map[string]any{"uid": 5}},
		"just too long": {Event: "e", Detail: map[string]any{"uid": 5, "r": strings.Repeat("x", maxLine-len(`{"event":"e","r":"","timestamp":"2026-01-02T03:04:05Z","uid":5}`))}},
	} {
		if name == "many keys" {
			for i := range 10_000 {
				e.Detail[fmt.Sprint("key", i)] = i
			}
		}
		e.Time = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
		trail := newStage(t).open()
		check(t, trail.Append(e))
		line := readLog(t, trail.View())
		var got map[string]any
		check(t, json.Unmarshal([]byte(line), &got))
		if len(line) > maxLine || got["shortened"] != true || got["event"] == "" || userOf([]byte(line)) != 5 || e.Path != "" && got["path"] == nil {
			t.Errorf("%s: %d bytes: %.300s", name, len(line), line)
		}
	}
}

// A text is cut between characters: half of one would be another.
func TestCut(t *testing.T) {
	for n, want := range []string{"", "a", "a", "aé", "aé\xff", "aé\xff", "aé\xff"} {
		if got := cut("aé\xff\u2028", n); got != want {
			t.Errorf("%d bytes: %q, want %q", n, got, want)
		}
	}
}

func TestFairShare(t *testing.T) {
	for _, tt := range []struct {
		has        map[uint32]int64
		most, want int64
	}{
		{nil, 10, 10}, {map[uint32]int64{1: 50}, 10, 10},
		{map[uint32]int64{1: 2, 2: 50}, 10, 8}, {map[uint32]int64{1: 50, 2: 50, 3: 1}, 10, 4}, {map[uint32]int64{1: 5}, 0, 0},
	} {
		got := FairShare(tt.has, tt.most)
		var kept int64
		for _, n := range tt.has {
			kept += min(n, got)
		}
		if kept > tt.most || got != tt.want {
			t.Errorf("%v of %d: %d, want %d", tt.has, tt.most, got, tt.want)
		}
	}
}

// What was being made is worthless, and goes.
func TestUnfinishedPartIsRemoved(t *testing.T) {
	s := newStage(t)
	s.write(oldName, "{}\n")
	s.write(newName, "{}\n{}\n{")
	if log := readLog(t, s.open().View()); log != "{}\n" || len(s.files()) != 2 {
		t.Errorf("%q in %d files", log, len(s.files()))
	}
}

func TestUnfinishedEventIsCut(t *testing.T) {
	for name, damaged := range map[string]string{
		"half a line":       "{\"event\":\"a\"}\n{\"event\":\"b\"}\n{\"eve",
		"zeros":             "{\"event\":\"a\"}\n{\"event\":\"b\"}\n\x00\x00\x00",
		"zeros before line": "{\"event\":\"a\"}\n{\"event\":\"b\"}\n{\"\x00\x00\"}\n",
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t)
			check(t, os.WriteFile(s.path(Name), []byte(damaged), 0o600))
			trail := s.open()
			if got, want := readLog(t, trail.View()), "{\"event\":\"a\"}\n{\"event\":\"b\"}\n"; got != want {
				t.Errorf("%q, want %q", got, want)
			}
			check(t, trail.Append(Event{Event: "c"}))
			if n := strings.Count(readLog(t, trail.View()), "\n"); n != 3 {
				t.Errorf("%d lines, want 3", n)
			}
		})
	}
}

// Many write while others read; each reads whole lines, and every line is there.
func TestConcurrentUse(t *testing.T) {
	s := newStage(t)
	s.max = 2 << 10
	trail := s.open()
	var wg sync.WaitGroup
	for writer := range 4 {
		wg.Go(func() {
			for i := range 200 {
				if err := trail.Append(Event{Event: "commit", Path: fmt.Sprint(writer, " ", i), Token: uint64(i)}); err != nil {
					t.Error(err)
				}
			}
		})
		wg.Go(func() {
			for range 50 {
				view := trail.View()
				b := make([]byte, view.Size())
				n, err := view.ReadAt(b, 0)
				if errors.Is(err, ErrRotated) || len(b) == 0 {
					continue
				}
				if err != nil || n != len(b) || n > 0 && (b[0] != '{' || b[n-1] != '\n') {
					t.Errorf("%d of %d bytes, %v: %.100q", n, len(b), err, b)
				}
			}
		})
	}
	wg.Wait()
	files := s.files()
	if got := readLog(t, trail.View()); got != files[keptName]+files[oldName]+files[Name] {
		t.Error("the view differs from the files")
	}
	check(t, trail.Close())
}
