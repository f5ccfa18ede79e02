package report

import (
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// noon is when every test takes place.
var noon = time.Date(2025, time.November, 21, 12, 0, 0, 0, time.UTC)

// The viewers of the tests: the holder's own user, and somebody else.
var (
	alice    = Viewer{UID: 1000, PID: 7000}
	stranger = Viewer{UID: 2000, PID: 8000}
)

// hides is the sight of a viewer who may not search these directories.
type hides []string

func (h hides) Sees(path string, _ uint32) bool {
	top, _, _ := strings.Cut(path, "/")
	return !slices.Contains(h, top)
}

func (h hides) Stands() bool { return true }

// python has a lease, and a label.
func python() Record {
	return Record{
		Path: "src/a.json", State: Held, Mode: "exclusive", Class: "session",
		Asker: Asker{Owner: Process{4711, 99}, Host: "deimos", Program: "python3", Cmdline: []string{"python3", "/opt/agent/run me.py", "--fast"}, Cwd: "/srv/data", UID: 1000, Actor: "agent-7"}, Session: "s-17", Operation: "open", Token: 17,
		Since: noon.Add(-5*time.Minute - 10*time.Second), LastSeen: noon.Add(-4 * time.Second),
		TTL: 15 * time.Minute, Waiters: 2,
	}
}

// silent has given no sign of life for longer than its lease.
func silent() Record {
	return Record{
		Path: "log/old report.txt", State: Held, Mode: "exclusive", Class: "session",
		Asker: Asker{Owner: Process{600, 7}, Host: "deimos", Program: "soffice.bin", Cmdline: []string{"soffice"}, Cwd: "/home/bob", UID: 2000}, Session: "s-2", Operation: "open", Token: 2,
		Since: noon.Add(-27 * time.Hour), LastSeen: noon.Add(-26 * time.Hour), TTL: 900 * time.Second, Stale: true,
	}
}

// flock has no session.
func flock() Record {
	return Record{
		Path: "db.lck", State: Held, Mode: "shared", Class: "flock", Asker: Asker{Owner: Process{800, 8}, Host: "deimos", Program: "flock", UID: 1000, Cmdline: []string{"flock", "-s", "db.lck"}, Cwd: "/"}, Operation: "flock", Token: 21,
		Since: noon.Add(-300 * time.Millisecond),
	}
}

// foreign is in another pid namespace.
func foreign() Record {
	return Record{
		Path: strings.Repeat("deep/", 20) + "file", State: Held, Mode: "exclusive", Class: "session",
		Asker: Asker{Program: "node", Owner: Process{0, 5}, UID: 1000}, Operation: "rename", Token: 30,
		Since: noon.Add(-72 * time.Hour), Session: "s-30",
	}
}

// deploy is a lock without a file.
func deploy() Record {
	return Record{
		Name: "deploy", Key: "//name/deploy", Mode: "exclusive", Class: "session", Asker: Asker{Owner: Process{500, 5}, Host: "deimos", Program: "bash", Actor: "ci", UID: 1000}, Session: "req-9", Operation: "rollout", Token: 40,
		Since: noon.Add(-20 * time.Minute), LastSeen: noon.Add(-2 * time.Second), TTL: 900 * time.Second, Waiters: 2,
	}
}

// backup is one that is stale.
func backup() Record {
	r := deploy()
	r.Name, r.Key, r.Stale, r.Token = "backup", "//name/backup", true, 3
	r.Since = noon.Add(-2 * time.Hour)
	r.LastSeen, r.StaleSince = noon.Add(-20*time.Minute), noon.Add(-5*time.Minute)
	return r
}

// held are all of them, and locks of every scope.
func held() []*Record {
	tree := deploy()
	tree.Name, tree.Path, tree.Tree, tree.File, tree.Key = "", "memory", true, "memory/tasks.json", "memory"
	below := tree
	below.Path, below.Tree, below.File, below.Key, below.Token = "memory/x", false, "", "//inode/8:77", 42
	var list []*Record
	for _, r := range []Record{python(), silent(), flock(), foreign(), deploy(), backup(), tree, below} {
		list = append(list, &r)
	}
	return list
}

// golden compares got with testdata/name.
func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s (-want +got):\n%s", path, diff)
	}
}
