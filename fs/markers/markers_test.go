package markers

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"
)

// tree is a directory whose looks are counted.
type tree struct {
	t     *testing.T
	root  string
	names []string // the markers
	find  *Finder

	mu    sync.Mutex // guards what follows
	looks map[string]int
	then  func() // called by a look, once
}

func newTree(t *testing.T, markers ...string) *tree {
	t.Helper()
	tr := &tree{t: t, root: t.TempDir(), names: markers, looks: map[string]int{}}
	tr.find = New(Config{
		Markers: func() []string { return tr.names }, Open: tr.open,
		IsShown: func(name string) bool { return !strings.HasPrefix(name, ".hidden") },
	})
	return tr
}

func (tr *tree) open(dir string) (int, bool) {
	tr.mu.Lock()
	tr.looks[dir]++
	then := tr.then
	tr.then = nil
	tr.mu.Unlock()
	if then != nil {
		then()
	}
	fd, err := unix.Open(filepath.Join(tr.root, dir), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	return fd, err == nil
}

func (tr *tree) must(err error) {
	tr.t.Helper()
	if err != nil {
		tr.t.Fatal(err)
	}
}

// make makes files, and the directories above them.
func (tr *tree) make(files ...string) {
	tr.t.Helper()
	for _, name := range files {
		at := filepath.Join(tr.root, name)
		tr.must(os.MkdirAll(filepath.Dir(at), 0o755))
		tr.must(os.WriteFile(at, nil, 0o644))
	}
}

func (tr *tree) want(dir string, markers ...string) {
	tr.t.Helper()
	if got := tr.find.At(dir); !slices.Equal(got, markers) {
		tr.t.Errorf("%q holds %q, want %q", dir, got, markers)
	}
}

func (tr *tree) lookedAt(dir string, times int) {
	tr.t.Helper()
	tr.mu.Lock()
	defer tr.mu.Unlock()
	if tr.looks[dir] != times {
		tr.t.Errorf("%q was looked at %d times, want %d", dir, tr.looks[dir], times)
	}
}

// A marker counts in its directory and in all below, and nowhere else.
func TestWhere(t *testing.T) {
	tr := newTree(t, "A", "B")
	tr.make("pg/A", "pg/base/1/B", "other/x", "A/not", "name")
	tr.must(os.Mkdir(filepath.Join(tr.root, "other/B"), 0o755))
	tr.want("")
	tr.want("pg", "A")
	tr.want("pg/base", "A")
	tr.want("pg/base/1", "A", "B")
	tr.want("pg/base/1/2", "A", "B") // which is not there
	tr.want("other")                 // a directory marks nothing
	tr.want("other/B")
	tr.want("name")
	tr.want("name/below")
	tr.make("B")
	tr.find.Forget()
	tr.want("", "B")
	tr.want("pg/base", "B", "A")
}

// A marker of several files is there when all of them are, by name or by glob.
func TestSeveralFiles(t *testing.T) {
	tr := newTree(t, "CURRENT+MANIFEST-*", "*.wal+*.db")
	tr.make("a/CURRENT", "b/CURRENT", "b/MANIFEST-1", "c/MANIFEST-1", "d/x.wal", "d/x.db", "e/x.wal", "f/.hidden.wal", "f/x.db")
	tr.must(os.Mkdir(filepath.Join(tr.root, "a/MANIFEST-1"), 0o755))
	tr.want("a")
	tr.want("b", "CURRENT+MANIFEST-*")
	tr.want("c")
	tr.want("d", "*.wal+*.db")
	tr.want("e")
	tr.want("f") // which users do not see
}

// In a large directory each name is looked at.
func TestLargeDirectory(t *testing.T) {
	tr := newTree(t, "*.wal")
	tr.must(os.Mkdir(filepath.Join(tr.root, "d"), 0o755))
	for n := range 3*atOnce + 7 {
		tr.make(fmt.Sprintf("d/%d", n))
	}
	tr.want("d")
	for n := range 5 {
		name := fmt.Sprintf("d/%d.wal", n)
		tr.make(name)
		tr.find.Forget()
		tr.want("d", "*.wal")
		tr.must(os.Remove(filepath.Join(tr.root, name)))
	}
}

// Where others may make files, a file of one of them marks nothing.
func TestOthersFiles(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("takes root, to make files of others")
	}
	const ann, bob = 61001, 61002
	for what, c := range map[string]struct {
		mode       os.FileMode
		dir, owner int
		marks      bool
	}{
		"its owner's":             {0o755, ann, ann, true},
		"root's":                  {0o777, ann, 0, true},
		"another's":               {0o755, ann, bob, true}, // given by whoever alone may put it there
		"another's, in a sticky":  {0o1777, 0, bob, false},
		"another's, in a group's": {0o775, ann, bob, false},
		"its owner's, in a group": {0o775, ann, ann, true},
	} {
		tr := newTree(t, "A", "*B")
		tr.make("d/A", "d/xB")
		for _, name := range []string{"d/A", "d/xB"} {
			tr.must(os.Chown(filepath.Join(tr.root, name), c.owner, c.owner))
		}
		tr.must(os.Chown(filepath.Join(tr.root, "d"), c.dir, c.dir))
		tr.must(unix.Chmod(filepath.Join(tr.root, "d"), uint32(c.mode)))
		if got := len(tr.find.At("d")) == 2; got != c.marks {
			t.Errorf("%s: %v, want %v", what, got, c.marks)
		}
	}
}

// Symbolic links mark nothing, wherever they lead.
func TestLinks(t *testing.T) {
	tr := newTree(t, "A", "*B")
	tr.make("there/A", "there/xB", "d/x")
	for _, name := range []string{"A", "xB"} {
		tr.must(os.Symlink("../there/"+name, filepath.Join(tr.root, "d", name)))
	}
	tr.want("d")
}

// What was found is believed for a second, and not when names have come or gone.
func TestHold(t *testing.T) {
	tr := newTree(t, "A")
	tr.make("d/x/y")
	synctest.Test(t, func(t *testing.T) {
		tr.want("d/x")
		tr.want("d/x")
		tr.lookedAt("d/x", 1)
		tr.lookedAt("d", 1)
		tr.want("d")
		tr.lookedAt("d", 1)
		tr.make("d/A") // outside the mount
		time.Sleep(hold - 1)
		tr.want("d/x")
		time.Sleep(time.Nanosecond)
		tr.want("d/x", "A")
		tr.lookedAt("d/x", 2)
		tr.must(os.Remove(filepath.Join(tr.root, "d/A")))
		tr.find.Forget() // through the mount
		tr.want("d/x")
		tr.lookedAt("d/x", 3)
	})
}

// A look that began before something came is not remembered: it may have missed that.
func TestForgottenDuringALook(t *testing.T) {
	tr := newTree(t, "A")
	tr.make("d/x/y")
	tr.find.At("d")
	tr.then = func() {
		tr.make("d/A")
		tr.find.Forget()
	}
	tr.find.At("d/x")
	tr.want("d/x", "A")
	tr.lookedAt("d/x", 2)
}

// So many are remembered and no more, and each answer is right.
func TestBound(t *testing.T) {
	tr := newTree(t, "A")
	tr.make("d/A")
	for n := range 2*most + 10 {
		tr.want(fmt.Sprintf("d/%d", n), "A")
		if len(tr.find.found) > most {
			t.Fatalf("%d directories are remembered", len(tr.find.found))
		}
	}
}

// Nothing stays open, and many may ask at once.
func TestAtOnce(t *testing.T) {
	tr := newTree(t, "A", "*B")
	tr.make("d/A", "d/x/xB")
	before := openFiles(t)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 100 {
				tr.want("d/x", "A", "*B")
				tr.find.Forget()
			}
		})
	}
	wg.Wait()
	if after := openFiles(t); after != before {
		t.Errorf("%d descriptors before, %d after", before, after)
	}
}

func openFiles(t *testing.T) int {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(list)
}
