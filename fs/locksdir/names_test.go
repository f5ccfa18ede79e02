package locksdir

import (
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"pgregory.net/rapid"

	"latchfs/fs/report"
)

// deploys is a mount with locks of every scope.
func deploys() *fakeSource {
	f := newFake()
	deploy := report.Record{
		Name: "deploy", Key: "//name/deploy", Mode: "exclusive", Class: "session", Asker: report.Asker{Owner: report.Process{PID: 500, Start: 5}, Host: "deimos", Program: "bash", Actor: "ci", UID: 1000}, Session: "req-9", Operation: "rollout", Token: 40,
		Since: noon.Add(-20 * time.Minute), LastSeen: noon.Add(-2 * time.Second), TTL: 900 * time.Second, Waiters: 2,
	}
	tree := deploy
	tree.Name, tree.Path, tree.Tree, tree.File, tree.Key = "", "memory", true, "memory/tasks.json", "memory"
	tree.Token, tree.Session, tree.Operation, tree.Waiters = 41, "s-41", "open", 0
	below := tree
	below.Path, below.Tree, below.File, below.Key, below.Token = "memory/x", false, "", "//inode/8:77", 42
	file := below
	file.Path, file.Key, file.Token = "deploy", "deploy", 43
	stale := deploy
	stale.Name, stale.Key, stale.Stale, stale.Token = "backup", "//name/backup", true, 3
	stale.Since = noon.Add(-2 * time.Hour)
	stale.LastSeen, stale.StaleSince = noon.Add(-20*time.Minute), noon.Add(-5*time.Minute)
	f.held = []report.Record{deploy, tree, below, file, stale}

	second := report.Record{
		Name: "deploy", Mode: "exclusive", Class: "session", Asker: report.Asker{Owner: report.Process{PID: 501, Start: 5}, Program: "bash", UID: 1000},
		Operation: "rollout", Since: noon.Add(-time.Minute), WaitsFor: []string{"bash[500]"},
	}
	third := second
	third.Owner, third.WaitsFor, third.Ahead = report.Process{PID: 502, Start: 5}, []string{"bash[500]", "bash[501]"}, 1200
	path := second
	path.Name, path.Path, path.Tree, path.Since = "", "memory", true, noon.Add(-time.Second)
	f.waiting = []report.Record{second, third, path}
	return f
}

func names(t testing.TB, tree *Tree, dir string, v report.Viewer) []string {
	t.Helper()
	entries, err := tree.List(dir, v)
	if err != nil {
		t.Fatalf("List(%q): %v", dir, err)
	}
	var list []string
	for _, e := range entries {
		list = append(list, e.Name)
	}
	return list
}

// A lock with a name is in names/ and not in held/, its queue beside it.
func TestNamedLocks(t *testing.T) {
	tree := New(deploys())
	for dir, want := range map[string][]string{
		"names":       {"backup.lock", "deploy.lock", "deploy.queue"},
		"held":        {"deploy.lock", "memory", "memory.lock"},
		"held/memory": {"x.lock"},
		"waiting":     {"memory"},
	} {
		if got := names(t, tree, dir, root); !slices.Equal(got, want) {
			t.Errorf("%s lists %q, want %q", dir, got, want)
		}
	}
	for path, mode := range map[string]uint32{"names/deploy.lock": 0o644, "names/deploy.queue": 0o444} {
		if e, err := tree.Stat(path, root); err != nil || e.Mode != mode || e.UID != 1000 {
			t.Errorf("Stat(%q) = %+v, %v", path, e, err)
		}
	}
	_, err := tree.Stat("names/deploy.lock/x", root)
	wantErrno(t, "Stat below a lock", err, syscall.ENOENT)
}

// rm releases what the file shows: all who hold that lock, and it alone.
func TestRemoveNamed(t *testing.T) {
	src := deploys()
	tree := New(src)
	wantErrno(t, "Remove of a queue", tree.Remove("names/deploy.queue", alice), syscall.EPERM)
	wantErrno(t, "Remove of names/", tree.Remove("names", alice), syscall.EISDIR)
	if err := tree.Remove("names/deploy.lock", alice); err != nil {
		t.Fatal(err)
	}
	if len(src.group) != 1 || src.group[0].Token != 40 || src.group[0].Name != "deploy" {
		t.Errorf("released %+v", src.group)
	}
}

func TestRemoveGivesTheGroup(t *testing.T) {
	src := busy()
	if err := New(src).Remove("held/db.lck.lock", alice); err != nil {
		t.Fatal(err)
	}
	var tokens []uint64
	for _, r := range src.group {
		tokens = append(tokens, r.Token)
	}
	if want := []uint64{20, 21}; !slices.Equal(tokens, want) {
		t.Errorf("released the tokens %v, want %v", tokens, want)
	}
}

// However nasty the names, every lock and every queue has a file of its own,
// flat in names/, which gives the exact name back.
func TestEveryNameHasItsFile(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		src := newFake()
		list := rapid.SliceOfNDistinct(nastyPath(), 0, 12, rapid.ID).Draw(t, "names")
		list = slices.DeleteFunc(list, func(s string) bool { return s == "" })
		for _, name := range list {
			src.held = append(src.held, report.Record{Name: name})
			src.waiting = append(src.waiting, report.Record{Name: name})
		}
		tree := New(src)
		var held, queued []string
		walk(t, tree, "names", func(path string, content []byte) {
			switch {
			case strings.Count(path, "/") != 1:
				t.Fatalf("%q is not flat", path)
			case strings.HasSuffix(path, report.RecordSuffix):
				held = append(held, nameIn(t, content))
			case strings.HasSuffix(path, queueSuffix):
				queued = append(queued, nameIn(t, content))
			default:
				t.Fatalf("%q is neither a lock nor a queue", path)
			}
		})
		want := slices.Sorted(slices.Values(list))
		for _, got := range [][]string{held, queued} {
			if slices.Sort(got); !slices.Equal(got, want) {
				t.Fatalf("files for %q, locks %q", got, want)
			}
		}
		walk(t, tree, "held", func(path string, _ []byte) { t.Fatalf("%q in held/", path) })
		walk(t, tree, "waiting", func(path string, _ []byte) { t.Fatalf("%q in waiting/", path) })
	})
}

// A heartbeat changes no size, whenever it is.
func TestHeartbeatKeepsTheSize(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		size := func(seen time.Time) int64 {
			src := newFake()
			src.held = []report.Record{{Path: "f", Since: noon, LastSeen: seen, TTL: time.Hour}}
			e, err := New(src).Stat("held/f.lock", root)
			if err != nil {
				t.Fatal(err)
			}
			return e.Size
		}
		zone := time.FixedZone("", rapid.IntRange(-12*3600, 14*3600).Draw(t, "zone"))
		seen := time.Unix(noon.Unix(), 0).In(zone).Add(time.Duration(rapid.Int64Min(0).Draw(t, "later")))
		if before, after := size(time.Time{}), size(seen); before != after {
			t.Fatalf("%d bytes before the heartbeat at %v, %d after", before, seen, after)
		}
	})
}

// However long it takes to take a snapshot, it serves for a second at most.
func TestSnapshotIsAtMostASecondOld(t *testing.T) {
	for _, cost := range []time.Duration{0, time.Millisecond, 20 * time.Millisecond, 400 * time.Millisecond, 3 * time.Second} {
		src := &restless{fakeSource: busy()}
		src.cost = cost
		tree := New(src)
		first := tree.snapshot(maxAgeOpen)
		src.now = src.now.Add(time.Second)
		if tree.snapshot(maxAgeOpen) == first {
			t.Errorf("taken in %v, it serves after a second", cost)
		}
	}
}
