package load

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Every work and every curve has a name of its own, by which a client finds it, and says
// what a report needs.
func TestWorks(t *testing.T) {
	seen := map[string]bool{}
	for _, w := range Works() {
		if seen[w.ID] || w.Title == "" || w.Does == "" || w.prepare == nil {
			t.Errorf("%q is incomplete, or there are two", w.ID)
		}
		seen[w.ID] = true
		if got, ok := findWork(w.ID); !ok || got.ID != w.ID {
			t.Errorf("a client does not know %s", w.ID)
		}
	}
}

// Every curve has a name of its own, and points that rise.
func TestCurves(t *testing.T) {
	seen := map[string]bool{}
	for _, c := range Curves() {
		if seen[c.ID] || c.Unit == nil || c.prepare == nil || len(c.Points) < 2 {
			t.Errorf("%s is incomplete, or there are two", c.ID)
		}
		seen[c.ID] = true
		for i := 1; i < len(c.Points); i++ {
			if c.Points[i] <= c.Points[i-1] {
				t.Errorf("%s: the points do not rise: %v", c.ID, c.Points)
			}
		}
		if w, ok := findWork("curve-" + c.ID); !ok || w.prepare == nil {
			t.Errorf("a client does not know %s", c.ID)
		}
	}
	if got := plainNumber(1_000); got != "1k" {
		t.Errorf("1000 is written %q", got)
	}
}

// The arguments that a client is started with make the program one, and no others do.
func TestMainKnowsClients(t *testing.T) {
	if _, ok := Main([]string{"-quick"}); ok {
		t.Error("an option makes the program a client")
	}
	if _, ok := Main(nil); ok {
		t.Error("no argument makes the program a client")
	}
	if status, ok := Main([]string{clientCommand, "not JSON"}); !ok || status != 2 {
		t.Errorf("a client without a spec ends with %d, %v", status, ok)
	}
	args, err := Spec{Work: "open", Root: "/x"}.Args()
	var s Spec
	if err != nil || len(args) != 2 || args[0] != clientCommand || json.Unmarshal([]byte(args[1]), &s) != nil || s.Root != "/x" {
		t.Errorf("the arguments are %q, %v", args, err)
	}
}

// client runs a work as a client does, on files of its own, and returns what it says.
func client(t *testing.T, s Spec, in string) (said string, r Result, err error) {
	t.Helper()
	var out strings.Builder
	r, err = runClient(s, strings.NewReader(in), &out)
	return out.String(), r, err
}

// A client says that it is ready, and counts when it is told to.
func TestClient(t *testing.T) {
	root := t.TempDir()
	if err := os.MkdirAll(filepath.Join(root, createDir), 0o755); err != nil {
		t.Fatal(err)
	}
	s := Spec{Work: "create", Root: root, Data: root, BudgetNS: int64(time.Millisecond)}
	said, r, err := client(t, s, GoLine)
	if err != nil || said != ReadyLine || r.Ops < 1 || r.End-r.Start < int64(time.Millisecond) {
		t.Errorf("the client says %q, %+v, %v", said, r, err)
	}
	if names, err := os.ReadDir(filepath.Join(root, createDir)); err != nil || len(names) > 0 {
		t.Errorf("the work leaves %v, %v", names, err)
	}
	if _, r, err := client(t, s, ""); !errors.Is(err, io.EOF) || r.Ops > 0 {
		t.Errorf("a client that is not told to start does %d operations, %v", r.Ops, err)
	}
	s.Work = "no such"
	if said, _, err := client(t, s, GoLine); err == nil || said != "" {
		t.Errorf("a work that is not there: %q, %v", said, err)
	}
}

// A fixed number of operations is done whatever the budget.
func TestMeasureFixed(t *testing.T) {
	calls := 0
	j := &job{warm: 5, batch: 4, fixed: 10, op: func(i int) error {
		if i != 5+calls {
			t.Errorf("operation %d has the number %d", calls, i)
		}
		calls++
		return nil
	}}
	if r, err := j.measure(0); err != nil || r.Ops != 12 || calls != 12 {
		t.Errorf("%d operations, %d calls, %v; want the first whole batch after 10", r.Ops, calls, err)
	}
}

// Of a path an error tells the last name, and a complaint is one line.
func TestErrors(t *testing.T) {
	if err := At("open", "/a/b/c", os.ErrNotExist); err.Error() != "open c: file does not exist" || !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
	if err := At("open", "/a", nil); err != nil {
		t.Error(err)
	}
	if got := Shorten(" a\n b\t" + strings.Repeat("c", 400)); got != "a b "+strings.Repeat("c", 296)+" …" {
		t.Errorf("shortened to %q", got)
	}
}
