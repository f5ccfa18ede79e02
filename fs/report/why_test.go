package report

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// Every kind of refusal, in the words of SEED C7 and W7.
func refusals() []Refusal {
	python, stale, flock, foreign := python(), silent(), flock(), foreign()
	at := func(seconds int) time.Time { return noon.Add(time.Duration(seconds) * time.Second) }
	return []Refusal{
		{Time: at(-9), Path: "src/a.json", Operation: "open", Errno: "EBUSY", Wait: 30 * time.Second, Holder: &python, PID: 4800},
		{Time: at(-8), Path: "src/a.json", Operation: "open", Errno: "EAGAIN", Holder: &python, PID: 4800},
		{Time: at(-7), Path: "log/old report.txt", Operation: "unlink", Errno: "EBUSY", Wait: 5 * time.Second, Holder: &stale, PID: 4800},
		{Time: at(-6), Path: "b", Operation: "rename", Errno: "EDEADLK", Holder: &flock, PID: 4801},
		{Time: at(-5), Path: foreign.Path, Operation: "truncate", Errno: "EBUSY", Wait: 90 * time.Second, Holder: &foreign, PID: 4801},
		{Time: at(-4), Path: "c\n", Operation: "open", Errno: "EINTR", Wait: 250 * time.Millisecond, Holder: &flock, PID: 4801},
		{Time: at(-3), Path: "src/a.json", Operation: "close", Errno: "ESTALE", Reason: "the lock was stolen by vim[4800] (token 18)", Kept: "r-1", PID: 4711},
		{Time: at(-2), Path: "", Operation: "close", Errno: "EBUSY", Reason: "the file changed while it was being written", Kept: "r-2",
			Suggestion: "Read the file again and repeat the change."},
		{Time: at(-1), Path: "a.json", Operation: "open", Errno: "EBADMSG", Reason: "json: line 3, column 8: a value is expected here",
			Content: "\t\"b\": }\x1b[2J", Kept: "r-3", PID: 4800},
		{Time: at(-1), Path: "b.conf", Operation: "rename", Errno: "EBADMSG", Reason: "command: /bin/check ended with exit status 1",
			Output: []string{"line 1: what is \x1b[31mthis?", "1 error"}, PID: 4800},
		{Time: at(-1), Path: "big.iso", Operation: "open", Errno: "EINTR", PID: 10296, Kept: "1f0376",
			Reason:     "curl[10296] was killed by SIGTERM before it closed big.iso, so the 12 MB that it had written did not become the file",
			Suggestion: "To make them the file after all: latchfs rejected restore 1f0376"},
	}
}

func TestWhy(t *testing.T) {
	golden(t, "why", Why(newestFirst(), alice, time.UTC))
	golden(t, "why-stranger", Why(newestFirst(), stranger, time.UTC))
	golden(t, "why-empty", Why(nil, stranger, time.UTC))
}

// newestFirst are the refusals in the order in which they are shown.
func newestFirst() []Refusal {
	list := refusals()
	slices.SortStableFunc(list, func(a, b Refusal) int { return b.Time.Compare(a.Time) })
	return list
}

func TestMessage(t *testing.T) {
	holder := &Record{Path: "f", Session: "S", Operation: "O", Asker: Asker{Owner: Process{1, 1}, Program: "p"}}
	tests := []struct {
		name string
		r    Refusal
		want string
	}{
		{"timeout", Refusal{Path: "f", Errno: "EBUSY", Wait: 30 * time.Second, Holder: holder},
			"f is locked by p[1]; this request gave up after 30s\nFailed to acquire lock (timeout after 30s)\nCould not acquire lock within 30s. Held by session 'S' for operation 'O'"},
		{"fail-fast", Refusal{Path: "f", Errno: "EAGAIN", Holder: holder},
			"f is locked by p[1]\nCannot acquire lock on f (another process may be active)\nHeld by session 'S' for operation 'O'"},
		{"no session", Refusal{Path: "f", Errno: "EAGAIN", Holder: &Record{Operation: "flock", Asker: Asker{Program: "p", Owner: Process{1, 1}}}},
			"f is locked by p[1]\nCannot acquire lock on f (another process may be active)\nHeld by p[1] for operation 'flock'"},
		{"not waited for", Refusal{Path: "f", Errno: "EBUSY", Holder: holder},
			"f is locked by p[1]\nCannot acquire lock on f (another process may be active)\nHeld by session 'S' for operation 'O'"},
		{"a name", Refusal{Name: "deploy", Errno: "EAGAIN", Holder: holder},
			"name:deploy is locked by p[1]\nCannot acquire lock on name:deploy (another process may be active)\nHeld by session 'S' for operation 'O'"},
		{"since", Refusal{Path: "f", Errno: "EBUSY", Wait: 8 * time.Second, Time: noon.Local(), Holder: &Record{
			Path: "f", Session: "S", Operation: "open", Asker: Asker{Owner: Process{31719, 1}, Program: "python3", Actor: "agent-7"}, Since: noon.Add(-time.Minute)}},
			"f is locked by python3[31719] as agent-7 since " + noon.Add(-time.Minute).Local().Format(time.TimeOnly) + "; this request gave up after 8s\n" +
				"Failed to acquire lock (timeout after 8s)\nCould not acquire lock within 8s. Held by session 'S' for operation 'open'"},
		{"half a second", Refusal{Path: "f", Errno: "EBUSY", Wait: 500*time.Millisecond + 123, Holder: nil},
			"Failed to acquire lock (timeout after 500ms)"},
		{"a full disk", Refusal{Path: "f", Errno: "ENOSPC", Reason: "commit failed: no space left on device"},
			"f was left as it was"},
		{"a transaction", Refusal{Path: "f", Errno: "ECANCELED", Reason: "the transaction was rolled back: R", Kept: "r-1"},
			"f was left as it was: the change belonged to a transaction, of which nothing was published"},
	}
	for _, tt := range tests {
		if got := tt.r.Message(); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}

// The command that Advice prints can be pasted into a shell.
func TestHeldFileIsQuoted(t *testing.T) {
	for path, want := range map[string]string{
		"a/b":      "held/a/b.lock",
		"a b":      "'held/a b.lock'",
		"it's":     `'held/it'\''s.lock'`,
		"a\n'\xff": `$'held/a\n\'\xff.lock'`,
		`back\`:    `$'held/back\\.lock'`,
	} {
		if got := (&Record{Path: path}).file(); got != want {
			t.Errorf("the file of %q is %s, want %s", path, got, want)
		}
	}
}

// The lock that is to be released may have another name than what was refused.
func TestAdviceNamesTheHoldersRecord(t *testing.T) {
	for want, holder := range map[string]Record{
		"held/memory.lock":  {Path: "memory", Tree: true, File: "memory/a", Stale: true},
		"names/deploy.lock": {Name: "deploy", Stale: true},
	} {
		if got := (Refusal{Path: "memory/b", Errno: "EBUSY", Holder: &holder}).Advice(); !strings.Contains(got, "`rm "+want+"`") {
			t.Errorf("no %s in %q", want, got)
		}
	}
}
