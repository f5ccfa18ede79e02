package locksdir

import (
	"flag"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"latchfs/fs/report"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// noon is when every test takes place.
var noon = time.Date(2025, time.November, 21, 12, 0, 0, 0, time.UTC)

// fakeSource answers from its fields.
type fakeSource struct {
	gen           uint64
	hidden        *[]string // what all but the privileged may not search
	held, waiting []report.Record
	refusals      []report.Refusal
	events        memoryLog
	now           time.Time

	// cost is how long Held takes on the source's own clock.
	cost time.Duration
	// namesListed counts the calls of HistoryIn.
	namesListed int
	// heldCalls counts the calls of Held.
	heldCalls atomic.Int64
	// released are the names of released locks, and group the records with
	// which the last one was.
	released []string
	group    []report.Record
	kept     []Rejected
	// listed counts the calls of Rejected.
	listed int
	refuse error
	// stopping is what Stopping answers.
	stopping bool

	versions   []Version
	historyGen uint64
	histories  atomic.Int64 // calls of History
}

func newFake() *fakeSource { return &fakeSource{now: noon} }

func (f *fakeSource) Generation() uint64 { return f.gen }

func (f *fakeSource) Sight(v report.Viewer) report.Sight {
	if v.Privileged || f.hidden == nil {
		return nil
	}
	return &fakeSight{f.hidden, slices.Clone(*f.hidden)}
}

// fakeSight hides everything below some directories.
type fakeSight struct {
	now *[]string
	was []string
}

func (s *fakeSight) Sees(path string, _ uint32) bool {
	return !slices.ContainsFunc(*s.now, func(dir string) bool { return strings.HasPrefix(path, dir+"/") })
}

func (s *fakeSight) Stands() bool { return slices.Equal(s.was, *s.now) }

func (f *fakeSource) Stopping() bool { return f.stopping }

func (f *fakeSource) Held() []report.Record {
	f.heldCalls.Add(1)
	if f.cost > 0 {
		f.now = f.now.Add(f.cost)
	}
	return append([]report.Record(nil), f.held...)
}

func (f *fakeSource) Waiting() []report.Record { return append([]report.Record(nil), f.waiting...) }
func (f *fakeSource) Why(report.Viewer) []report.Refusal {
	return append([]report.Refusal(nil), f.refusals...)
}
func (f *fakeSource) Events() EventLog              { return &f.events }
func (f *fakeSource) Programs(report.Viewer) []byte { return []byte("none\n") }
func (f *fakeSource) Policy() []byte                { return []byte("[defaults]\nwait = \"30s\"\n") }
func (f *fakeSource) Started() time.Time            { return noon.Add(-26*time.Hour - 5*time.Minute) }
func (f *fakeSource) Now() time.Time                { return f.now }

func (f *fakeSource) Rejected(report.Viewer) []Rejected {
	f.listed++
	return append([]Rejected(nil), f.kept...)
}

func (f *fakeSource) FindRejected(id string, _ report.Viewer) (Rejected, bool) {
	for _, r := range f.kept {
		if r.ID == id {
			return r, true
		}
	}
	return Rejected{}, false
}

func (f *fakeSource) HistoryGeneration() uint64 { return f.historyGen }

func (f *fakeSource) History(v report.Viewer) iter.Seq[Version] {
	return func(yield func(Version) bool) {
		f.histories.Add(1)
		if f.cost > 0 {
			f.now = f.now.Add(f.cost)
		}
		for _, k := range f.versions {
			if v.May(report.RightRead, k.FileUID, k.FileGID, k.Mode) && !yield(k) {
				return
			}
		}
	}
}

func (f *fakeSource) HistoryOf(path string, v report.Viewer) []Version {
	return slices.DeleteFunc(slices.Collect(f.History(v)), func(k Version) bool { return k.Path != path })
}

func (f *fakeSource) HistoryIn(dir string, v report.Viewer) []string {
	f.namesListed++
	var names []string
	for k := range f.History(v) {
		below, ok := k.Path, true
		if dir != "" {
			below, ok = strings.CutPrefix(k.Path, dir+"/")
		}
		if name, _, _ := strings.Cut(below, "/"); ok && k.Kept && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

func (f *fakeSource) HistoryLeadsOn(dir string, v report.Viewer) bool {
	listed := f.namesListed
	defer func() { f.namesListed = listed }()
	return len(f.HistoryIn(dir, v)) > 0
}

func (f *fakeSource) Release(group []report.Record, _ report.Viewer) error {
	if f.refuse != nil {
		return f.refuse
	}
	f.released, f.group = append(f.released, group[0].ID()), group
	return nil
}

// memoryLog is an EventLog.
type memoryLog struct{ data string }

func (l *memoryLog) ReadAt(p []byte, off int64) (int, error) {
	return strings.NewReader(l.data).ReadAt(p, off)
}
func (l *memoryLog) Size() int64 { return int64(len(l.data)) }

// The viewers of the tests: root, the holder's own user, and somebody else.
var (
	root     = report.Viewer{Privileged: true, PID: 1}
	alice    = report.Viewer{UID: 1000, PID: 7000}
	stranger = report.Viewer{UID: 2000, PID: 8000}
)

// busy is a mount on which a good deal goes on.
func busy() *fakeSource {
	f := newFake()
	python := report.Record{
		Path: "src/a.json", State: report.Held, Mode: "exclusive", Class: "session",
		Asker: report.Asker{Owner: report.Process{PID: 4711, Start: 99}, Host: "deimos", Program: "python3", Cmdline: []string{"python3", "/opt/agent/run me.py", "--fast"}, Cwd: "/srv/data", UID: 1000, Actor: "agent-7"}, Session: "s-17", Operation: "open", Token: 17,
		Since: noon.Add(-5*time.Minute - 10*time.Second), LastSeen: noon.Add(-4 * time.Second),
		TTL: 15 * time.Minute, Waiters: 2,
	}
	stale := report.Record{
		Path: "log/old report.txt", State: report.Held, Mode: "exclusive", Class: "session",
		Asker: report.Asker{Owner: report.Process{PID: 600, Start: 7}, Host: "deimos", Program: "soffice.bin", Cmdline: []string{"soffice"}, Cwd: "/home/bob", UID: 2000}, Session: "s-2", Operation: "open", Token: 2,
		Since: noon.Add(-27 * time.Hour), LastSeen: noon.Add(-26 * time.Hour), TTL: 900 * time.Second, Stale: true,
	}
	reader := report.Record{
		Path: "db.lck", State: report.Held, Mode: "shared", Class: "flock", Asker: report.Asker{Owner: report.Process{PID: 800, Start: 8}, Host: "deimos", Program: "flock", UID: 1000, Cmdline: []string{"flock", "-s", "db.lck"}, Cwd: "/"}, Operation: "flock", Token: 21,
		Since: noon.Add(-300 * time.Millisecond),
	}
	second := reader
	second.Owner, second.Token, second.UID = report.Process{PID: 801, Start: 8}, 20, 2000
	foreign := report.Record{
		Path: strings.Repeat("deep/", 20) + "file", State: report.Held, Mode: "exclusive", Class: "session",
		Asker: report.Asker{Program: "node", Owner: report.Process{PID: 0, Start: 5}, UID: 1000}, Operation: "rename", Token: 30,
		Since: noon.Add(-72 * time.Hour), Session: "s-30",
	}
	nasty := report.Record{
		Path: "evil\n\x1b[2J\xff.txt", State: report.Held, Mode: "exclusive", Class: "session",
		Asker: report.Asker{Program: "sh\x07", Owner: report.Process{PID: 9, Start: 9}, UID: 1000}, Operation: "open", Token: 31, Since: noon,
	}
	f.held = []report.Record{python, stale, reader, second, foreign, nasty}
	vim := report.Record{
		Path: "src/a.json", State: report.Waiting, Mode: "exclusive", Class: "session", Asker: report.Asker{Owner: report.Process{PID: 4800, Start: 100}, Host: "deimos", Program: "vim", UID: 1000, Cmdline: []string{"vim", "src/a.json"}, Cwd: "/srv/data"}, Operation: "rename", Since: noon.Add(-12 * time.Second),
		Deadline: noon.Add(18 * time.Second), WaitsFor: []string{"python3[4711]"},
	}
	tee := vim
	tee.Program, tee.Owner, tee.Operation, tee.Since = "tee", report.Process{PID: 4801, Start: 101}, "open", noon.Add(-2*time.Second)
	tee.Deadline, tee.WaitsFor = time.Time{}, []string{"python3[4711]", "vim[4800]"}
	cat := tee
	cat.Path, cat.Program, cat.Owner, cat.Since = "z/last", "cat", report.Process{PID: 4802, Start: 102}, noon.Add(-20*time.Second)
	cat.WaitsFor, cat.UID = nil, 2000
	f.waiting = []report.Record{vim, tee, cat}
	return f
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

// read opens path and reads it whole; the sizes that Stat and Content tell must
// agree with it.
func read(t testing.TB, tree *Tree, path string, v report.Viewer) []byte {
	t.Helper()
	e, err := tree.Stat(path, v)
	if err != nil {
		t.Fatalf("Stat(%q): %v", path, err)
	}
	c, err := tree.Open(path, v)
	if err != nil {
		t.Fatalf("Open(%q): %v", path, err)
	}
	defer c.Close()
	b := make([]byte, c.Size())
	if n, err := c.ReadAt(b, 0); n != len(b) {
		t.Fatalf("ReadAt(%q) = %d of %d bytes, %v", path, n, len(b), err)
	}
	if e.Size != c.Size() {
		t.Errorf("%q: Stat says %d bytes, Open gives %d", path, e.Size, c.Size())
	}
	if n, err := c.ReadAt(make([]byte, 1), c.Size()); n != 0 || err == nil {
		t.Errorf("%q: reading at the end gives %d bytes, %v", path, n, err)
	}
	return b
}

// wantErrno fails unless err is want.
func wantErrno(t *testing.T, what string, err error, want syscall.Errno) {
	t.Helper()
	if err != want {
		t.Errorf("%s = %v, want %v", what, err, want)
	}
}
